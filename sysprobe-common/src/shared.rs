//! Maps of another domain's object. A program uses a placeholder that is no valid address, and the agent
//! replaces it by the map before loading.

/// The `sched` object's records of tasks: task storage of [`crate::sched::slices::StoredTask`].
pub const SCHED_TASKS: u64 = 0x7ca5_7002_5eed_0001;
/// An array of [`crate::sched::Timeline`], by CPU.
pub const SCHED_TIMELINES: u64 = 0x7ca5_7002_5eed_0002;
/// The `tcp` object's records of sockets: an array of the maps [`crate::tcp::STORAGES`], which are socket
/// storage of [`crate::tcp::Socket`].
pub const TCP_SOCKETS: u64 = 0x7ca5_7002_5eed_0003;
