//! The flags of `sysprobe top`, and what they mean together: which of the three ways to show (live, plain, JSON) is
//! taken. The flag that names the agent's socket is not here: every command of the CLI has that one.

use std::{ffi::OsStr, io::IsTerminal, time::Duration};

use clap::{Args, ValueEnum};

use super::rows::{Selection, SortKey};

/// A shorter window holds too few samples for a p99, and costs a collection each time.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// Live table of workloads: CPU, throttling, waits for a CPU, switches.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLE)]
pub struct TopArgs {
    /// Measure one window, print it and exit.
    #[arg(long)]
    pub once: bool,
    /// The form of the output; `json` prints one document per line and window.
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: Output,
    /// The length of a window: seconds, or a number with `ms`, `s`, `m` or `h`, from 100ms to 1h.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval, default_value = "2")]
    pub interval: Duration,
    /// Sort by this column, largest first (`name`: from a to z).
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t)]
    pub sort: SortKey,
    /// Show only workloads whose namespace, pod or container contains this text, in upper or lower case.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Show workloads in which nothing happened, too.
    #[arg(long)]
    pub all: bool,
    /// Use no colour; a non-empty `NO_COLOR` in the environment does the same.
    #[arg(long)]
    pub no_color: bool,
}

pub const EXAMPLE: &str = "Example: the ten workloads that waited longest for a CPU in the next five seconds\n  \
    sysprobe top --once --interval 5 --sort p99 | head -12";

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// What fits into the terminal's width, or into 80 columns.
    #[default]
    Table,
    /// All columns and full names.
    Wide,
    /// Documents of version 1 with the units in the field names.
    Json,
}

/// How to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Live,
    Plain,
    Json,
}

impl TopArgs {
    /// Anything that is no interactive terminal gets plain text.
    #[must_use]
    pub fn mode(&self, terminal: bool) -> Mode {
        match self.output {
            Output::Json => Mode::Json,
            Output::Table | Output::Wide if terminal && !self.once => Mode::Live,
            Output::Table | Output::Wide => Mode::Plain,
        }
    }

    #[must_use]
    pub fn selection(&self) -> Selection {
        Selection { sort: self.sort, reverse: false, filter: self.filter.clone(), all: self.all }
    }

    /// Whether colour is wanted, given the value of `NO_COLOR` (<https://no-color.org>: empty means nothing).
    #[must_use]
    pub fn color(&self, no_color: Option<&OsStr>) -> bool {
        !self.no_color && no_color.is_none_or(OsStr::is_empty)
    }
}

/// Whether a person sits in front of standard input and output, on a terminal that can move its cursor.
#[must_use]
pub fn interactive_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 0.001,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(no_interval()),
    };
    let number: f64 = number.trim_end().parse().map_err(|_| no_interval())?;
    let interval = Duration::try_from_secs_f64(number * unit).map_err(|_| out_of_range())?;
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err(out_of_range())
    }
}

fn no_interval() -> String {
    "write a number of seconds, or a number with `ms`, `s`, `m` or `h`, such as `2`, `500ms` or `1m`"
        .to_owned()
}

fn out_of_range() -> String {
    "the interval must be at least 100ms and at most 1h".to_owned()
}

#[cfg(test)]
mod tests;
