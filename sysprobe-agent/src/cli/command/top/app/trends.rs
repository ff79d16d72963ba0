//! The latencies of each workload in the last windows, and those that are far above them now. A deleted
//! workload is forgotten with its last window.

use std::collections::{HashMap, VecDeque};

use crate::cli::command::top::sparkline;
use crate::cli::rows::{PodRows, Row, SortKey};
use crate::snapshot::{Snapshot, Workload};

/// The columns with a trend, and the least value that can be unusual: seconds, except for the share of
/// retransmitted segments. A smaller value is no problem, however rare it is.
const WATCHED: [(SortKey, f32); 9] = [
    (SortKey::P99, 0.001),
    (SortKey::Read99, 0.001),
    (SortKey::Write99, 0.001),
    (SortKey::Fsync99, 0.001),
    (SortKey::Disk99, 0.001),
    (SortKey::Srtt99, 0.001),
    (SortKey::Connect99, 0.001),
    (SortKey::Received99, 0.001),
    (SortKey::Retransmitted, 0.001),
];
/// Fewer windows do not show what is usual.
const ENOUGH: usize = 10;
/// This multiple of the 90th percentile of the windows is far above the usual.
const FAR: f32 = 3.0;

/// The numbers of each workload in as many windows as can be shown, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Trends(HashMap<Workload, History>);

/// In the order of `WATCHED`. Single precision: there are thousands of them.
type History = [VecDeque<Option<f32>>; WATCHED.len()];

impl Trends {
    /// Adds a window.
    pub(super) fn record(&mut self, earlier: &Snapshot, later: &Snapshot) {
        let mut before = std::mem::take(&mut self.0);
        for row in PodRows::of(earlier, later, |_| true).all() {
            let mut history = before.remove(&row.workload).unwrap_or_default();
            for (windows, (key, _)) in history.iter_mut().zip(WATCHED) {
                if windows.len() >= sparkline::WINDOWS {
                    windows.pop_front();
                }
                windows.push_back(number(&row, key));
            }
            self.0.insert(row.workload, history);
        }
    }

    /// Empty for an unknown workload or number.
    pub(super) fn of(&self, workload: &Workload, key: SortKey) -> Vec<Option<f64>> {
        let at = WATCHED.iter().position(|(watched, _)| *watched == key);
        let windows = at.and_then(|at| Some(&self.0.get(workload)?[at]));
        windows.into_iter().flatten().map(|number| number.map(f64::from)).collect()
    }

    /// The numbers that in the last window were far above the ones before.
    pub(super) fn unusual(&self, workload: &Workload) -> Vec<SortKey> {
        let Some(history) = self.0.get(workload) else { return Vec::new() };
        let watched = history.iter().zip(WATCHED);
        watched.filter(|(windows, (_, least))| is_far(windows, *least)).map(|(_, (key, _))| key).collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seven digits are more than a histogram has")]
fn number(row: &Row, key: SortKey) -> Option<f32> {
    row.number(key).map(|number| number as f32)
}

fn is_far(windows: &VecDeque<Option<f32>>, least: f32) -> bool {
    let Some(Some(last)) = windows.back() else { return false };
    let mut before: Vec<f32> = windows.iter().take(windows.len() - 1).copied().flatten().collect();
    if before.len() < ENOUGH || *last < least {
        return false;
    }
    before.sort_by(f32::total_cmp);
    *last > FAR * before[(before.len() - 1) * 9 / 10]
}

#[cfg(test)]
mod tests;
