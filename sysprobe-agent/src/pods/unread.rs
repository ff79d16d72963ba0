//! Objects that a source could not use: counted by reason, logged once each, and skipped. Other objects of
//! the same list or stream are not affected.

use std::collections::HashSet;

use tracing::warn;

use super::source::SourceKind;
use crate::cgroup::name::printable;

/// How many objects are remembered as logged. Further ones are only counted.
const SAID_MAX: usize = 64;
/// Metadata are at the beginning of an object, and names at the beginning of the metadata.
const SEARCHED: usize = 4096;
/// Enough of a parser's error for a log line.
const ERROR_MAX: usize = 200;

/// Why an object is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The parts that are wanted of it exceed the limit for one object.
    TooLarge,
    /// It is not a pod, or not in a format that this agent knows.
    Malformed,
    /// There are more pods, or more text, than is kept.
    NoRoom,
}

impl Why {
    const ALL: [Self; 3] = [Self::TooLarge, Self::Malformed, Self::NoRoom];

    /// The label value of the metric.
    const fn reason(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::NoRoom => "no_room",
        }
    }
}

/// One skipped object, or several that are reported together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) why: Why,
    /// Its namespace and name, as far as they could be read.
    pub(super) what: String,
    error: String,
    pub(super) count: u64,
}

impl Unread {
    /// `text` is the part of the object that was kept.
    pub(super) fn new(why: Why, text: &[u8], error: &str) -> Self {
        let member = |name| of_metadata(text, name).unwrap_or_else(|| "?".to_owned());
        Self::called(why, format!("{}/{}", member("namespace"), member("name")), error)
    }

    /// For an object whose name is known.
    pub(super) fn called(why: Why, what: String, error: &str) -> Self {
        Self { why, what, error: printable(error).chars().take(ERROR_MAX).collect(), count: 1 }
    }
}

/// A text member of an object's metadata, even if the rest cannot be parsed: names and versions contain no
/// quotes.
pub(super) fn of_metadata(text: &[u8], name: &str) -> Option<String> {
    let beginning = String::from_utf8_lossy(&text[..text.len().min(SEARCHED)]);
    let (_, metadata) = beginning.split_once("\"metadata\"")?;
    let (_, member) = metadata.split_once(&format!("\"{name}\""))?;
    let value = member.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    Some(printable(value.split_once('"')?.0))
}

/// Objects skipped since the start.
#[derive(Debug, Default)]
pub(super) struct Losses {
    counts: [u64; Why::ALL.len()],
    said: HashSet<(SourceKind, String)>,
}

impl Losses {
    pub(super) fn note(&mut self, source: SourceKind, unread: Unread) {
        let Unread { why, what, error, count } = unread;
        self.counts[why as usize] += count;
        if self.said.len() < SAID_MAX && self.said.insert((source, what.clone())) {
            let (source, reason) = (source.name(), why.reason());
            warn!(source, pod = what, reason, error, "A pod could not be read and was skipped.");
        }
    }

    /// By reason, including those that are zero.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Why::ALL.into_iter().map(|why| (why.reason(), self.counts[why as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broken_object_is_called_is_bounded_and_printable() {
        let what = |text: &str| Unread::new(Why::Malformed, text.as_bytes(), "").what;
        assert_eq!(
            what(r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"ns","uid":5"#),
            "ns/a"
        );
        assert_eq!(what(r#"{"metadata": {"namespace" : "ns", "name": 7}}"#), "ns/?");
        assert_eq!(what("<html>"), "?/?");
        let long = format!(
            r#"{{"metadata":{{"name":"{}\u001b","namespace":"{}"#,
            "\u{1b}".repeat(9),
            "x".repeat(9000)
        );
        assert!(what(&long).len() < 600 && !what(&long).contains('\u{1b}'), "{}", what(&long));
    }

    #[test]
    fn losses_are_counted_by_reason_and_said_a_bounded_number_of_times() {
        let mut losses = Losses::default();
        for number in 0..1000 {
            let text = format!(r#"{{"metadata":{{"name":"p{number}""#);
            losses.note(SourceKind::Kubernetes, Unread::new(Why::TooLarge, text.as_bytes(), "too long"));
        }
        losses.note(SourceKind::Kubelet, Unread { count: 3, ..Unread::new(Why::NoRoom, b"", "") });
        assert_eq!(
            losses.counts().collect::<Vec<_>>(),
            [("too_large", 1000), ("malformed", 0), ("no_room", 3)]
        );
        assert_eq!(losses.said.len(), SAID_MAX);
    }
}
