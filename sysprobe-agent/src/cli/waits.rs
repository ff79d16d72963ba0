//! A workload's waits for a CPU in a window: the difference of two snapshots, divided into parts that sum to
//! the whole. Pure; `table` renders it.

use clap::ValueEnum as _;

use crate::cli::target::{self, Target};
use crate::cli::tui::bar::Mark;
use crate::{
    probe::{self, AttachMode},
    snapshot::{BlameSample, CausesSample, Culprit, SchedSample, Snapshot, seconds},
};

pub(crate) mod table;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    /// The domain is off, for this reason.
    Off(String),
    /// No wait ended in the window.
    NeverWaited,
    Waited(Waits),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waits {
    pub(crate) count: u64,
    /// In seconds, as are the quantiles.
    pub(crate) total: f64,
    /// `None` without a whole wait in the window.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    /// `None` if the programs cannot tell.
    pub(crate) division: Option<Division>,
    /// The attach mode of the scheduler's programs.
    pub(crate) mode: String,
    /// Whether the cause `throttled` is told apart from the others.
    pub(crate) sees_throttling: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Division {
    /// Every cause, in a fixed order. They sum to the total.
    pub(crate) causes: Vec<Part>,
    /// The worst first, the unnamed rest last. They sum to the parts of other pods and of the system.
    pub(crate) culprits: Vec<Part>,
}

/// A part of the waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) cause: Cause,
    /// The culprit, in the list of culprits.
    pub(crate) who: Option<Culprit>,
    pub(crate) seconds: f64,
    /// Share of all waits, from 0 to 1.
    pub(crate) share: f64,
}

/// Why a runnable thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Throttled,
    SamePod,
    OtherPod,
    System,
    Kernel,
    Interrupt,
    Idle,
    Unknown,
    /// Other pods or the system; it is unknown which.
    Others,
}

impl Finding {
    pub(crate) fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Self {
        let domain = later.domain("sched");
        if let Some(domain) = domain.filter(|domain| !domain.up) {
            return Self::Off(domain.reason.clone());
        }
        let mode = domain.map(|domain| domain.mode.clone()).unwrap_or_default();
        let tells = tells_causes(&mode);
        let sum = waits(earlier, later, target);
        let count = sum.wait.count();
        let causes = whole(&sum);
        let total_ns = if tells { causes.total_ns() } else { sum.wait.sum_ns };
        if count == 0 && total_ns == 0 {
            return Self::NeverWaited;
        }
        Self::Waited(Waits {
            count,
            total: seconds(total_ns),
            p50: sum.wait.quantile(0.5),
            p99: sum.wait.quantile(0.99),
            division: tells.then(|| division(&causes, &sum.blame)),
            mode,
            sees_throttling: domain.is_none_or(|domain| domain.sees(probe::THROTTLE)),
        })
    }
}

fn tells_causes(mode: &str) -> bool {
    AttachMode::value_variants()
        .iter()
        .find(|known| known.name() == mode)
        .is_none_or(|known| probe::tells_causes(*known))
}

/// The target's scheduler totals in the window.
fn waits(earlier: &Snapshot, later: &Snapshot, target: &Target) -> SchedSample {
    let mut sum = SchedSample::default();
    for (before, sample) in target.pairs(earlier, later) {
        if let Some(sched) = &sample.sched {
            sum.add(&SchedSample::in_window(before.and_then(|before| before.sched.as_ref()), sched));
        }
    }
    sum
}

/// The causes of all waits. Interference is read a moment after the waits, and later still for culprits
/// without a name yet, so the missing part is unknown for now.
fn whole(sum: &SchedSample) -> CausesSample {
    let mut causes = sum.causes.unwrap_or_default();
    causes.unknown_ns += sum.wait.sum_ns.saturating_sub(causes.total_ns());
    causes
}

fn division(causes: &CausesSample, blame: &BlameSample) -> Division {
    let total = seconds(causes.total_ns());
    let part = |cause, who, ns| Part {
        cause,
        who,
        seconds: seconds(ns),
        share: if total > 0.0 { seconds(ns) / total } else { 0.0 },
    };
    let each = Cause::EACH.iter().zip(causes.each());
    let mut named = blame.culprits.clone();
    named.sort_by(|(one, ns), (other, more)| more.cmp(ns).then_with(|| one.cmp(other)));
    let named_ns: u64 = named.iter().map(|(_, ns)| ns).sum();
    // Not `other_ns`: a culprit that loses its name takes its earlier contribution with it.
    let rest_ns = (causes.other_pod_ns + causes.system_ns).saturating_sub(named_ns);
    let rest = (rest_ns > 0).then(|| part(Cause::Others, None, rest_ns));
    let named = named.into_iter().map(|(who, ns)| {
        let cause = if who.pod.is_empty() { Cause::System } else { Cause::OtherPod };
        part(cause, Some(who), ns)
    });
    Division {
        causes: each.map(|(cause, (_, ns))| part(*cause, None, ns)).collect(),
        culprits: named.chain(rest).collect(),
    }
}

impl Cause {
    /// In the order of `CausesSample::each`.
    pub(crate) const EACH: [Self; 8] = [
        Self::Throttled,
        Self::SamePod,
        Self::OtherPod,
        Self::System,
        Self::Kernel,
        Self::Interrupt,
        Self::Idle,
        Self::Unknown,
    ];

    /// As in the label `cause` of the metric.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::SamePod => "same_pod",
            Self::OtherPod => "other_pod",
            Self::System => "system",
            Self::Kernel => "kernel",
            Self::Interrupt => "interrupt",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
            Self::Others => "other",
        }
    }

    pub(crate) const fn mark(self) -> Mark {
        match self {
            Self::Throttled => Mark::new('T', 166),
            Self::SamePod => Mark::new('P', 36),
            Self::OtherPod => Mark::new('O', 214),
            Self::System => Mark::new('S', 117),
            Self::Kernel => Mark::new('K', 175),
            Self::Interrupt => Mark::new('I', 227),
            Self::Idle => Mark::new('-', 255),
            Self::Unknown => Mark::new('?', 250),
            Self::Others => Mark::new('+', 250),
        }
    }

    /// For the help.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Throttled => "T: its CPU quota was used up",
            Self::SamePod => "P: its own pod or unit ran",
            Self::OtherPod => "O: other pods ran",
            Self::System => "S: units and cgroups ran",
            Self::Kernel => "K: threads of the kernel ran",
            Self::Interrupt => "I: interrupts and softirqs",
            Self::Idle => "-: CPU idle, task not yet switched in",
            Self::Unknown => "?: unattributed",
            Self::Others => "+: other pods and the system",
        }
    }
}

impl Part {
    /// The culprit's name, or else the cause's; safe to print.
    pub(crate) fn name(&self) -> String {
        self.who.as_ref().map_or_else(|| self.cause.name().to_owned(), target::name)
    }
}

#[cfg(test)]
mod tests;
