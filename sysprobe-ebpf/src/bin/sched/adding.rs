//! How a number is added to a shard: by one CPU alone, or by several at the same time.

use sysprobe_common::shard::adding;
use sysprobe_ebpf::{atomic, settings, shard};

settings!(
    /// Whether CPUs share shards: see `sysprobe_common::shard::adding`.
    CFG_ADDING
);

/// Adds to a number of this CPU's shard.
#[inline(always)]
pub(crate) fn add_u64(counter: &mut u64, value: u64) {
    if adds_alone() { Alone::u64(counter, value) } else { Together::u64(counter, value) }
}

/// Whether no other CPU adds to this one's shard. Where that is the same for all CPUs, the verifier drops the
/// other way.
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

/// Needs no atomic: every hook runs with interrupts off.
pub(crate) struct Alone;

/// Other CPUs add at the same time.
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
