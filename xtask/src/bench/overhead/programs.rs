//! What a request spends in each BPF program, by the kernel's statistics: the parts of the agent's cost.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::figures::Spread;
use crate::e2e::samples::Sample;

/// A program that runs more seldom than this for a request is left out.
const RARE: f64 = 0.01;

/// The totals of each program so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals(BTreeMap<String, Total>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Total {
    runs: f64,
    seconds: f64,
}

/// What a request spends in a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Runs for each request.
    pub(super) runs: f64,
    /// Nanoseconds for each run.
    pub(super) ns: f64,
}

impl Share {
    /// Nanoseconds for each request.
    pub(super) fn whole(&self) -> f64 {
        self.runs * self.ns
    }
}

/// By program.
pub(super) type Shares = BTreeMap<String, Share>;

impl Totals {
    /// From a scrape of the agent.
    pub(super) fn of(samples: &[Sample]) -> Self {
        let mut totals = Self::default();
        for sample in samples {
            let Some(program) = sample.labels.get("program") else { continue };
            let total = totals.0.entry(program.clone()).or_default();
            match sample.name.as_str() {
                "sysprobe_agent_program_runs_total" => total.runs += sample.value,
                "sysprobe_agent_program_run_seconds_total" => total.seconds += sample.value,
                _ => {}
            }
        }
        totals
    }

    /// What so many requests have spent since `before`. An error if no program has run.
    pub(super) fn shares(&self, before: &Self, requests: f64) -> Result<Shares> {
        let share = |(program, after): (&String, &Total)| {
            let before = before.0.get(program).copied().unwrap_or_default();
            let (runs, seconds) = (after.runs - before.runs, after.seconds - before.seconds);
            (runs > 0.0).then(|| (program.clone(), Share { runs: runs / requests, ns: seconds * 1e9 / runs }))
        };
        let shares: Shares = self.0.iter().filter_map(share).collect();
        if shares.is_empty() {
            bail!("no program ran: the kernel's statistics of BPF programs are off");
        }
        Ok(shares)
    }
}

/// The medians over several parts, of the programs that matter. A program that did not run in a part counts
/// as one without runs.
pub(super) fn medians(parts: &[Shares]) -> Shares {
    let names: BTreeSet<&String> = parts.iter().flat_map(BTreeMap::keys).collect();
    let median = |name: &String| {
        let runs = Spread::of(parts.iter().map(|part| part.get(name).map_or(0.0, |share| share.runs)))?;
        let ns = Spread::of(parts.iter().filter_map(|part| part.get(name)).map(|share| share.ns))?;
        (runs.median >= RARE).then(|| (name.clone(), Share { runs: runs.median, ns: ns.median }))
    };
    names.into_iter().filter_map(median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e2e::samples;

    fn totals(text: &str) -> Totals {
        Totals::of(&samples::parse(text).unwrap())
    }

    const BEFORE: &str = r#"
sysprobe_agent_program_runs_total{program="a"} 10.0
sysprobe_agent_program_run_seconds_total{program="a"} 0.001
sysprobe_agent_program_runs_total{program="b"} 7.0
sysprobe_agent_program_run_seconds_total{program="b"} 0.5
"#;
    const AFTER: &str = r#"
sysprobe_agent_program_runs_total{program="a"} 2010.0
sysprobe_agent_program_run_seconds_total{program="a"} 0.001200
sysprobe_agent_program_runs_total{program="b"} 7.0
sysprobe_agent_program_run_seconds_total{program="b"} 0.5
sysprobe_agent_program_missed_total{program="b"} 3.0
"#;

    #[test]
    fn a_share_is_the_growth_divided_by_the_requests() {
        let shares = totals(AFTER).shares(&totals(BEFORE), 1000.0).unwrap();
        let share = shares["a"];
        assert!((share.runs - 2.0).abs() < 1e-9 && (share.ns - 100.0).abs() < 1e-6, "{share:?}");
        assert!((share.whole() - 200.0).abs() < 1e-6, "{share:?}");
        // It did not run.
        assert!(!shares.contains_key("b"), "{shares:?}");
        let error = totals(AFTER).shares(&totals(AFTER), 1000.0).unwrap_err().to_string();
        assert!(error.contains("statistics of BPF programs are off"), "{error}");
    }

    #[test]
    fn rare_programs_are_left_out() {
        let part = |runs| Shares::from([("a".to_owned(), Share { runs, ns: 50.0 })]);
        assert_eq!(medians(&[part(0.2), part(0.1), part(0.3)])["a"], Share { runs: 0.2, ns: 50.0 });
        assert_eq!(medians(&[part(0.2), Shares::new(), Shares::new()]), Shares::new());
        assert_eq!(medians(&[]), Shares::new());
    }
}
