//! The common parts of commands about one workload: which one it is, and what all of these commands say about
//! it. Each of their windows is a [`Page`]. Each command implements [`Report`] for what it makes of a window.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::args::WorkloadArgs;
use crate::cli::page::{self, Body, Form, Page, Pages};
use crate::cli::subject::Subject;
use crate::cli::target::Target;
use crate::cli::tui::input::Binding;
use crate::cli::{pod_names, window};
use crate::snapshot::Snapshot;
use crate::snapshot::source::Source;

pub mod document;

/// What a command makes of a window of one workload.
pub(crate) trait Report: Sized {
    /// The command as a user types it.
    const COMMAND: &'static str;
    /// The version of the JSON form; it changes when a field is removed or changes its meaning.
    const VERSION: u32;

    /// The command's part of the JSON form; the default is for a workload about which nothing is known any
    /// more.
    type Document<'a>: JsonSchema + Serialize + Default
    where
        Self: 'a;

    /// `None` if nothing is known about the workload any more.
    fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self>;

    fn subject(&self) -> &Subject;

    /// Whether there are numbers to show.
    fn has_numbers(&self) -> bool;

    fn body(&self, form: &Form) -> Body;

    fn document(&self) -> Self::Document<'_>;

    /// The terms on the screen and their meanings, for the help.
    fn terms() -> Vec<(&'static str, &'static str)>;

    /// All keys, in order of importance.
    fn bindings() -> &'static [Binding] {
        page::usual_bindings()
    }
}

impl<R: Report> Page for R {
    const COMMAND: &'static str = R::COMMAND;
    const VERSION: u32 = R::VERSION;
    type Of = Target;
    type Document<'a>
        = document::OfWorkload<'a, R::Document<'a>>
    where
        Self: 'a;

    fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self> {
        R::of(earlier, later, target)
    }

    fn name(report: Option<&Self>, target: &Target) -> String {
        report.map_or_else(|| target.name(), |report| report.subject().name(target))
    }

    fn window(&self) -> Duration {
        self.subject().window
    }

    fn is_gone(&self) -> bool {
        self.subject().gone
    }

    fn has_numbers(&self) -> bool {
        R::has_numbers(self)
    }

    fn body(&self, _: &Target, form: &Form) -> Body {
        R::body(self, form)
    }

    fn document<'a>(report: Option<&'a Self>, target: &'a Target) -> Self::Document<'a> {
        document::OfWorkload {
            workload: document::WorkloadDocument::new(target, report.map(R::subject)),
            numbers: report.map(|report| R::document(report)).unwrap_or_default(),
        }
    }

    fn terms() -> Vec<(&'static str, &'static str)> {
        R::terms()
    }

    fn bindings() -> &'static [Binding] {
        R::bindings()
    }
}

/// Shows windows of the selected workload until the user quits; with `--once`, a single one.
pub(crate) async fn run<R: Report>(args: WorkloadArgs, mut source: impl Source) -> anyhow::Result<()> {
    let look = |snapshot: &Snapshot| Target::find(snapshot, &args);
    let (target, first) = pod_names::awaited(&mut source, look).await?;
    window::run(&args.window, Pages::<R>::new(target), first, source).await
}
