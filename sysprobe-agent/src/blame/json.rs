//! What `sysprobe blame` has in its JSON form ([`Document`]) beyond what all have.

use schemars::JsonSchema;
use serde::Serialize;

pub use crate::show::page::document::Document;
pub use crate::show::watch::document::{
    CauseDocument, CulpritDocument, OfWorkload, PartDocument, WaitsDocument, WorkloadDocument,
};

/// The version of this form; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// What it waited for a CPU; `null` where the scheduler is not watched.
    pub waits: Option<WaitsDocument<'a>>,
}
