//! The workload that a window shows.

use std::time::Duration;

use crate::cli::target::Target;
use crate::snapshot::Snapshot;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) window: Duration,
    /// Number of summed containers; zero outside of pods.
    pub(crate) containers: usize,
    /// Whether no cgroup of it is left.
    pub(crate) gone: bool,
}

impl Subject {
    /// `None` if nothing is known about it any more.
    pub(crate) fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self> {
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
        })
    }

    /// An amount per second of the window.
    pub(crate) fn per_second(&self, amount: f64) -> Option<f64> {
        let window = self.window.as_secs_f64();
        (window > 0.0).then(|| amount / window)
    }

    pub(super) fn name(&self, target: &Target) -> String {
        match self.containers {
            0 | 1 => target.name(),
            containers => format!("{} ({containers} containers)", target.name()),
        }
    }
}

#[cfg(test)]
mod tests;
