//! `sysprobe top` and `sysprobe io`: what every workload did in the last window, live or once, for people or for
//! scripts. They differ in what they are about (`topic`) and in their columns.
//!
//! Two snapshots make a window (`rows`), which is shown as a live table (`app`, `input`, `view`, `live`), as plain text
//! (`table`) or as JSON (`json`). Where snapshots come from is the caller's business: it implements [`Source`].

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use crate::snapshot::Snapshot;

mod app;
pub mod args;
mod columns;
mod format;
mod input;
pub mod json;
mod live;
pub mod rows;
mod sparkline;
mod table;
pub mod topic;
mod view;

pub use args::{IoArgs, TopArgs};
use args::{Mode, Output, WindowArgs};
pub use rows::Selection;

/// Where snapshots come from.
pub trait Source {
    /// The state of now. A failure is final or not: the live table asks again.
    fn next(&mut self) -> impl Future<Output = anyhow::Result<Snapshot>> + Send;

    /// A few words for the header, such as `agent at /run/sysprobe.sock`.
    fn describe(&self) -> String;

    /// What a reader of these numbers should know, as sentences without a full stop.
    fn warnings(&self) -> &[String] {
        &[]
    }
}

/// The width of a plain table that goes anywhere but to a terminal.
const PLAIN_WIDTH: usize = 80;

/// Shows windows until the user has seen enough: one with `--once`.
pub async fn run(args: WindowArgs, selection: Selection, mut source: impl Source) -> anyhow::Result<()> {
    let first = source.next().await?;
    let mode = args.mode(args::interactive_terminal());
    if mode != Mode::Live {
        return print_windows(&args, &selection, mode, first, source).await;
    }
    // A terminal that cannot be driven still takes text.
    match live::Screen::open() {
        Ok(screen) => live::run(screen, settings(&args, selection, source.describe()), first, source).await,
        Err(error) => {
            tracing::warn!(%error, "The terminal cannot show a live table; printing one per interval.");
            print_windows(&args, &selection, Mode::Plain, first, source).await
        }
    }
}

fn settings(args: &WindowArgs, selection: Selection, source: String) -> app::Settings {
    app::Settings {
        selection,
        interval: args.interval,
        wide: args.output == Output::Wide,
        color: args.color(std::env::var_os("NO_COLOR").as_deref()),
        source,
    }
}

/// A reader that has gone (`| head`) ends it quietly.
async fn print_windows(
    args: &WindowArgs,
    selection: &Selection,
    mode: Mode,
    first: Snapshot,
    mut source: impl Source,
) -> anyhow::Result<()> {
    warn(&mut io::stderr().lock(), source.warnings());
    let origin = source.describe();
    let mut ticks = ticks(args.interval).await;
    let mut earlier = first;
    let mut separator = "";
    loop {
        ticks.tick().await;
        let later = source.next().await?;
        let text = match mode {
            Mode::Json => json::line(&earlier, &later, selection, &origin)?,
            Mode::Live | Mode::Plain => {
                let width = plain_width(args.output);
                let table = table::text(&earlier, &later, selection, &origin, width);
                format!("{}{table}", std::mem::replace(&mut separator, "\n"))
            }
        };
        if !write_out(&mut io::stdout().lock(), &text)? || args.once {
            return Ok(());
        }
        earlier = later;
    }
}

/// A live table has the whole screen; here they do not mix with the output.
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

fn plain_width(output: Output) -> table::Width {
    if output == Output::Wide {
        return table::Width::Full;
    }
    let size = io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
    let columns = size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
    table::Width::Columns(columns.unwrap_or(PLAIN_WIDTH))
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
mod fixture;
#[cfg(test)]
mod tests;
