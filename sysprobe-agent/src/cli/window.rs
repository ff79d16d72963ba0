//! Shows windows of time until the user quits: decides whether to draw a live view (`tui`), or to print text
//! or JSON, and has the loop that prints.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use crate::cli::args::{self, Mode, Output, WindowArgs};
use crate::cli::history::History;
use crate::cli::presenter::{Presenter, Settings, Width};
use crate::cli::tui::live;
use crate::snapshot::Snapshot;
use crate::snapshot::source::Source;

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
mod tests;
