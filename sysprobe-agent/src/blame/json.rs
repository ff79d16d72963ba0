//! The JSON form of one window, for scripts. Fields keep their names and meanings within a version; new ones may come.

use serde::Serialize;

use super::{
    layout::per_second,
    model::{Blame, Finding, Part},
    target::Target,
};
use crate::snapshot::{Culprit, DomainState, Snapshot};

/// The version of this form; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

/// One window of one workload.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    pub version: u32,
    /// Where the numbers come from, in words for people: a running agent, or programs of the command itself.
    pub source: &'a str,
    /// The measured length of the window, which differs a little from the interval asked for.
    pub window_seconds: f64,
    /// What is measured, and why something is not.
    pub domains: &'a [DomainState],
    pub workload: WorkloadDocument<'a>,
    /// What it waited for a CPU; `null` where the scheduler is not watched.
    pub waits: Option<WaitsDocument<'a>>,
}

#[derive(Debug, Serialize)]
pub struct WorkloadDocument<'a> {
    /// Empty for what is no pod.
    pub namespace: &'a str,
    /// Empty for what is no pod.
    pub pod: &'a str,
    /// Of a pod the container asked for, empty for all of them; else the systemd unit or the cgroup path: untrusted text.
    pub container: &'a str,
    /// How many containers are summed; zero for what is no pod.
    pub containers: usize,
    /// Whether no cgroup of it is left.
    pub gone: bool,
}

/// All of it is zero or `null` for a workload that did not wait.
#[derive(Debug, Default, Serialize)]
pub struct WaitsDocument<'a> {
    /// Waits that ended in the window.
    pub count: u64,
    /// How long they were together.
    pub seconds: f64,
    /// Per second of the window: the mean number of waiting threads.
    pub seconds_per_second: Option<f64>,
    /// Wrong by at most 9.1 %; `null` without any.
    pub p50_seconds: Option<f64>,
    pub p99_seconds: Option<f64>,
    /// Every cause; they sum to `seconds`. `null` if the hooks in use cannot tell.
    pub causes: Option<Vec<CauseDocument>>,
    /// Who ran meanwhile, of other pods and what is no pod, the worst first.
    pub culprits: Option<Vec<CulpritDocument<'a>>>,
    /// What others did that have no place among the culprits.
    pub other_culprits_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct CauseDocument {
    /// `throttled`, `same_pod`, `other_pod`, `system`, `kernel`, `interrupt`, `idle` or `unknown`.
    pub cause: &'static str,
    #[serde(flatten)]
    pub part: PartDocument,
}

#[derive(Debug, Serialize)]
pub struct CulpritDocument<'a> {
    /// Empty for what is no pod.
    pub namespace: &'a str,
    /// Empty for what is no pod.
    pub pod: &'a str,
    /// Empty for a pod; else the systemd unit or the cgroup path: untrusted text.
    pub container: &'a str,
    #[serde(flatten)]
    pub part: PartDocument,
}

/// A part of the waits.
#[derive(Debug, Serialize)]
pub struct PartDocument {
    pub seconds: f64,
    pub seconds_per_second: Option<f64>,
    /// Of all waits (0..1).
    pub share: f64,
}

/// One document on one line, with its newline.
pub(super) fn line(
    earlier: &Snapshot,
    later: &Snapshot,
    target: &Target,
    source: &str,
) -> serde_json::Result<String> {
    let blame = Blame::of(earlier, later, target);
    let only = target.container.as_deref().unwrap_or_default();
    let workload = WorkloadDocument {
        namespace: &target.who.namespace,
        pod: &target.who.pod,
        container: if target.who.pod.is_empty() { &target.who.container } else { only },
        containers: blame.as_ref().map_or(0, |blame| blame.containers),
        gone: blame.as_ref().is_none_or(|blame| blame.gone),
    };
    let document = Document {
        version: VERSION,
        source,
        window_seconds: later.window_since(earlier).as_secs_f64(),
        domains: &later.domains,
        workload,
        waits: blame.as_ref().and_then(waits),
    };
    Ok(serde_json::to_string(&document)? + "\n")
}

fn waits(blame: &Blame) -> Option<WaitsDocument<'_>> {
    let waits = match &blame.finding {
        Finding::Off(_) => return None,
        Finding::NeverWaited => return Some(WaitsDocument::default()),
        Finding::Waited(waits) => waits,
    };
    let mut document = WaitsDocument {
        count: waits.count,
        seconds: waits.total,
        seconds_per_second: per_second(waits.total, blame),
        p50_seconds: waits.p50,
        p99_seconds: waits.p99,
        ..WaitsDocument::default()
    };
    if let Some(division) = &waits.division {
        let cause = |one: &Part| CauseDocument { cause: one.cause.name(), part: part(one, blame) };
        document.causes = Some(division.causes.iter().map(cause).collect());
        let culprits = division.culprits.iter();
        document.culprits = Some(culprits.clone().filter_map(|one| culprit(one, blame)).collect());
        document.other_culprits_seconds =
            Some(culprits.filter(|one| one.who.is_none()).map(|one| one.seconds).sum());
    }
    Some(document)
}

fn culprit<'a>(one: &'a Part, blame: &Blame) -> Option<CulpritDocument<'a>> {
    let Culprit { namespace, pod, container } = one.who.as_ref()?;
    Some(CulpritDocument { namespace, pod, container, part: part(one, blame) })
}

fn part(part: &Part, blame: &Blame) -> PartDocument {
    PartDocument {
        seconds: part.seconds,
        seconds_per_second: per_second(part.seconds, blame),
        share: part.share,
    }
}
