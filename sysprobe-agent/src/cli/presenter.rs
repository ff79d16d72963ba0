//! What a command implements to show windows: their text, their JSON, and the state of a live view.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyEvent;
use ratatui::Frame;

use crate::snapshot::Snapshot;

/// What a command makes of two snapshots.
pub(crate) trait Presenter {
    type App: App;

    /// The text of one window, with its last newline.
    fn text(&self, earlier: &Snapshot, later: &Snapshot, origin: &str, width: Width) -> String;

    /// One document on one line, with its newline.
    fn json(&self, earlier: &Snapshot, later: &Snapshot, origin: &str) -> serde_json::Result<String>;

    /// The live view, for a terminal of this size.
    fn into_app(self, settings: Settings, first: Arc<Snapshot>, size: (u16, u16)) -> Self::App;
}

/// Display settings of a live view.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) interval: Duration,
    /// The length of a window; `None` for the time between two samples.
    pub(crate) window: Option<Duration>,
    pub(crate) wide: bool,
    pub(crate) color: bool,
    /// The origin of the numbers.
    pub(crate) source: String,
}

/// The available width of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Columns by importance, names truncated.
    Columns(usize),
    /// Everything, full names.
    Full,
}

/// An input of the view.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Key(KeyEvent),
    Resize {
        width: u16,
        height: u16,
    },
    Sample(Arc<Snapshot>),
    /// The source failed; the text says how.
    Failed(String),
}

/// What the loop does next; it draws in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Draw,
    /// Sample at this interval from now on.
    SetInterval(Duration),
    Quit,
}

/// The state of a live view. It neither reads the clock nor waits.
pub(crate) trait App {
    /// Applies an event to the state.
    fn update(&mut self, event: Event) -> Action;
    fn draw(&self, frame: &mut Frame);
}
