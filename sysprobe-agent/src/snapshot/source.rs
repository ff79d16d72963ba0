//! Where a command gets its snapshots: from a running agent, or from programs that it has loaded itself.

use std::time::Duration;

use crate::snapshot::Snapshot;

/// The source of snapshots.
pub trait Source {
    /// The current state. After a failure, a live view asks again.
    fn next(&mut self) -> impl Future<Output = anyhow::Result<Snapshot>> + Send;

    /// Announces when it will be asked again: measurements that run only on request have to last that long.
    fn will_ask_again_in(&mut self, _interval: Duration) {}

    /// A few words for the header, such as `agent at /run/sysprobe.sock`.
    fn describe(&self) -> String;

    /// Warnings for the reader, as sentences without a full stop.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Whether it was started just now, so that names may still arrive.
    fn is_new(&self) -> bool {
        false
    }
}
