//! Maps of another domain's object. A program names one by a number that no address has; the agent puts the
//! map there before it loads the program.

/// Where the `sched` object keeps what it remembers of tasks: task storage of
/// [`crate::sched::slices::StoredTask`].
pub const SCHED_TASKS: u64 = 0x7ca5_7002_5eed_0001;
/// An array of [`crate::sched::Timeline`], by CPU.
pub const SCHED_TIMELINES: u64 = 0x7ca5_7002_5eed_0002;
/// Where the `tcp` object keeps what it remembers of sockets: an array of the maps
/// [`crate::tcp::STORAGES`], which are socket storage of [`crate::tcp::Socket`].
pub const TCP_SOCKETS: u64 = 0x7ca5_7002_5eed_0003;
