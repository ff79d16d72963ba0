//! The JSON form of one window of one workload, for scripts: what it is of, and around what a command has to say. Fields keep
//! their names and meanings within a version; new ones may come.

use serde::Serialize;

use super::{Report, Subject};
use crate::{
    show::target::Target,
    snapshot::{DomainState, Snapshot},
};

mod waits;

pub use waits::{CauseDocument, CulpritDocument, PartDocument, WaitsDocument};

/// One window of one workload.
#[derive(Debug, Serialize)]
pub struct Document<'a, N> {
    pub version: u32,
    /// Where the numbers come from, in words for people: a running agent, or programs of the command itself.
    pub source: &'a str,
    /// The measured length of the window, which differs a little from the interval asked for.
    pub window_seconds: f64,
    /// What is measured, and why something is not.
    pub domains: &'a [DomainState],
    pub workload: WorkloadDocument<'a>,
    /// What the command is about.
    #[serde(flatten)]
    pub numbers: N,
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

impl<'a> WorkloadDocument<'a> {
    fn new(target: &'a Target, subject: Option<&Subject>) -> Self {
        let only = target.container.as_deref().unwrap_or_default();
        Self {
            namespace: &target.who.namespace,
            pod: &target.who.pod,
            container: if target.who.pod.is_empty() { &target.who.container } else { only },
            containers: subject.map_or(0, |subject| subject.containers),
            gone: subject.is_none_or(|subject| subject.gone),
        }
    }
}

/// One document on one line, with its newline.
pub(super) fn line<R: Report>(
    earlier: &Snapshot,
    later: &Snapshot,
    target: &Target,
    source: &str,
) -> serde_json::Result<String> {
    let report = R::of(earlier, later, target);
    let document = Document {
        version: R::VERSION,
        source,
        window_seconds: later.window_since(earlier).as_secs_f64(),
        domains: &later.domains,
        workload: WorkloadDocument::new(target, report.as_ref().map(Report::subject)),
        numbers: report.as_ref().map(Report::document).unwrap_or_default(),
    };
    Ok(serde_json::to_string(&document)? + "\n")
}
