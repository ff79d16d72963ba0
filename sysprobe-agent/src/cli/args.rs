//! The common flags of commands that show windows, and how they select between live, plain and JSON output.
//! The flag for the agent's socket is not here: every command of the CLI has it.

use std::{ffi::OsStr, io::IsTerminal, time::Duration};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use clap_complete::engine::ArgValueCompleter;

use crate::cli::completion;
use crate::cli::scope::Scope;

/// A shorter window holds too few samples for a p99, and costs a collection each time.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);
/// Receiving data takes at least some microseconds.
const SHORTEST_THRESHOLD: Duration = Duration::from_micros(1);

/// How long windows are, and how they are shown.
#[derive(Args, Clone, Debug)]
pub struct WindowArgs {
    /// Measure one window, print it and exit.
    #[arg(long)]
    pub once: bool,
    /// Output format; `wide` has all columns and full names, `json` one line per window.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
    /// Time between updates, from 100ms to 1h. The units are `ms`, `s`, `m` and `h`; a plain number is in
    /// seconds.
    #[arg(long, value_name = "DURATION", value_parser = parse_interval, default_value = "2")]
    pub interval: Duration,
    /// Time that each update covers, at least the interval, at most 1h [default: the interval]
    #[arg(long, value_name = "DURATION", value_parser = parse_interval)]
    pub window: Option<Duration>,
    /// Disable colour; a non-empty `NO_COLOR` in the environment does the same.
    #[arg(long)]
    pub no_color: bool,
}

/// Of which workload the windows are.
#[derive(Args, Clone, Debug)]
pub struct WorkloadArgs {
    /// Pod, NAMESPACE/POD, systemd unit or cgroup path; a unique prefix is enough. Optional if a selector
    /// matches exactly one pod.
    #[arg(
        value_name = "POD", value_parser = NonEmptyStringValueParser::new(),
        required_unless_present = "selector",
        add = ArgValueCompleter::new(completion::workloads)
    )]
    pub name: Option<String>,
    #[command(flatten)]
    pub scope: Scope,
    /// Only this container, instead of the sum over the pod.
    #[arg(long, value_name = "CONTAINER", value_parser = NonEmptyStringValueParser::new())]
    pub container: Option<String>,
    #[command(flatten)]
    pub window: WindowArgs,
}

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people: as wide as the terminal, or 80 columns.
    #[default]
    Table,
    /// All columns and full names.
    Wide,
    /// For scripts: documents that `sysprobe schema` describes.
    Json,
}

/// The way in which windows are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Live,
    Plain,
    Json,
}

impl WindowArgs {
    /// Whether the flags are compatible; the error is a sentence.
    pub fn check(&self) -> Result<(), String> {
        match self.window {
            Some(window) if window < self.interval && !self.once => {
                let seconds = self.interval.as_secs_f64();
                Err(format!(
                    "the window must not be shorter than the interval, which is {seconds}s: see --interval"
                ))
            }
            _ => Ok(()),
        }
    }

    /// The time between two requests.
    #[must_use]
    pub fn step(&self) -> Duration {
        self.window.filter(|_| self.once).unwrap_or(self.interval)
    }

    /// Without an interactive terminal, the output is plain text.
    #[must_use]
    pub fn mode(&self, terminal: bool) -> Mode {
        match self.output {
            Output::Json => Mode::Json,
            Output::Table | Output::Wide if terminal && !self.once => Mode::Live,
            Output::Table | Output::Wide => Mode::Plain,
        }
    }

    /// Whether to use colour, given the value of `NO_COLOR` (<https://no-color.org>: an empty value has no
    /// effect).
    #[must_use]
    pub fn color(&self, no_color: Option<&OsStr>) -> bool {
        !self.no_color && no_color.is_none_or(OsStr::is_empty)
    }
}

/// Whether standard input and output are a terminal that can move its cursor.
#[must_use]
pub fn interactive_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = seconds(text).ok_or_else(no_interval)?;
    let interval = Duration::try_from_secs_f64(seconds).ok();
    let fits = |interval: &Duration| (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(interval);
    interval.filter(fits).ok_or_else(out_of_range)
}

/// The minimum duration of a slow request.
pub(crate) fn parse_threshold(text: &str) -> Result<Duration, String> {
    let threshold = seconds(text).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let fits = |threshold: &Duration| (SHORTEST_THRESHOLD..=LONGEST_INTERVAL).contains(threshold);
    threshold.filter(fits).ok_or_else(|| {
        "write a number with `us`, `ms` or `s`, from 1us to 1h, such as `10ms` or `1.5s`".to_owned()
    })
}

/// A number of seconds, or a number with a unit.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "us" => 1e-6,
        "ms" => 0.001,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number.trim_end().parse::<f64>().ok()? * unit)
}

fn no_interval() -> String {
    "write a number of seconds, or a number with `ms`, `s`, `m` or `h`, such as `2`, `500ms` or `1m`"
        .to_owned()
}

fn out_of_range() -> String {
    "it must be at least 100ms and at most 1h".to_owned()
}

#[cfg(test)]
mod tests;
