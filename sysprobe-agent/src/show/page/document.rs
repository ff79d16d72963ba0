//! The JSON form of one window, for scripts: what all have around what a command has to say. Fields keep
//! their names and meanings within a version; new ones may come.

use schemars::JsonSchema;
use serde::Serialize;

use super::Page;
use crate::snapshot::{DomainState, Snapshot};

/// One window.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Document<'a, N> {
    /// Of the form; it changes when a field goes or changes its meaning.
    pub version: u32,
    /// Where the numbers come from, in words for people: a running agent, or programs of the command itself.
    pub source: &'a str,
    /// The measured length of the window, which differs a little from the interval asked for.
    pub window_seconds: f64,
    /// What is measured, and why something is not.
    pub domains: &'a [DomainState],
    /// What the command is about.
    #[serde(flatten)]
    pub numbers: N,
}

/// One document on one line, with its newline.
pub(super) fn line<P: Page>(
    earlier: &Snapshot,
    later: &Snapshot,
    of: &P::Of,
    source: &str,
) -> serde_json::Result<String> {
    let page = P::of(earlier, later, of);
    let document = Document {
        version: P::VERSION,
        source,
        window_seconds: later.window_since(earlier).as_secs_f64(),
        domains: &later.domains,
        numbers: P::document(page.as_ref(), of),
    };
    Ok(serde_json::to_string(&document)? + "\n")
}
