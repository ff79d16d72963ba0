//! What somebody asks for beside the totals. It costs something, so it goes on no longer than a lease, which
//! each question extends: nothing stays on for a reader that died.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A window of an hour, and somebody who is late.
const LONGEST_LEASE: Duration = Duration::from_secs(3660);

/// As it stands in the query string of a request. What an agent does not know, a newer command asks for in
/// vain; it sees that by the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Query {
    /// Each that takes so many nanoseconds or more to be received and read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_ns: Option<u64>,
    /// Whether all packets shall be followed, however many there are.
    pub follow: bool,
    /// Whether the kernel shall measure its programs.
    pub measure: bool,
    /// Whether the machine's own counters shall come along; costs nothing later.
    pub node: bool,
    /// Whether pods' labels shall come along.
    pub labels: bool,
    /// For how long from now on, unless somebody asks again.
    pub lease_ms: u64,
}

impl Query {
    /// For how long it goes on, whatever is asked for.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms).min(LONGEST_LEASE)
    }

    /// Whether it asks for anything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slow_ns.is_none() && !self.follow && !self.measure
    }
}
