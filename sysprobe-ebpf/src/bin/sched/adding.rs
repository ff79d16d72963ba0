//! Additions to a shard, by one CPU alone or by several at the same time.

use sysprobe_common::shard::adding;
use sysprobe_ebpf::{atomic, globals, shard};

globals!(
    /// Whether CPUs share shards: see `sysprobe_common::shard::adding`.
    CFG_ADDING
);

/// Adds to a counter in this CPU's shard.
#[inline(always)]
pub(crate) fn add_u64(counter: &mut u64, value: u64) {
    if adds_alone() { Alone::u64(counter, value) } else { Together::u64(counter, value) }
}

/// Whether no other CPU adds to this CPU's shard. If that is the same for all CPUs, the verifier removes the
/// other branch.
#[inline(always)]
pub(crate) fn adds_alone() -> bool {
    match CFG_ADDING.load() {
        adding::ALONE => true,
        adding::TOGETHER => false,
        _ => shard::is_own(),
    }
}

/// How to add to a shard.
pub(crate) trait Add {
    fn u64(counter: &mut u64, value: u64);
    fn u32(counter: &mut u32, value: u32);
}

/// Adds without atomics, because every hook runs with interrupts off.
pub(crate) struct Alone;

/// Adds atomically, because other CPUs add to the same shard.
pub(crate) struct Together;

impl Add for Alone {
    #[inline(always)]
    fn u64(counter: &mut u64, value: u64) {
        *counter += value;
    }

    #[inline(always)]
    fn u32(counter: &mut u32, value: u32) {
        *counter = counter.wrapping_add(value);
    }
}

impl Add for Together {
    #[inline(always)]
    fn u64(counter: &mut u64, value: u64) {
        atomic::add_u64(counter, value);
    }

    #[inline(always)]
    fn u32(counter: &mut u32, value: u32) {
        atomic::add_u32(counter, value);
    }
}
