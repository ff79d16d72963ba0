//! The shard of a slot that each CPU adds to: a table with a byte for each CPU, set by the agent.

/// The maximum number of CPUs of any kernel (`CONFIG_NR_CPUS`). A power of two, so that a mask bounds an
/// index.
pub const CPUS: usize = 8192;

/// The bit of a CPU's byte that says that other CPUs add to the same shard, so additions have to be atomic.
/// The other bits are the shard's number.
pub const SHARED: u8 = 0x80;

/// The largest number of shards that a byte can tell apart.
pub const MOST: u32 = 0x80;

const _: () = assert!(CPUS.is_power_of_two());

/// Whether the CPUs of the machine share shards.
pub mod adding {
    /// Each CPU has a shard of its own: no atomics.
    pub const ALONE: u32 = 0;
    /// All shards belong to several CPUs.
    pub const TOGETHER: u32 = 1;
    /// Some CPUs share a shard: each CPU's byte says it.
    pub const MIXED: u32 = 2;
}
