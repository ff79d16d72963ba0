//! `sysprobe top`, `sysprobe io` and `sysprobe net`: the activity of every workload in the last window, live
//! or once, as text or JSON. They differ in their subject (`views`) and in their columns.
//!
//! Two snapshots make a window (`cli::rows`), of which `selection` chooses the rows. It is shown as a live
//! table (`app`, `keys`, `view`), as plain text (`table`) or as JSON (`json`). `cli::window` takes the
//! snapshots and drives the terminal, as for all commands.

use std::sync::Arc;

use crate::cli::args::WindowArgs;
use crate::cli::presenter::{Presenter, Settings, Width};
use crate::cli::{pod_names, window};
use crate::snapshot::Snapshot;
use crate::snapshot::source::Source;

mod app;
pub mod args;
mod columns;
pub mod json;
mod keys;
mod open;
mod selection;
mod sparkline;
mod table;
mod view;
pub mod views;

pub use args::{IoArgs, NetArgs, TopArgs};
pub use selection::Selection;

/// Shows windows until the user quits; with `--once`, a single one.
pub async fn run(args: WindowArgs, selection: Selection, mut source: impl Source) -> anyhow::Result<()> {
    let look = |snapshot: &Snapshot| Ok(selection.scope.check(snapshot)?);
    let ((), first) = pod_names::awaited(&mut source, look).await?;
    window::run(&args, selection, first, source).await
}

impl Presenter for Selection {
    type App = app::App;

    fn text(&self, earlier: &Snapshot, later: &Snapshot, origin: &str, width: Width) -> String {
        table::text(earlier, later, self, origin, width)
    }

    fn json(&self, earlier: &Snapshot, later: &Snapshot, origin: &str) -> serde_json::Result<String> {
        json::line(earlier, later, self, origin)
    }

    fn into_app(self, settings: Settings, first: Arc<Snapshot>, size: (u16, u16)) -> app::App {
        app::App::new(settings, self, first, size)
    }
}
