//! What a workload waited for in a window: the difference of two snapshots, divided into parts that sum to the whole. Pure;
//! how it looks is not its business.

use std::time::Duration;

use clap::ValueEnum as _;

use super::target::{self, Target};
use crate::{
    probe::{self, Tier},
    snapshot::{BlameSample, CausesSample, Culprit, SchedSample, Snapshot},
};

/// A window of one workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blame {
    pub(super) window: Duration,
    /// How many containers are summed; zero for what is no pod.
    pub(super) containers: usize,
    /// Whether no cgroup of it is left.
    pub(super) gone: bool,
    pub(super) finding: Finding,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Finding {
    /// The scheduler is not watched, and why.
    Off(String),
    /// No wait ended in the window.
    NeverWaited,
    Waited(Waits),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Waits {
    pub(super) count: u64,
    /// In seconds, as are the other two.
    pub(super) total: f64,
    /// `None` without a whole wait in the window.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    /// `None` where the programs cannot tell.
    pub(super) division: Option<Division>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Division {
    /// Every cause, in a fixed order. They sum to the total.
    pub(super) causes: Vec<Part>,
    /// The worst first, those without a name last. They sum to the parts of other pods and of the system.
    pub(super) culprits: Vec<Part>,
}

/// A part of the waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) cause: Cause,
    /// Whose fault it is, for a culprit.
    pub(super) who: Option<Culprit>,
    pub(super) seconds: f64,
    /// Of all waits, from 0 to 1.
    pub(super) share: f64,
}

/// Why a runnable thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Throttled,
    SamePod,
    OtherPod,
    System,
    Kernel,
    Interrupt,
    Idle,
    Unknown,
    /// Of other pods or the system, which is not told.
    Others,
}

impl Blame {
    /// `None` if nothing of it is known any more.
    pub(super) fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self> {
        let containers = target.samples(later).filter(|sample| {
            let workload = &sample.workload;
            !sample.gone && !workload.pod.is_empty() && !workload.container.is_empty()
        });
        let mut samples = target.samples(later).peekable();
        samples.peek()?;
        Some(Self {
            window: later.window_since(earlier),
            containers: containers.count(),
            gone: samples.all(|sample| sample.gone),
            finding: finding(earlier, later, target),
        })
    }

    /// Whether there is something to look at.
    pub(super) const fn has_waits(&self) -> bool {
        matches!(self.finding, Finding::Waited(_))
    }
}

fn finding(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Finding {
    let domain = later.domain("sched");
    if let Some(domain) = domain.filter(|domain| !domain.up) {
        return Finding::Off(domain.reason.clone());
    }
    let sum = waits(earlier, later, target);
    let tells = domain.is_none_or(|domain| tells_causes(&domain.hook));
    let count = sum.wait.count();
    let causes = whole(&sum);
    let total_ns = if tells { causes.total_ns() } else { sum.wait.sum_ns };
    if count == 0 && total_ns == 0 {
        return Finding::NeverWaited;
    }
    Finding::Waited(Waits {
        count,
        total: seconds(total_ns),
        p50: sum.wait.quantile(0.5),
        p99: sum.wait.quantile(0.99),
        division: tells.then(|| division(&causes, &sum.blame)),
    })
}

fn tells_causes(hook: &str) -> bool {
    Tier::value_variants()
        .iter()
        .find(|tier| tier.name() == hook)
        .is_none_or(|tier| probe::tells_causes(*tier))
}

/// What all that is meant did in the window.
fn waits(earlier: &Snapshot, later: &Snapshot, target: &Target) -> SchedSample {
    let mut sum = SchedSample::default();
    for sample in target.samples(later) {
        let before = target.samples(earlier).find(|before| before.workload == sample.workload);
        let before = before.and_then(|before| before.sched.as_ref());
        if let Some(sched) = &sample.sched {
            sum.add(&SchedSample::in_window(before, sched));
        }
    }
    sum
}

/// The causes of all waits. Who ran meanwhile is read a moment after the waits, and later still for who has no name yet: what
/// is missing is unknown for now.
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
    // Not what was told of others: a culprit that ceases to be named takes along what it did.
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

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Cause {
    /// In the order of `CausesSample::each`.
    pub(super) const EACH: [Self; 8] = [
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
    pub(super) const fn name(self) -> &'static str {
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
}

impl Part {
    /// Of a culprit its own name, else that of the cause; safe to show.
    pub(super) fn name(&self) -> String {
        self.who.as_ref().map_or_else(|| self.cause.name().to_owned(), target::name)
    }
}

#[cfg(test)]
mod tests;
