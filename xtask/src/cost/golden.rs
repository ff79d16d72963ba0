//! `docs/overhead.json`: the reproducible counts of each kernel. No side effects.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::report::{Line, Program, Refused, RoundTrip, Spread, Watched};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Golden {
    /// From the oldest to the newest.
    pub(super) kernels: Vec<Kernel>,
}

/// The counts of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kernel {
    pub(super) series: String,
    pub(super) release: String,
    /// The version of the programs.
    #[serde(default, flatten)]
    pub(super) source: Source,
    pub(super) programs: Vec<Row>,
    pub(super) round_trips: Vec<Trip>,
    /// Counts that are not compared, because other projects' tools change independently.
    #[serde(default)]
    pub(super) calls: Vec<Watch>,
    /// Counts of whole requests.
    #[serde(default)]
    pub(super) requests: Vec<Watch>,
    pub(super) refused: Vec<Refused>,
}

/// The version of the programs that were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    /// With its date.
    #[serde(default)]
    pub(super) commit: String,
    /// The SHA-256 of each eBPF object, by name. Unchanged objects need no new count.
    #[serde(default)]
    pub(super) objects: BTreeMap<String, String>,
}

/// One program in one attach mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) domain: String,
    pub(super) mode: String,
    pub(super) program: String,
    pub(super) hook: String,
    /// Instructions of a run; `None` if the program could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<u64>,
    /// The highest count of all boots, if it differs: the data that a program finds varies from boot to boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) most: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verified: Option<u32>,
    /// Why there is no count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

/// Instructions that the programs add to a round trip, which is two context switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trip {
    pub(super) mode: String,
    pub(super) empty: u64,
    pub(super) product: u64,
}

/// Instructions of a call, and those that the programs of one agent or tool add to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Watch {
    pub(super) call: String,
    pub(super) with: String,
    pub(super) nothing: u64,
    pub(super) added: u64,
}

// === impl Golden ===

impl Golden {
    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).context("docs/overhead.json has another form: run `cargo xtask cost`")
    }

    /// One line for each row, so that a changed row is one changed line.
    pub(super) fn to_text(&self) -> String {
        let kernels: Vec<String> = self.kernels.iter().map(Kernel::to_text).collect();
        format!("{{\"kernels\": [\n{}\n]}}\n", kernels.join(",\n"))
    }

    pub(super) fn kernel(&self, series: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.series == series)
    }

    /// Replaces the older counts of the same kernel.
    pub(super) fn replace(&mut self, kernel: Kernel) {
        self.kernels.retain(|known| known.series != kernel.series);
        self.kernels.push(kernel);
        let numbers = |kernel: &Kernel| -> Vec<u32> {
            kernel.series.split('.').filter_map(|number| number.parse().ok()).collect()
        };
        self.kernels.sort_by_key(numbers);
    }
}

// === impl Kernel ===

impl Kernel {
    /// The counts of these programs from one boot.
    pub(super) fn of(series: &str, source: &Source, lines: &[Line]) -> Self {
        let mut kernel = Self { series: series.to_owned(), source: source.clone(), ..Self::default() };
        for line in lines {
            match line {
                Line::Host(host) => kernel.release.clone_from(&host.release),
                Line::Program(program) => kernel.programs.push(Row::of(program)),
                Line::RoundTrip(trip) => kernel.round_trips.push(Trip::of(trip)),
                Line::Call(call) => kernel.calls.push(Watch::of(call)),
                // Printed but not kept: see `tables::parts`.
                Line::Part(_) => {}
                Line::Request(request) => kernel.requests.push(Watch::of(request)),
                Line::Refused(refused) => kernel.refused.push(refused.clone()),
            }
        }
        kernel
    }

    /// The minimum of every count, because disturbances in a guest only add; for programs, the maximum too.
    pub(super) fn least(boots: Vec<Self>) -> Self {
        let mut boots = boots.into_iter();
        let mut least = boots.next().unwrap_or_default();
        for boot in boots {
            for row in &mut least.programs {
                let other = boot.row(&row.mode, &row.program).and_then(|other| other.instructions);
                if let (Some(count), Some(other)) = (row.instructions, other) {
                    let most = row.most.unwrap_or(count).max(other);
                    row.instructions = Some(count.min(other));
                    row.most = Some(most).filter(|most| *most > count.min(other));
                }
            }
            least.calls.iter_mut().for_each(|call| call.reduce_to(boot.call(&call.call, &call.with)));
            least.requests.iter_mut().for_each(|request| request.reduce_to(boot.request(&request.with)));
            for trip in &mut least.round_trips {
                if let Some(other) = boot.round_trip(&trip.mode) {
                    (trip.empty, trip.product) =
                        (trip.empty.min(other.empty), trip.product.min(other.product));
                }
            }
        }
        least
    }

