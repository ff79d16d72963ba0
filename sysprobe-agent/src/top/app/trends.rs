//! How long fsyncs took in the last windows, workload by workload. What has gone is forgotten with its last window.

use std::collections::{HashMap, VecDeque};

use crate::{
    snapshot::{Snapshot, Workload},
    top::{rows, sparkline},
};

/// Of each workload, the 99th percentiles of as many windows as can be shown, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Trends(HashMap<Workload, VecDeque<Option<f64>>>);

impl Trends {
    /// Adds a window.
    pub(super) fn record(&mut self, earlier: &Snapshot, later: &Snapshot) {
        let mut before = std::mem::take(&mut self.0);
        for (workload, p99) in rows::fsync_p99s(earlier, later) {
            let mut windows = before.remove(workload).unwrap_or_default();
            if windows.len() >= sparkline::WINDOWS {
                windows.pop_front();
            }
            windows.push_back(p99);
            self.0.insert(workload.clone(), windows);
        }
    }

    /// Empty for a workload that is not known.
    pub(super) fn of(&self, workload: &Workload) -> Vec<Option<f64>> {
        self.0.get(workload).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests;
