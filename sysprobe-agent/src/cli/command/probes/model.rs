//! The agent's kernel side between two snapshots. Pure.

use std::cmp::Ordering;
use std::time::Duration;

use clap::ValueEnum;

use crate::cli::tui::steps::further;
use crate::snapshot::{LostUpdates, MapSample, Measuring, ProgramSample, Snapshot};

/// What happened in a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(super) length: Duration,
    pub(super) measuring: Measuring,
    pub(super) programs: Vec<ProgramRow>,
    /// As of the end of the window.
    pub(super) maps: Vec<MapSample>,
    /// All losses since the agent started.
    pub(super) lost: Vec<LostRow>,
    /// How long the agent took to collect the later snapshot.
    pub(super) collected_in: Duration,
}

/// One program: its identity, its totals since it was loaded, and its activity in the window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProgramRow {
    pub(super) total: ProgramSample,
    pub(super) runs: u64,
    pub(super) run_ns: u64,
    pub(super) missed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostRow {
    pub(super) domain: String,
    pub(super) reason: String,
    pub(super) count: u64,
    pub(super) total: u64,
}

/// How programs are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) sort: SortKey,
    pub(crate) reverse: bool,
}

/// What programs can be sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Time in the program.
    #[default]
    Cpu,
    /// Runs per second.
    Runs,
    /// Mean time of a run.
    Time,
    /// Runs that the kernel left out.
    Missed,
    Name,
}

impl SortKey {
    /// The sort key `by` positions further, wrapping around.
    pub(super) fn neighbour(self, by: isize) -> Self {
        further(Self::value_variants(), self, by)
    }

    /// Larger numbers come first.
    fn compare(self, one: &ProgramRow, other: &ProgramRow) -> Ordering {
        match self {
            Self::Cpu => other.run_ns.cmp(&one.run_ns),
            Self::Runs => other.runs.cmp(&one.runs),
            Self::Time => other.mean_ns().unwrap_or(0.0).total_cmp(&one.mean_ns().unwrap_or(0.0)),
            Self::Missed => other.missed.cmp(&one.missed),
            Self::Name => Ordering::Equal,
        }
    }
}

impl ProgramRow {
    /// `None` if it did not run.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.run_ns as f64 / self.runs as f64)
    }
}

impl Window {
    /// If the agent restarted in between, its totals began at zero.
    pub(super) fn new(earlier: &Snapshot, later: &Snapshot) -> Self {
        let program = |total: &ProgramSample| {
            let before = earlier.agent.programs.iter().find(|other| other.program == total.program);
            let since = |of: fn(&ProgramSample) -> u64| of(total).saturating_sub(before.map_or(0, of));
            ProgramRow {
                total: total.clone(),
                runs: since(|program| program.runs),
                run_ns: since(|program| program.run_ns),
                missed: since(|program| program.missed),
            }
        };
        Self {
            length: later.window_since(earlier),
            measuring: later.agent.measuring.clone(),
            programs: later.agent.programs.iter().map(program).collect(),
            maps: later.agent.maps.clone(),
            lost: lost(earlier, later),
            collected_in: Duration::from_nanos(later.agent.collect_ns),
        }
    }

    pub(super) fn sorted(&self, order: Order) -> Vec<&ProgramRow> {
        let mut rows: Vec<_> = self.programs.iter().collect();
        rows.sort_by(|one, other| {
            let by_key = order.sort.compare(one, other);
            by_key.then_with(|| one.total.program.cmp(&other.total.program))
        });
        if order.reverse {
            rows.reverse();
        }
        rows
    }

    /// Whether the kernel measured the programs, for the agent or for another program.
    pub(super) fn is_measured(&self) -> bool {
        self.measuring == Measuring::On || self.programs.iter().any(|row| row.runs > 0)
    }

    /// Run time of all programs.
    pub(super) fn run_ns(&self) -> u64 {
        self.programs.iter().map(|row| row.run_ns).sum()
    }

    /// Runs of all programs.
    pub(super) fn runs(&self) -> u64 {
        self.programs.iter().map(|row| row.runs).sum()
    }

    /// A count per second of the window; `None` if the kernel did not measure the programs.
    pub(super) fn per_second(&self, count: u64) -> Option<f64> {
        let seconds = self.length.as_secs_f64();
        (seconds > 0.0 && self.is_measured()).then(|| count as f64 / seconds)
    }

    /// The share of one CPU.
    pub(super) fn cpu_share(&self, run_ns: u64) -> Option<f64> {
        self.per_second(run_ns).map(|ns| ns / 1e9)
    }
}

fn lost(earlier: &Snapshot, later: &Snapshot) -> Vec<LostRow> {
    let ever = later.agent.lost_updates.iter().filter(|lost| lost.count > 0);
    let row = |lost: &LostUpdates| {
        let is_same = |other: &&LostUpdates| (&other.domain, &other.reason) == (&lost.domain, &lost.reason);
        let before = earlier.agent.lost_updates.iter().find(is_same).map_or(0, |before| before.count);
        LostRow {
            domain: lost.domain.clone(),
            reason: lost.reason.clone(),
            count: lost.count.saturating_sub(before),
            total: lost.count,
        }
    };
    ever.map(row).collect()
}

#[cfg(test)]
mod tests;
