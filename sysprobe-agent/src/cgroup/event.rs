//! What the kernel tells of a cgroup: that it was created, removed or renamed.

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: u64,
    pub change: Change,
    /// The id of its parent.
    pub parent: u64,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Born,
    Died {
        /// The OOM kills in it and below it, if it had the memory controller.
        oom_kills: Option<u64>,
    },
    Renamed,
}
