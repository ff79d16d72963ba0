//! The samples of a scrape, to look up.

use super::sample::{Sample, parse};

#[derive(Clone, Debug)]
pub(crate) struct Samples(pub(crate) Vec<Sample>);

impl Samples {
    pub(crate) fn parse(text: &str) -> Self {
        Self(parse(text).unwrap_or_else(|line| panic!("no sample: {line}")))
    }

    /// All samples of a name that have at least these labels.
    pub(crate) fn select<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let has = |sample: &Sample| {
            labels.iter().all(|(key, value)| sample.labels.get(*key).is_some_and(|has| has == value))
        };
        self.0.iter().filter(move |sample| sample.name == name && has(sample))
    }

    /// The one sample with these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.select(name, labels);
        let first = found.next()?;
        assert!(found.next().is_none(), "{name}{labels:?} is ambiguous");
        Some(first.value)
    }

    /// Like `value`, but the sample must exist.
    pub(crate) fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.value(name, labels).unwrap_or_else(|| panic!("the scrape has no {name}{labels:?}"))
    }
}