    /// Takes over the counts that need a longer measurement: calls, requests by attach mode, and the range in
    /// which a program's count varies.
    pub(super) fn completed_by(mut self, older: &Self) -> Self {
        for row in &mut self.programs {
            let known = older.row(&row.mode, &row.program);
            let range = known.and_then(|known| Some((known.instructions?, known.most?)));
            if let (Some((least, most)), Some(count)) = (range, row.instructions)
                && (least..=most).contains(&count)
            {
                (row.instructions, row.most) = (Some(least), Some(most));
            }
        }
        self.calls.clone_from(&older.calls);
        // Of an attach mode that was measured, nothing old is kept: it may have had other names.
        let is_measured = |older: &&Watch| self.requests.iter().any(|new| new.mode() == older.mode());
        let others: Vec<Watch> = older.requests.iter().filter(|older| !is_measured(older)).cloned().collect();
        self.requests.extend(others);
        self
    }

    pub(super) fn row(&self, mode: &str, program: &str) -> Option<&Row> {
        self.programs.iter().find(|row| row.mode == mode && row.program == program)
    }

    pub(super) fn round_trip(&self, mode: &str) -> Option<&Trip> {
        self.round_trips.iter().find(|trip| trip.mode == mode)
    }

    pub(super) fn call(&self, call: &str, with: &str) -> Option<&Watch> {
        self.calls.iter().find(|added| added.call == call && added.with == with)
    }

    pub(super) fn request(&self, with: &str) -> Option<&Watch> {
        self.requests.iter().find(|request| request.with == with)
    }

    /// Why the kernel rejects an attach mode of a domain.
    pub(super) fn refusal(&self, domain: &str, mode: &str) -> Option<&str> {
        let refused = self.refused.iter().find(|refused| refused.domain == domain && refused.mode == mode);
        refused.map(|refused| &*refused.reason)
    }

    fn to_text(&self) -> String {
        format!(
            " {{\"series\": {}, \"release\": {}, \"commit\": {},\n  \"objects\": {},\n  \"programs\": {},\n  \
             \"round_trips\": {},\n  \"calls\": {},\n  \"requests\": {},\n  \"refused\": {}}}",
            json(&self.series),
            json(&self.release),
            json(&self.source.commit),
            json(&self.source.objects),
            lines(&self.programs),
            lines(&self.round_trips),
            lines(&self.calls),
            lines(&self.requests),
            lines(&self.refused)
        )
    }
}

fn lines<T: Serialize>(rows: &[T]) -> String {
    let rows: Vec<String> = rows.iter().map(|row| format!("\n   {}", json(row))).collect();
    format!("[{}]", rows.join(","))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data becomes JSON")
}

// === impl Row, Trip, Watch ===

impl Row {
    fn of(program: &Program) -> Self {
        let count = program.cost.as_ref().map(|cost| whole(cost.steady));
        Self {
            domain: program.domain.clone(),
            mode: program.mode.clone(),
            program: program.name.clone(),
            hook: program.hook.clone(),
            instructions: count.ok(),
            most: None,
            verified: program.verified,
            reason: count.err().cloned(),
        }
    }
}

impl Trip {
    fn of(trip: &RoundTrip) -> Self {
        let added = |spread: Spread| whole(spread.median);
        Self { mode: trip.mode.clone(), empty: added(trip.empty), product: added(trip.product) }
    }
}

impl Watch {
    /// The attach mode of a request: what comes before the name of the way in which packets are followed.
    fn mode(&self) -> &str {
        self.with.split_once(": ").map_or(&*self.with, |(mode, _)| mode)
    }

    fn reduce_to(&mut self, other: Option<&Self>) {
        if let Some(other) = other {
            self.nothing = self.nothing.min(other.nothing);
            self.added = self.added.min(other.added);
        }
    }

    fn of(call: &Watched) -> Self {
        Self {
            call: call.call.clone(),
            with: call.with.clone(),
            nothing: whole(call.nothing),
            added: whole(call.added.median),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, far below 2^53")]
fn whole(count: f64) -> u64 {
    count.max(0.0).round() as u64
}

#[cfg(test)]
mod tests;
