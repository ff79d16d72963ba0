//! The samples of a scrape, and the workloads that they belong to.

#[path = "../../../sysprobe-agent/tests/support/sample.rs"]
mod sample;

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};

pub(crate) use sample::Sample;

/// The labels that every workload's series has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Workload {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
}

impl Workload {
    pub(super) fn new(namespace: &str, pod: &str, container: &str) -> Self {
        Self { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned() }
    }

    /// The pod that the container belongs to.
    pub(super) fn whole_pod(&self) -> Self {
        Self::new(&self.namespace, &self.pod, "")
    }

    /// A workload that belongs to no pod.
    pub(super) fn own(container: &str) -> Self {
        Self::new("", "", container)
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.pod, self.container)
    }
}

impl Sample {
    /// `None` for a series that belongs to no workload, such as the agent's self-metrics.
    pub(super) fn workload(&self) -> Option<Workload> {
        let label = |name| self.labels.get(name).map(String::as_str);
        Some(Workload::new(label("namespace")?, label("pod")?, label("container")?))
    }

    /// Whether the value may only grow.
    pub(super) fn is_counter(&self) -> bool {
        ["_total", "_count", "_sum", "_bucket"].iter().any(|suffix| self.name.ends_with(suffix))
    }

    /// Name and labels, as one text.
    pub(super) fn series(&self) -> String {
        format!("{}{:?}", self.name, self.labels)
    }
}

pub(crate) fn parse(text: &str) -> Result<Vec<Sample>> {
    sample::parse(text).map_err(|line| anyhow!("no sample: {line}"))
}

/// The sum of one family for each workload, over all kinds and causes.
pub(super) fn by_workload(samples: &[Sample], name: &str) -> BTreeMap<Workload, f64> {
    let mut found = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.name == name) {
        if let Some(workload) = sample.workload() {
            *found.entry(workload).or_insert(0.0) += sample.value;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_read() {
        let text = "# HELP x y\nx_total{namespace=\"n\",pod=\"p\",container=\"a \\\"b\\\\\",kind=\"1\"} 2\n\
                    x_total{namespace=\"n\",pod=\"p\",container=\"a \\\"b\\\\\",kind=\"2\"} 3\nup \
                    1\nbad{le=\"+Inf\"} +Inf\n";
        let samples = parse(text).unwrap();
        assert_eq!(samples.len(), 4);
        let workload = Workload::new("n", "p", "a \"b\\");
        assert_eq!(by_workload(&samples, "x_total"), BTreeMap::from([(workload, 5.0)]));
        assert_eq!(samples[2].workload(), None);
        assert!(parse("x{a=\"}").is_err());
    }
}
