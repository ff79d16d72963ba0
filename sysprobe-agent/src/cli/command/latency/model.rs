//! Where data that a workload received in a window lost time: the difference of two snapshots. Pure;
//! independent of the presentation.

use crate::cli::target::Target;
use crate::cli::tui::bar::Mark;
use crate::snapshot::{HistogramSample, PathSample, RxpathSample, Snapshot, StageSample, seconds};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Finding {
    /// The domain `rxpath` is off, for this reason.
    Off(String),
    /// No followed data was read in the window.
    Nothing,
    /// By protocol.
    Received(Vec<Path>),
}

/// The data received over one protocol.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) protocol: String,
    /// From the device to the reader. Its time is the sum of all stages.
    pub(super) total: Times,
    /// In the order in which data passes them.
    pub(super) stages: Vec<Stage>,
    /// The stages summed up by their owner; every stage is in exactly one sum.
    pub(super) sums: Vec<Sum>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stage {
    /// `FROM_to_TO`.
    pub(super) name: String,
    pub(super) whose: Whose,
    pub(super) times: Times,
    /// Share of the time of all stages, from 0 to 1.
    pub(super) share: f64,
}

/// The sum of all stages with the same owner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sum {
    pub(super) whose: Whose,
    pub(super) seconds: f64,
    /// Share of the time of all stages, from 0 to 1.
    pub(super) share: f64,
}

/// In seconds, except for the count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) p50: Option<f64>,
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
    /// Upper bound of the last non-empty bucket.
    pub(super) max: Option<f64>,
}

/// The part of the system that is responsible for a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Network,
    Scheduler,
    Application,
    /// Scheduler and application together, with the stages before them, if the kernel cannot tell them apart.
    Reader,
}

impl Finding {
    pub(super) fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Self {
        if let Some(domain) = later.domain("rxpath").filter(|domain| !domain.up) {
            return Self::Off(domain.reason.clone());
        }
        let mut sum = RxpathSample::default();
        for (before, sample) in target.pairs(earlier, later) {
            if let Some(rxpath) = &sample.rxpath {
                let before = before.and_then(|before| before.rxpath.as_ref());
                sum.add(&RxpathSample::in_window(before, rxpath));
            }
        }
        let received = sum.protocols.iter().filter(|(_, path)| path.total.count() > 0);
        let paths: Vec<_> = received.map(|(protocol, path)| Path::new(protocol, path)).collect();
        if paths.is_empty() { Self::Nothing } else { Self::Received(paths) }
    }
}

impl Path {
    fn new(protocol: &str, path: &PathSample) -> Self {
        // Not the sum of the total, which is read a moment later: data booked in between would be missing
        // from the stages.
        let all_ns: u64 = path.stages.iter().map(|stage| stage.latency.sum_ns).sum();
        let is_split = path.stages.iter().all(|stage| whose(&stage.name) != Whose::Reader);
        let whose = |name: &str| match whose(name) {
            Whose::Scheduler | Whose::Application if !is_split => Whose::Reader,
            whose => whose,
        };
        let stage = |stage: &StageSample| Stage {
            name: stage.name.clone(),
            whose: whose(&stage.name),
            times: Times::of(&stage.latency),
            share: share(stage.latency.sum_ns, all_ns),
        };
        let stages: Vec<_> = path.stages.iter().map(stage).collect();
        let total = Times { sum: seconds(all_ns), ..Times::of(&path.total) };
        Self { protocol: protocol.to_owned(), total, sums: sums(&stages, is_split), stages }
    }
}

fn sums(stages: &[Stage], is_split: bool) -> Vec<Sum> {
    let split = [Whose::Network, Whose::Scheduler, Whose::Application];
    let parts = if is_split { &split[..] } else { &[Whose::Network, Whose::Reader] };
    let sum = |whose: &Whose| {
        let own = stages.iter().filter(|stage| stage.whose == *whose);
        Sum {
            whose: *whose,
            seconds: own.clone().map(|stage| stage.times.sum).sum(),
            share: own.map(|stage| stage.share).sum(),
        }
    };
    parts.iter().map(sum).collect()
}

/// The owner of a stage, by its name.
fn whose(stage: &str) -> Whose {
    match stage {
        "wakeup_to_run" => Whose::Scheduler,
        // The kernel wakes waiting threads at once.
        "ready_to_wakeup" => Whose::Network,
        "run_to_read" => Whose::Application,
        _ if ["_to_wakeup", "_to_run", "_to_read"].iter().any(|end| stage.ends_with(end)) => Whose::Reader,
        _ => Whose::Network,
    }
}

impl Times {
    fn of(histogram: &HistogramSample) -> Self {
        Self {
            count: histogram.count(),
            sum: seconds(histogram.sum_ns),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            max: histogram.max_bound(),
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Whose {
    pub(super) const ALL: [Self; 4] = [Self::Network, Self::Scheduler, Self::Application, Self::Reader];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Network => "kernel network",
            Self::Scheduler => "scheduler",
            Self::Application => "application",
            Self::Reader => "reader",
        }
    }

    /// No letter is also used for a cause of waits.
    pub(super) const fn mark(self) -> Mark {
        match self {
            Self::Network => Mark::new('N', 117),
            Self::Scheduler => Mark::new('C', 166),
            Self::Application => Mark::new('A', 36),
            Self::Reader => Mark::new('R', 175),
        }
    }
}

#[cfg(test)]
mod tests;
