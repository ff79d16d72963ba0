//! `sysprobe blame`: how long one workload's runnable threads waited for a CPU in the last window, why, and
//! which workloads ran meanwhile.
//!
//! `cli::waits` computes the waits from two snapshots, `view` renders them, and `json` defines their JSON
//! form. `cli::workload_view` finds and polls the workload, as for every command about one workload.

use crate::cli::args::WorkloadArgs;
use crate::cli::page::{Body, Form};
use crate::cli::subject::Subject;
use crate::cli::target::Target;
use crate::cli::waits::Finding;
use crate::cli::workload_view::document::WaitsDocument;
use crate::cli::workload_view::{self, Report};
use crate::snapshot::Snapshot;
use crate::snapshot::source::Source;

pub mod json;
mod view;

pub const HELP: &str = "What kept a workload from a CPU, and for how long? Each wait for a CPU is split \
    into its causes (quota, own threads, other pods, systemd units, the kernel, interrupts), and the pods \
    and units that ran meanwhile are named.\n\n\
    Example: what delayed nginx in the next ten seconds\n  \
    sysprobe blame nginx.service --once --interval 10";

/// Shows windows until the user quits; with `--once`, a single one.
pub async fn run(args: WorkloadArgs, source: impl Source) -> anyhow::Result<()> {
    workload_view::run::<Blame>(args, source).await
}

/// A window of one workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blame {
    subject: Subject,
    waits: Finding,
}

impl Report for Blame {
    const COMMAND: &'static str = "sysprobe blame";
    const VERSION: u32 = json::VERSION;
    type Document<'a> = json::Numbers<'a>;

    fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self> {
        let subject = Subject::of(earlier, later, target)?;
        Some(Self { subject, waits: Finding::of(earlier, later, target) })
    }

    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn has_numbers(&self) -> bool {
        matches!(self.waits, Finding::Waited(_))
    }

    fn body(&self, form: &Form) -> Body {
        view::body(self, form)
    }

    fn document(&self) -> json::Numbers<'_> {
        json::Numbers { waits: WaitsDocument::new(&self.waits, &self.subject) }
    }

    fn terms() -> Vec<(&'static str, &'static str)> {
        view::terms()
    }
}
