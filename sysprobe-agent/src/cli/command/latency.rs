//! `sysprobe latency`: where received data of one workload lost time in the last window before it was read,
//! stage by stage.
//!
//! Two snapshots make a window (`model`), which is shown as a table (`table`, `view`) or as JSON (`json`).
//! `cli::workload_view` finds and polls the workload, and `cli::waits` computes its waits for a CPU, as for
//! all commands about one workload.

use std::time::Duration;

use clap::Args;
use ratatui::text::Line;

use crate::agent::client::lease_ms;
use crate::cli::args::{WorkloadArgs, parse_threshold};
use crate::cli::page::{Body, Form};
use crate::cli::subject::Subject;
use crate::cli::target::Target;
use crate::cli::tui::chrome;
use crate::cli::waits;
use crate::cli::workload_view::{self, Report};
use crate::host;
use crate::snapshot::source::Source;
use crate::snapshot::{Query, Snapshot};

pub mod json;
mod model;
mod slow;
mod table;
mod view;

use model::Finding;
use slow::Slow;

pub const HELP: &str = "Where is received data delayed before the program reads it: in the kernel's network \
    stack, in the wait for a CPU, or in the program itself?\n\n\
    Example: where nginx's requests are delayed in the next ten seconds\n  \
    sysprobe latency nginx.service --once --interval 10\n\n\
    Example: a pod's requests that took 10 ms or longer, one by one, and what ran on the CPU meanwhile\n  \
    sysprobe latency shop/checkout-7d9c --slow 10ms";

pub const NOTE: &str = "Quantiles are off by at most 9.1 %. MAX is the upper bound of the highest bucket in \
                        use: nothing took longer.";

/// Of which workload, how, and what else.
#[derive(Args, Clone, Debug)]
pub struct LatencyArgs {
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// List each request that takes this long or longer: its stages, its peer, its reader, and what ran on
    /// the reader's CPU.
    #[arg(long, value_name = "DURATION", value_parser = parse_threshold)]
    pub slow: Option<Duration>,
}

impl LatencyArgs {
    /// The query for what is needed beside the totals.
    #[must_use]
    pub fn query(&self) -> Query {
        let lease_ms = lease_ms(self.workload.window.step());
        Query {
            slow_ns: self.slow.map(host::nanoseconds),
            follow: true,
            lease_ms,
            ..self.workload.scope.query()
        }
    }
}

/// Shows windows until the user quits; with `--once`, a single one.
pub async fn run(args: WorkloadArgs, source: impl Source) -> anyhow::Result<()> {
    workload_view::run::<Latency>(args, source).await
}

/// A window of one workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Latency {
    subject: Subject,
    received: Finding,
    /// A notice if only a sample of the packets was followed.
    sampled: Option<String>,
    /// All waits of the workload for a CPU, not only those of its readers.
    waits: waits::Finding,
    /// Only if requested.
    slow: Option<Slow>,
}

impl Latency {
    /// The receive path without the causes of the waits, for callers that show those themselves.
    pub(crate) fn received_lines(&self, form: &Form) -> Vec<Line<'static>> {
        view::received(self, form)
    }
}

impl Report for Latency {
    const COMMAND: &'static str = "sysprobe latency";
    const VERSION: u32 = json::VERSION;
    type Document<'a> = json::Numbers<'a>;

    fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self> {
        Some(Self {
            subject: Subject::of(earlier, later, target)?,
            received: Finding::of(earlier, later, target),
            sampled: chrome::sampled(later),
            waits: waits::Finding::of(earlier, later, target),
            slow: Slow::of(earlier, later, target),
        })
    }

    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn has_numbers(&self) -> bool {
        matches!(self.received, Finding::Received(_))
    }

    fn body(&self, form: &Form) -> Body {
        view::body(self, form)
    }

    fn document(&self) -> json::Numbers<'_> {
        json::Numbers::new(self)
    }

    fn terms() -> Vec<(&'static str, &'static str)> {
        view::terms()
    }
}
