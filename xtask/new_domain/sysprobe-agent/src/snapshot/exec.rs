//! Started programs in a snapshot.

use serde::{Deserialize, Serialize};

/// The programs that tasks of one workload started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSample {
    pub execs: u64,
}
