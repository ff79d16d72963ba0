//! One line of a watch.

use std::sync::Arc;

use serde::Deserialize;

use crate::pods::pod::Pod;
use crate::pods::source::Sifted;
use crate::pods::unread::{Unread, of_metadata};
use crate::pods::wire::{WirePod, read};

/// Each variant has the version up to which everything has been received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Applied(Arc<Pod>, String),
    Deleted(Arc<Pod>, String),
    Bookmark(String),
    /// The server no longer knows what happened since the version that was asked for.
    Gone,
    Refused,
    /// An object that cannot be read, and the version if that much could be read.
    Unread(Unread, Option<String>),
}

/// Parsed first: a bookmark has no pod, an error has a `Status`.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: Kind,
    object: Brief,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
struct Brief {
    #[serde(default)]
    metadata: Version,
    #[serde(default)]
    code: u16,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

#[derive(Deserialize)]
struct Whole {
    object: WirePod,
}

impl Event {
    pub(super) fn parse(line: &Sifted) -> Self {
        Self::read(line).unwrap_or_else(|unread| Self::Unread(unread, version(line)))
    }

    fn read(line: &Sifted) -> Result<Self, Unread> {
        let Head { kind, object } = read(line)?;
        let version = object.metadata.resource_version;
        match kind {
            Kind::Bookmark => return Ok(Self::Bookmark(version)),
            // 410 is Gone. 504 is for a `resourceVersion` in the future of an etcd that was restored.
            Kind::Error if object.code == 410 || object.code == 504 => return Ok(Self::Gone),
            Kind::Error => return Ok(Self::Refused),
            Kind::Added | Kind::Modified | Kind::Deleted => {}
        }
        let Whole { object } = read(line)?;
        Ok(match object.trim().map(Arc::new) {
            Some(pod) if matches!(kind, Kind::Deleted) => Self::Deleted(pod, version),
            Some(pod) => Self::Applied(pod, version),
            None => Self::Bookmark(version),
        })
    }
}

/// Versions are etcd's revisions. Any other text is ignored, because it might continue the watch at the wrong
/// place.
fn version(line: &Sifted) -> Option<String> {
    let version = of_metadata(&line.text, "resourceVersion")?;
    (!version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Event {
        Event::parse(&Sifted { text: line.into(), is_cut: false })
    }

    #[test]
    fn every_kind_of_line() {
        let pod = r#"{"metadata":{"uid":"u","namespace":"n","name":"p","resourceVersion":"7"}}"#;
        for kind in ["ADDED", "MODIFIED"] {
            let event = parse(&format!(r#"{{"type":"{kind}","object":{pod}}}"#));
            assert!(matches!(event, Event::Applied(pod, version) if &*pod.uid == "u" && version == "7"));
        }
        let event = parse(&format!(r#"{{"type":"DELETED","object":{pod}}}"#));
        assert!(matches!(event, Event::Deleted(pod, version) if &*pod.name == "p" && version == "7"));
        let bookmark =
            r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"},"spec":null}}"#;
        assert_eq!(parse(bookmark), Event::Bookmark("9".into()));
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        assert_eq!(parse(gone), Event::Gone);
        assert_eq!(parse(r#"{"type":"ERROR","object":{"code":500}}"#), Event::Refused);
    }

    #[test]
    fn an_event_that_cannot_be_read_tells_its_version_if_there_is_one() {
        let version = |line: &str| match parse(line) {
            Event::Unread(_, version) => version,
            event => panic!("{event:?}"),
        };
        assert_eq!(version(r#"{"type":"ADDED""#), None);
        let pod =
            r#"{"metadata":{"name":"p","resourceVersion":"7","labels":{"resourceVersion":"9"}},"spec":5}"#;
        assert_eq!(version(&format!(r#"{{"type":"ADDED","object":{pod}}}"#)).as_deref(), Some("7"));
        assert_eq!(version(&format!(r#"{{"type":"REMADE","object":{pod}}}"#)).as_deref(), Some("7"));
        assert_eq!(
            version(r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"x7"},"spec":5}}"#),
            None
        );
        let cut =
            Sifted { text: format!(r#"{{"type":"ADDED","object":{}"#, &pod[..50]).into(), is_cut: true };
        let Event::Unread(unread, version) = Event::parse(&cut) else { panic!("it was cut") };
        assert_eq!((unread.what.as_str(), version.as_deref()), ("?/p", Some("7")));
    }
}
