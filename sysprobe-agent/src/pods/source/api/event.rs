//! One line of a watch.

use std::sync::Arc;

use serde::Deserialize;

use crate::pods::pod::Pod;
use crate::pods::wire::WirePod;

/// With the version that everything up to it has been heard of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Applied(Arc<Pod>, String),
    Deleted(Arc<Pod>, String),
    Bookmark(String),
    /// The server no longer knows what happened since the version that was asked for.
    Gone,
    Refused,
}

/// What is looked at first: a bookmark has no pod, an error has a `Status`.
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
    pub(super) fn parse(line: &[u8]) -> serde_json::Result<Self> {
        let Head { kind, object } = serde_json::from_slice(line)?;
        let version = object.metadata.resource_version;
        match kind {
            Kind::Bookmark => return Ok(Self::Bookmark(version)),
            // Gone, or `resourceVersion` from a future that a restored etcd does not have.
            Kind::Error if object.code == 410 || object.code == 504 => return Ok(Self::Gone),
            Kind::Error => return Ok(Self::Refused),
            Kind::Added | Kind::Modified | Kind::Deleted => {}
        }
        let Whole { object } = serde_json::from_slice(line)?;
        Ok(match object.trim().map(Arc::new) {
            Some(pod) if matches!(kind, Kind::Deleted) => Self::Deleted(pod, version),
            Some(pod) => Self::Applied(pod, version),
            None => Self::Bookmark(version),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Event {
        Event::parse(line.as_bytes()).expect("an event")
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
        assert!(Event::parse(b"{\"type\":\"ADDED\"").is_err());
    }
}
