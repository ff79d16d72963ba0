//! The text of a scrape, parsed into values that can be looked up.

use std::collections::BTreeMap;

/// One line: name, labels, value.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Samples(pub(crate) Vec<Sample>);

impl Samples {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("no sample: {line}"))).collect())
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

fn parse_line(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        number => number.parse().ok()?,
    };
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, parse_labels(labels.strip_suffix('}')?)?),
        None => (series, BTreeMap::new()),
    };
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Parses `a="x",b="y"` with `\"`, `\\` and `\n` in the values.
fn parse_labels(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"")?;
        let (value, length) = unescape(rest)?;
        labels.insert(key.to_owned(), value);
        text = rest[length..].trim_start_matches(',');
    }
    Some(labels)
}

/// The value up to its closing quote, and the length that was read, with the quote.
fn unescape(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, at + 1)),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}
