//! The common parts of commands that show windows of time, live or once, as text or JSON: the flags, the
//! loop that prints, the one that draws (`live`), keys, help, and the format of numbers and names. `page`
//! adds what commands with a scrolling page of lines share, `workload_view` and `target` what commands about
//! one workload share, and `waits` its waits for a CPU. Each command implements [`Presenter`] for what it
//! makes of a window.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use crate::snapshot::Snapshot;
use crate::source::Source;

pub mod args;
pub(crate) mod bar;
pub(crate) mod chrome;
pub(crate) mod format;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod input;
pub(crate) mod json_schema;
pub(crate) mod live;
pub(crate) mod names;
pub mod page;
pub mod scope;
pub(crate) mod steps;
pub(crate) mod target;
pub(crate) mod waits;
pub mod workload_view;

use args::{Mode, Output, WindowArgs};
use history::History;

/// What a command makes of two snapshots.
pub(crate) trait Presenter {
    type App: live::App;

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

/// The width of a plain table if the output is not a terminal.
const PLAIN_WIDTH: usize = 80;

/// Shows windows, the first of which begins with `first`, until the user quits; with `--once`, a single one.
pub(crate) async fn run(
    args: &WindowArgs,
    view: impl Presenter,
    first: Snapshot,
    source: impl Source,
) -> anyhow::Result<()> {
    // A live view owns the whole screen: then they are there when it ends.
    warn(&mut io::stderr().lock(), source.warnings());
    let mode = args.mode(args::interactive_terminal());
    if mode != Mode::Live {
        return print_windows(args, &view, mode, first, source).await;
    }
    // If the terminal cannot be controlled, it still accepts text.
    match live::Screen::open() {
        Ok(screen) => live::run(screen, settings(args, source.describe()), view, first, source).await,
        Err(error) => {
            tracing::warn!(%error, "The terminal cannot show a live table; printing one per interval.");
            print_windows(args, &view, Mode::Plain, first, source).await
        }
    }
}

fn settings(args: &WindowArgs, source: String) -> Settings {
    Settings {
        interval: args.interval,
        window: args.window,
        wide: args.output == Output::Wide,
        color: args.color(std::env::var_os("NO_COLOR").as_deref()),
        source,
    }
}

/// A reader that closes the pipe (`| head`) ends it without an error.
async fn print_windows(
    args: &WindowArgs,
    view: &impl Presenter,
    mode: Mode,
    first: Snapshot,
    mut source: impl Source,
) -> anyhow::Result<()> {
    let origin = source.describe();
    let mut ticks = ticks(args.step()).await;
    let mut history = History::new(args.window, Arc::new(first));
    let mut separator = "";
    loop {
        ticks.tick().await;
        let later = Arc::new(source.next().await?);
        let earlier = history.add(&later);
        let text = match mode {
            Mode::Json => view.json(&earlier, &later, &origin)?,
            Mode::Live | Mode::Plain => {
                let table = view.text(&earlier, &later, &origin, plain_width(args.output));
                format!("{}{table}", std::mem::replace(&mut separator, "\n"))
            }
        };
        if !write_out(&mut io::stdout().lock(), &text)? || args.once {
            return Ok(());
        }
    }
}

/// Writes to standard error, so that warnings do not mix with the output.
fn warn(err: &mut impl Write, warnings: &[String]) {
    for warning in warnings {
        // If standard error is closed, the numbers are still useful.
        drop(writeln!(err, "sysprobe: {warning}."));
    }
}

/// A clock whose immediate first tick has passed.
async fn ticks(length: Duration) -> tokio::time::Interval {
    let mut ticks = interval(length);
    // After a slow sample, the next window has its full length again: a short one would make a poor p99.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    ticks
}

fn plain_width(output: Output) -> Width {
    if output == Output::Wide {
        return Width::Full;
    }
    let size = io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
    let columns = size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
    Width::Columns(columns.unwrap_or(PLAIN_WIDTH))
}

/// Whether the output still has a reader.
fn write_out(out: &mut impl Write, text: &str) -> io::Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
