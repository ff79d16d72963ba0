//! The agent's numbers for a receive path, by the points between its stages.

use std::time::Duration;

use sysprobe_agent::snapshot::{HistogramSample, PathSample, Snapshot, StageSample};

use super::loads::Transport;
use super::support::attach_modes::Watcher;
use super::support::cgroup::Cgroup;
use super::support::figure;
use super::support::totals::workload;

const POINTS: [&str; 8] = ["device", "ip", "tcp", "udp", "ready", "wakeup", "run", "read"];

#[derive(Default)]
pub(crate) struct Path(PathSample);

impl Path {
    /// The path of everything received so far; empty if there was nothing.
    pub(crate) fn of(snapshot: &Snapshot, cgroup: &Cgroup, transport: Transport) -> Self {
        let rxpath = workload(snapshot, &cgroup.name).and_then(|workload| workload.rxpath.clone());
        let path = rxpath.and_then(|rxpath| rxpath.protocols.get(transport.name()).cloned());
        Self(path.unwrap_or_default())
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.total.count()
    }

    /// The time from the device to the reader.
    pub(crate) const fn total(&self) -> &HistogramSample {
        &self.0.total
    }

    pub(crate) fn show(&self, watcher: &Watcher, cgroup: &Cgroup) {
        let mean = |stage: &StageSample| stage.latency.sum_ns / stage.latency.count().max(1);
        let stages: Vec<_> =
            self.0.stages.iter().map(|stage| format!("{} {} ns", stage.name, mean(stage))).collect();
        figure(&format!(
            "{} by {}: {}, each {}",
            cgroup.name,
            watcher.mode.name(),
            self.count(),
            stages.join(", ")
        ));
    }

    /// Checks that each stage has the total's count, and that the stages add up to the total.
    pub(crate) fn assert_complete(&self) {
        let Self(path) = self;
        assert!(path.stages.iter().all(|stage| stage.latency.count() == self.count()), "{path:?}");
        let sum: u64 = path.stages.iter().map(|stage| stage.latency.sum_ns).sum();
        assert_eq!(sum, path.total.sum_ns);
        let ends: Vec<_> = path.stages.iter().map(|stage| ends(&stage.name)).collect();
        assert_eq!((ends[0].0, ends[ends.len() - 1].1), (0, POINTS.len() - 1), "{ends:?}");
        assert!(ends.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap: {ends:?}");
    }

    /// The part that was received after an earlier snapshot.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let stages = self.0.stages.iter().zip(&earlier.0.stages).map(|(now, then)| StageSample {
            name: now.name.clone(),
            latency: now.latency.since(&then.latency),
        });
        Self(PathSample { stages: stages.collect(), total: self.0.total.since(&earlier.0.total) })
    }

    /// How much longer each stage's median is than in another path, in nanoseconds. It is 0 if the median is
    /// shorter, or in the next bucket: close to a bucket's bound, it changes there by chance. A mean would be
    /// distorted when other work takes a CPU for milliseconds. How long the reader waits for a CPU depends on
    /// the machine, so that is left out.
    pub(crate) fn moved_from(&self, other: &Self) -> Vec<(String, u64)> {
        /// More than from one bucket to the next, which is 2^(1/4).
        const NEXT_BUCKET: f64 = 1.2;
        let middle = |stage: &StageSample| stage.latency.quantile(0.5).expect("there are some");
        let moved = |now: f64, then: f64| {
            let seconds = if now > then * NEXT_BUCKET { now - then } else { 0.0 };
            u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).expect("not that long")
        };
        let stages = self.0.stages.iter().zip(&other.0.stages);
        let stages = stages.filter(|(stage, _)| !has_point(stage, "run"));
        stages.map(|(now, then)| (now.name.clone(), moved(middle(now), middle(then)))).collect()
    }

    /// The mean time of the stage that ends with this point, or of the longer stage that contains it, in
    /// nanoseconds.
    pub(crate) fn until(&self, point: &str) -> u64 {
        let stage =
            self.0.stages.iter().find(|stage| has_point(stage, point)).expect("the whole way is told");
        stage.latency.sum_ns / self.count()
    }

    /// Checks that in each of the other stages most requests take less. A mean would be distorted when other
    /// work takes a CPU for milliseconds. How long the reader waits for a CPU depends on the machine.
    pub(crate) fn assert_others_take_less(&self, point: &str, than: Duration) {
        let is_other = |stage: &&StageSample| !has_point(stage, point) && !has_point(stage, "run");
        for stage in self.0.stages.iter().filter(is_other) {
            let median = stage.latency.quantile(0.5).expect("there are some");
            assert!(median < than.as_secs_f64(), "{}: {median} s", stage.name);
        }
    }

    /// The stage that ends with this point.
    pub(crate) fn stage(&self, point: &str) -> Option<&HistogramSample> {
        let stage = self.0.stages.iter().find(|stage| ends(&stage.name).1 == number(point));
        stage.map(|stage| &stage.latency)
    }

    /// Whether a stage ends with this point.
    pub(crate) fn tells(&self, point: &str) -> bool {
        self.stage(point).is_some()
    }
}

/// Whether a stage ends with this point, or contains it.
fn has_point(stage: &StageSample, point: &str) -> bool {
    let (from, to) = ends(&stage.name);
    (from + 1..=to).contains(&number(point))
}

fn ends(name: &str) -> (usize, usize) {
    let (from, to) = name.split_once("_to_").expect("a name of both ends");
    (number(from), number(to))
}

fn number(point: &str) -> usize {
    POINTS.iter().position(|name| *name == point).unwrap_or_else(|| panic!("no point is called {point}"))
}
