//! What a reader requests in addition to the totals. It has a cost, so it is enabled only for a lease that
//! each request extends: nothing stays on for a reader that has died.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A window of an hour, and a minute for a late reader.
const LONGEST_LEASE: Duration = Duration::from_secs(3660);

/// The query string of a request. An older agent ignores what it does not know, which the command sees from
/// the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Query {
    /// Reports each request that takes at least this many nanoseconds to be received and read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_ns: Option<u64>,
    /// Whether to follow all packets, at any rate.
    pub follow: bool,
    /// Whether to enable the kernel's BPF program statistics.
    pub measure: bool,
    /// Whether to include the machine's own counters, which has no lasting cost.
    pub node: bool,
    /// Whether to include pod labels.
    pub labels: bool,
    /// The length of the lease, unless a later request extends it.
    pub lease_ms: u64,
}

impl Query {
    /// The length of the lease, within its limit.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms).min(LONGEST_LEASE)
    }

    /// Whether nothing that it asks for needs a lease.
    #[must_use]
    pub const fn needs_no_lease(&self) -> bool {
        self.slow_ns.is_none() && !self.follow && !self.measure
    }
}
