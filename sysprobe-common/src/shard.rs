//! Which shard of a slot each CPU adds to, as the agent tells the programs: a byte for each CPU.

/// More than any kernel is built for (`CONFIG_NR_CPUS`). A power of two, so that a number is easily kept
/// within.
pub const CPUS: usize = 8192;

/// In a CPU's byte: others add to the same shard, so each addition has to be atomic. The rest is the shard's
/// number.
pub const SHARED: u8 = 0x80;

/// The largest number of shards that a byte can tell apart.
pub const MOST: u32 = 0x80;

const _: () = assert!(CPUS.is_power_of_two());

/// How the CPUs of a machine add to shards, all of them.
pub mod adding {
    /// Each CPU has a shard of its own: no atomics.
    pub const ALONE: u32 = 0;
    /// Shards belong to several CPUs.
    pub const TOGETHER: u32 = 1;
    /// A CPU's byte tells.
    pub const MIXED: u32 = 2;
}
