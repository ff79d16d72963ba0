//! The JSON form of one window, for scripts: the envelope around a command's own part. Within a version,
//! fields keep their names and meanings; new ones may be added.

use schemars::JsonSchema;
use serde::Serialize;

use super::Page;
use crate::snapshot::{DomainState, Snapshot};

/// One window.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Document<'a, N> {
    /// Version of this document format. It changes when a field is removed or changes its meaning.
    pub version: u32,
    /// Where the numbers come from, in words: a running agent, or programs that the command loaded itself.
    pub source: &'a str,
    /// Measured length of the window in seconds. It differs slightly from the requested length.
    pub window_seconds: f64,
    /// State of each domain: whether it is measured, how, and if not, why.
    pub domains: &'a [DomainState],
    /// The command's own part.
    #[serde(flatten)]
    pub numbers: N,
}

impl<'a, N: Serialize> Document<'a, N> {
    pub(in crate::cli) fn new(
        version: u32,
        earlier: &Snapshot,
        later: &'a Snapshot,
        source: &'a str,
        numbers: N,
    ) -> Self {
        let window_seconds = later.window_since(earlier).as_secs_f64();
        Self { version, source, window_seconds, domains: &later.domains, numbers }
    }

    /// One document on one line, with its newline.
    pub(in crate::cli) fn line(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

/// A page's document.
pub(super) fn line<P: Page>(
    earlier: &Snapshot,
    later: &Snapshot,
    of: &P::Of,
    source: &str,
) -> serde_json::Result<String> {
    let page = P::of(earlier, later, of);
    Document::new(P::VERSION, earlier, later, source, P::document(page.as_ref(), of)).line()
}
