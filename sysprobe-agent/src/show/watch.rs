//! What the commands have in common that watch one workload: which it is, the live view with its keys, the plain form, the
//! envelope of the JSON form. What they make of a window of it is a command's own business: it implements [`Report`].

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ratatui::text::Line;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    Settings, Source, View, Width,
    args::WorkloadArgs,
    target::{NoTarget, Target},
};
use crate::snapshot::Snapshot;

pub(crate) mod app;
pub mod document;
mod keys;
mod subject;
mod view;

pub(crate) use subject::Subject;

/// How long a source that was started a moment ago may take to name the pods: as long as an API server takes to answer.
const NAMES_WITHIN: Duration = Duration::from_secs(3);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

pub(crate) const GONE: &str = "it has gone: these are its last numbers";

/// What a command makes of a window of one workload.
pub(crate) trait Report: Sized {
    /// As it is typed.
    const COMMAND: &'static str;
    /// Of the JSON form; it changes when a field goes or changes its meaning.
    const VERSION: u32;

    /// Its part of the JSON form; the default is that of a workload of which nothing is known any more.
    type Document<'a>: Serialize + Default
    where
        Self: 'a;

    /// `None` if nothing of the workload is known any more.
    fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self>;

    fn subject(&self) -> &Subject;

    /// Whether there is something to look at.
    fn has_numbers(&self) -> bool;

    fn body(&self, form: &Form) -> Body;

    fn document(&self) -> Self::Document<'_>;

    /// The words on the screen and what they mean, for the help.
    fn terms() -> Vec<(&'static str, &'static str)>;
}

/// How a window is shown.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) width: Width,
    pub(crate) color: bool,
    /// Which of the lines that scroll are shown; empty if all are.
    pub(crate) position: String,
}

/// What is shown of a window.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) fixed: Vec<Line<'static>>,
    /// Below them, those that scroll where there is too little room.
    pub(crate) rows: Vec<Line<'static>>,
}

/// Shows windows of the workload that is meant until the user has seen enough: one with `--once`.
pub(crate) async fn run<R: Report>(args: WorkloadArgs, mut source: impl Source) -> anyhow::Result<()> {
    let (target, first) = find(&args, &mut source).await?;
    super::run(&args.window, Watch::<R>::new(target), first, source).await
}

/// The workload that is meant, and a snapshot that has it. Where pods have names that may still come, they are waited for.
async fn find(args: &WorkloadArgs, source: &mut impl Source) -> anyhow::Result<(Target, Snapshot)> {
    let begun = Instant::now();
    loop {
        let snapshot = source.next().await?;
        let names_may_come =
            source.is_new() && !snapshot.agent.pod_sources.is_empty() && begun.elapsed() < NAMES_WITHIN;
        match Target::find(&snapshot, args) {
            Ok(target) => return Ok((target, snapshot)),
            Err(NoTarget::Unknown { .. }) if names_may_come => sleep(LOOK_AGAIN_AFTER).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The reports on a workload.
pub(crate) struct Watch<R> {
    target: Target,
    reports: PhantomData<R>,
}

impl<R> Watch<R> {
    pub(crate) const fn new(target: Target) -> Self {
        Self { target, reports: PhantomData }
    }
}

impl<R: Report> View for Watch<R> {
    type App = app::App<R>;

    fn text(&self, earlier: &Snapshot, later: &Snapshot, origin: &str, width: Width) -> String {
        let Some(report) = R::of(earlier, later, &self.target) else {
            return format!("{} has gone\n", self.target.name());
        };
        let subject = report.subject();
        let mut lines = vec![subject.context(&self.target, origin, width)];
        lines.extend(subject.gone.then(|| GONE.to_owned()));
        let Body { fixed, rows } = report.body(&Form { width, color: false, position: String::new() });
        lines.extend(fixed.iter().chain(&rows).map(Line::to_string));
        lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
    }

    fn json(&self, earlier: &Snapshot, later: &Snapshot, origin: &str) -> serde_json::Result<String> {
        document::line::<R>(earlier, later, &self.target, origin)
    }

    fn into_app(self, settings: Settings, first: Arc<Snapshot>, size: (u16, u16)) -> app::App<R> {
        app::App::new(settings, self.target, first, size)
    }
}
