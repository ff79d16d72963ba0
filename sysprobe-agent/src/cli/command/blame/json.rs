//! The part of the JSON form of `sysprobe blame` ([`Document`]) that is specific to this command.

use schemars::JsonSchema;
use serde::Serialize;

pub use crate::cli::page::document::Document;
pub use crate::cli::workload_view::document::{
    CauseDocument, CulpritDocument, OfWorkload, PartDocument, WaitsDocument, WorkloadDocument,
};

/// The version of this form; it changes when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// The workload's waits for a CPU. `None` if the domain `sched` is off, or if nothing is known about the
    /// workload any more.
    pub waits: Option<WaitsDocument<'a>>,
}
