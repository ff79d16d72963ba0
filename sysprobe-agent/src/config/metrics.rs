//! What is exported: which families, of whom, and how much at most.

use std::fmt;
use std::ops::RangeInclusive;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limits::within;

/// The upper limit is what a server can be expected to take of one node.
const WORKLOADS: RangeInclusive<u32> = 1..=100_000;
const SERIES: RangeInclusive<u32> = 50..=1_000_000;

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// By their names in queries, without what is appended to a histogram's.
    pub families: Filter,
    pub namespaces: Filter,
    pub pods: Filter,
    /// So many have series of their own; what the others do is summed up in one, `other`.
    #[serde(deserialize_with = "workloads")]
    pub workloads: u32,
    /// So many series a workload may have; those of the families that come last are left out.
    #[serde(deserialize_with = "series")]
    pub series_per_workload: u32,
    pub classic_buckets: ClassicBuckets,
    /// Whether OpenMetrics says of each counter and histogram since when it is counted, in lines that end in
    /// `_created`. A server that does not know them makes series of them.
    pub created_lines: bool,
}

/// The buckets of histograms for readers of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassicBuckets {
    /// One for each third power of two; of the waits for a CPU, of which a pod has one histogram, for each.
    #[default]
    Fine,
    /// One for each third power of two.
    Coarse,
    /// None: count and sum are left.
    None,
}

/// Which names are wanted.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Those that are; all if it is empty.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<Pattern>,
    /// Those that are not, whatever else is said.
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<Pattern>,
}

/// A regular expression that a whole name has to match, as in Prometheus.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    whole: Regex,
}

impl Filter {
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        let has = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.whole.is_match(name));
        (self.allow.is_empty() || has(&self.allow)) && !has(&self.deny)
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            families: Filter::default(),
            namespaces: Filter::default(),
            pods: Filter::default(),
            workloads: 2000,
            series_per_workload: 1000,
            classic_buckets: ClassicBuckets::default(),
            created_lines: false,
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // One that does not end its group would take in the rest.
        Regex::new(&text).map_err(serde::de::Error::custom)?;
        let whole = Regex::new(&format!("^(?:{text})$")).map_err(serde::de::Error::custom)?;
        Ok(Self { text, whole })
    }
}

fn workloads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, &WORKLOADS)
}

fn series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, &SERIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<MetricsConfig, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_has_to_match_as_a_whole() {
        let config = parse("namespaces = { allow = ['shop|team-.*'], deny = ['team-secret'] }").unwrap();
        let wanted = |name: &str| config.namespaces.wants(name);
        assert!(wanted("shop") && wanted("team-a"));
        assert!(!wanted("workshop") && !wanted("shopping") && !wanted("team-secret") && !wanted(""));
        assert!(config.pods.wants("anything"));
    }

    #[test]
    fn what_is_no_expression_and_what_is_out_of_range_is_refused() {
        for text in [
            "pods.deny = ['(']",
            "pods.deny = [')|(']",
            "workloads = 0",
            "series_per_workload = 10",
            "serie = 1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
