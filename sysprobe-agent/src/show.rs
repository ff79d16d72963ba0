//! What the commands have in common that show windows of time, live or once, for people or for scripts: where
//! snapshots come from ([`Source`]), the flags, the loop that prints, the one that draws (`live`), keys,
//! help, and how numbers and names look. Those whose windows are a page of lines share more (`page`), and of
//! them those that watch one workload (`watch`, `target`), and what it waited for a CPU (`waits`). What a
//! window is made into is a command's own business: it implements [`Presenter`].

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use crate::snapshot::Snapshot;

pub mod args;
pub(crate) mod bar;
pub(crate) mod chrome;
pub(crate) mod format;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod input;
pub(crate) mod live;
pub(crate) mod names;
pub mod page;
pub mod scope;
pub(crate) mod steps;
pub(crate) mod target;
pub(crate) mod waits;
pub mod watch;

use args::{Mode, Output, WindowArgs};
use history::History;

/// Where snapshots come from.
pub trait Source {
    /// The state of now. A failure is final or not: a live view asks again.
    fn next(&mut self) -> impl Future<Output = anyhow::Result<Snapshot>> + Send;

    /// When it will be asked the next time: what goes on only for those who ask has to last that long.
    fn will_ask_again_in(&mut self, _interval: Duration) {}

    /// A few words for the header, such as `agent at /run/sysprobe.sock`.
    fn describe(&self) -> String;

    /// What a reader of these numbers should know, as sentences without a full stop.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Whether it was started a moment ago, so that names may still come.
    fn is_new(&self) -> bool {
        false
    }
}

/// What two snapshots are made into.
pub(crate) trait Presenter {
    type App: live::App;

    /// The text of one window, with its last newline.
    fn text(&self, earlier: &Snapshot, later: &Snapshot, origin: &str, width: Width) -> String;

    /// One document on one line, with its newline.
    fn json(&self, earlier: &Snapshot, later: &Snapshot, origin: &str) -> serde_json::Result<String>;

    /// The live view, for a terminal of this size.
    fn into_app(self, settings: Settings, first: Arc<Snapshot>, size: (u16, u16)) -> Self::App;
}

/// How a live view is shown.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) interval: Duration,
    /// How long a window is, if not from one sample to the next.
    pub(crate) window: Option<Duration>,
    pub(crate) wide: bool,
    pub(crate) color: bool,
    /// Where the numbers come from.
    pub(crate) source: String,
}

/// How wide a text may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// By importance, names cut.
    Columns(usize),
    /// Everything, full names.
    Full,
}

/// The width of a plain table that goes anywhere but to a terminal.
const PLAIN_WIDTH: usize = 80;

/// Shows windows, of which `first` begins the first, until the user has seen enough: one with `--once`.
pub(crate) async fn run(
    args: &WindowArgs,
    view: impl Presenter,
    first: Snapshot,
    source: impl Source,
) -> anyhow::Result<()> {
    let mode = args.mode(args::interactive_terminal());
    if mode != Mode::Live {
        return print_windows(args, &view, mode, first, source).await;
    }
    // A terminal that cannot be driven still takes text.
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

/// A reader that has gone (`| head`) ends it quietly.
async fn print_windows(
    args: &WindowArgs,
    view: &impl Presenter,
    mode: Mode,
    first: Snapshot,
    mut source: impl Source,
) -> anyhow::Result<()> {
    warn(&mut io::stderr().lock(), source.warnings());
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

/// A live view has the whole screen; here they do not mix with the output.
fn warn(err: &mut impl Write, warnings: &[String]) {
    for warning in warnings {
        // Without standard error, the numbers are still of use.
        drop(writeln!(err, "sysprobe: {warning}."));
    }
}

/// A clock whose first tick, which is immediate, is over.
async fn ticks(length: Duration) -> tokio::time::Interval {
    let mut ticks = interval(length);
    // After a slow sample, a whole window again: a short one would make a poor p99.
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

/// Whether there is still a reader.
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
