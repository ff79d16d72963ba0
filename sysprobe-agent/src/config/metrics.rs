//! What is exported: which metric families, for which workloads, and how many series.

use std::fmt;
use std::ops::RangeInclusive;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::limits::within;

/// The upper limit is what a Prometheus server can be expected to ingest from one node.
const WORKLOADS: RangeInclusive<u32> = 1..=100_000;
const SERIES: RangeInclusive<u32> = 50..=1_000_000;

/// Which metric families are exported, for which workloads, and how many series.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Which metric families are exported, by name. Histograms are named without `_bucket`, `_count` and
    /// `_sum`.
    pub families: Filter,
    /// Which pods are exported individually, by namespace.
    pub namespaces: Filter,
    /// Which pods are exported individually, by name.
    pub pods: Filter,
    /// Maximum number of workloads exported individually. Those beyond it, and those that are not selected,
    /// are summed in the container `other`.
    #[serde(deserialize_with = "workloads")]
    pub workloads: u32,
    /// Maximum number of series per workload. Beyond it, the last metric families are left out. `kernel`,
    /// `unknown` and `other` may have ten times as many.
    #[serde(deserialize_with = "series")]
    pub series_per_workload: u32,
    /// Histogram buckets in the text format.
    pub classic_buckets: ClassicBuckets,
    /// Whether OpenMetrics text includes `_created` lines: the start time of each counter and histogram. A
    /// server that does not support them stores them as series of their own.
    pub created_lines: bool,
}

/// Histogram buckets in the text format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassicBuckets {
    /// One bucket per power of two for wakeup latency, one per factor of 8 for all other
    /// histograms.
    #[default]
    Fine,
    /// One bucket per factor of 8.
    Coarse,
    /// No buckets, only count and sum.
    None,
}

/// A filter by name. Each pattern is a regular expression that must match the whole name.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Patterns of the names to include. Empty includes all.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<Pattern>,
    /// Patterns of the names to exclude. They take precedence over `allow`.
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
        // Without this check, unbalanced parentheses (`a)|(b`) would become valid inside the group below.
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
