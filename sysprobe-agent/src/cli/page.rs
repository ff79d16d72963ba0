//! The common parts of commands whose windows are a scrolling page of lines: the live view with its keys, the
//! plain form, the envelope of the JSON form. Each command implements [`Page`] for what it makes of a window.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ratatui::text::Line;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::format;
use crate::cli::presenter::{Presenter, Settings, Width};
use crate::cli::tui::input::{Binding, Command};
use crate::snapshot::Snapshot;

pub(crate) mod app;
pub mod document;
pub(crate) mod keys;
mod view;

pub(crate) const GONE: &str = "it has gone: these are its last numbers";

/// What a command makes of a window.
pub(crate) trait Page: Sized {
    /// The command as a user types it.
    const COMMAND: &'static str;
    /// The version of the JSON form; it changes when a field is removed or changes its meaning.
    const VERSION: u32;

    /// What the windows show, and how: a workload, or an order.
    type Of: Debug;

    /// The command's part of the JSON form.
    type Document<'a>: JsonSchema + Serialize
    where
        Self: 'a;

    /// `None` if nothing is known about it any more.
    fn of(earlier: &Snapshot, later: &Snapshot, of: &Self::Of) -> Option<Self>;

    /// The subject's name; a page may know more of it than `of` does.
    fn name(page: Option<&Self>, of: &Self::Of) -> String;

    fn window(&self) -> Duration;

    /// Whether the subject has been deleted.
    fn is_gone(&self) -> bool {
        false
    }

    /// Whether there are numbers to show.
    fn has_numbers(&self) -> bool {
        true
    }

    fn body(&self, of: &Self::Of, form: &Form) -> Body;

    /// The command's part of the JSON form; without a page, nothing is known about the subject any more.
    fn document<'a>(page: Option<&'a Self>, of: &'a Self::Of) -> Self::Document<'a>;

    /// The terms on the screen and their meanings, for the help.
    fn terms() -> Vec<(&'static str, &'static str)>;

    /// All keys, in order of importance.
    fn bindings() -> &'static [Binding] {
        usual_bindings()
    }

    /// Handles a command that only this page has a key for.
    fn command(_of: &mut Self::Of, _command: Command) {}
}

/// The keys of a page that has none of its own.
pub(crate) fn usual_bindings() -> &'static [Binding] {
    &keys::BINDINGS
}

/// Display settings of a window.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) width: Width,
    pub(crate) color: bool,
    /// The visible part of the scrolling lines, in words; empty if all of them are visible.
    pub(crate) position: String,
}

impl Form {
    /// The end of a sentence, if not all lines are shown.
    pub(crate) fn which_lines(&self) -> String {
        match self.position.as_str() {
            "" => String::new(),
            position => format!(" Lines {position}."),
        }
    }
}

/// The lines of a window.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) fixed: Vec<Line<'static>>,
    /// Below the fixed lines; these scroll if there is too little room.
    pub(crate) rows: Vec<Line<'static>>,
}

/// One page per window.
pub(crate) struct Pages<P: Page> {
    of: P::Of,
    pages: PhantomData<P>,
}

impl<P: Page> Pages<P> {
    pub(crate) const fn new(of: P::Of) -> Self {
        Self { of, pages: PhantomData }
    }
}

impl<P: Page> Presenter for Pages<P> {
    type App = app::App<P>;

    fn text(&self, earlier: &Snapshot, later: &Snapshot, origin: &str, width: Width) -> String {
        let Some(page) = P::of(earlier, later, &self.of) else {
            return format!("{} has gone\n", P::name(None, &self.of));
        };
        let mut lines = vec![context(&page, &self.of, origin, width)];
        lines.extend(page.is_gone().then(|| GONE.to_owned()));
        let form = Form { width, color: false, position: String::new() };
        let Body { fixed, rows } = page.body(&self.of, &form);
        lines.extend(fixed.iter().chain(&rows).map(Line::to_string));
        lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
    }

    fn json(&self, earlier: &Snapshot, later: &Snapshot, origin: &str) -> serde_json::Result<String> {
        document::line::<P>(earlier, later, &self.of, origin)
    }

    fn into_app(self, settings: Settings, first: Arc<Snapshot>, size: (u16, u16)) -> app::App<P> {
        app::App::new(settings, self.of, first, size)
    }
}

/// The first line of the plain form.
fn context<P: Page>(page: &P, of: &P::Of, origin: &str, width: Width) -> String {
    let window = format::duration(page.window().as_secs_f64());
    let text = format!("{window} window of {}; {}", P::name(Some(page), of), format::clean(origin));
    match width {
        // Names and the path of a socket may be long.
        Width::Columns(columns) => format::cut_end(&text, columns),
        Width::Full => text,
    }
}
