//! The receive path in a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::HistogramSample;

/// One workload's receive latencies, by protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RxpathSample {
    pub protocols: BTreeMap<String, PathSample>,
}

/// Each stage has the same count as the total, and the sums of the stages add up to the total's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSample {
    /// In the order in which packets pass them. A stage that this kernel cannot separate from the next is
    /// merged with it.
    pub stages: Vec<StageSample>,
    pub total: HistogramSample,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSample {
    /// The value of the `stage` label: `FROM_to_TO`.
    pub name: String,
    pub latency: HistogramSample,
}

impl RxpathSample {
    /// The increase in a window. The agent starts these totals at zero, so for a workload that is new to it
    /// they belong to the window. Totals restart together: if one went backwards, all of them count as new.
    #[must_use]
    pub fn in_window(earlier: Option<&Self>, later: &Self) -> Self {
        earlier.and_then(|earlier| later.since(earlier)).unwrap_or_else(|| later.clone())
    }

    /// Adds another workload's latencies.
    pub fn add(&mut self, other: &Self) {
        for (protocol, path) in &other.protocols {
            self.protocols.entry(protocol.clone()).or_default().add(path);
        }
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        let since = |(protocol, path): (&String, &PathSample)| {
            let added = match earlier.protocols.get(protocol) {
                Some(earlier) => path.since(earlier)?,
                None => path.clone(),
            };
            Some((protocol.clone(), added))
        };
        Some(Self { protocols: self.protocols.iter().map(since).collect::<Option<_>>()? })
    }
}

impl PathSample {
    /// The stage of that name, appended if it is new.
    pub fn stage_mut(&mut self, name: &str) -> &mut StageSample {
        let at = self.stages.iter().position(|stage| stage.name == name).unwrap_or_else(|| {
            self.stages.push(StageSample { name: name.to_owned(), ..StageSample::default() });
            self.stages.len() - 1
        });
        &mut self.stages[at]
    }

    fn add(&mut self, other: &Self) {
        self.total.add(&other.total);
        for stage in &other.stages {
            self.stage_mut(&stage.name).latency.add(&stage.latency);
        }
    }

    /// `None` if a total went backwards.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let before = |stage: &StageSample| earlier.stages.iter().find(|before| before.name == stage.name);
        let since = |stage: &StageSample| {
            let latency = match before(stage) {
                Some(before) if stage.latency.sum_ns < before.latency.sum_ns => return None,
                Some(before) => stage.latency.since(&before.latency),
                None => stage.latency.clone(),
            };
            Some(StageSample { name: stage.name.clone(), latency })
        };
        if self.total.sum_ns < earlier.total.sum_ns {
            return None;
        }
        let stages = self.stages.iter().map(since).collect::<Option<_>>()?;
        Some(Self { stages, total: self.total.since(&earlier.total) })
    }
}

#[cfg(test)]
mod tests;
