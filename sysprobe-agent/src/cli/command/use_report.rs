//! `sysprobe use`: the sixty-second check of a node by the USE method. For each resource, it shows
//! utilization, saturation and errors, and the pod that contributes most.
//!
//! Two snapshots, with the kernel's counters of the whole machine, make a window (`model`), which is shown as
//! a table (`view`) or as JSON (`json`).

use std::time::Duration;

use crate::cli::args::WindowArgs;
use crate::cli::page::{Body, Form, Page, Pages};
use crate::cli::window;
use crate::snapshot::source::Source;
use crate::snapshot::{Query, Snapshot};

pub mod json;
mod model;
mod view;

#[cfg(test)]
mod fixture;

pub(crate) use model::UseReport;

pub const HELP: &str = "Is this node itself in trouble, and which pod is behind it? For CPU, memory, disks \
    and network: utilization, saturation, errors, and the workload with the largest share.\n\n\
    Example: one minute of this node\n  \
    sysprobe use --once --interval 60";

/// The query for what is needed beside the totals.
#[must_use]
pub fn query() -> Query {
    Query { node: true, ..Query::default() }
}

/// Shows windows until the user quits; with `--once`, a single one.
pub async fn run(args: WindowArgs, mut source: impl Source) -> anyhow::Result<()> {
    let first = source.next().await?;
    window::run(&args, Pages::<UseReport>::new(()), first, source).await
}

impl Page for UseReport {
    const COMMAND: &'static str = "sysprobe use";
    const VERSION: u32 = json::VERSION;
    type Of = ();
    type Document<'a> = json::Numbers<'a>;

    fn of(earlier: &Snapshot, later: &Snapshot, (): &()) -> Option<Self> {
        Some(Self::new(earlier, later))
    }

    fn name(_: Option<&Self>, (): &()) -> String {
        "this node".to_owned()
    }

    fn window(&self) -> Duration {
        self.length
    }

    fn body(&self, (): &(), form: &Form) -> Body {
        view::body(self, form)
    }

    fn document<'a>(report: Option<&'a Self>, (): &'a ()) -> json::Numbers<'a> {
        report.map(json::Numbers::new).unwrap_or_default()
    }

    fn terms() -> Vec<(&'static str, &'static str)> {
        view::TERMS.to_vec()
    }
}
