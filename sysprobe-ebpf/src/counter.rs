//! Counters of rare events such as losses, shared by all CPUs. Programs add to them atomically, and the agent
//! reads them through `mmap`.

use aya_ebpf::btf_maps::Array;

use crate::atomic;

/// Adds one to a counter of the map; a number out of range is ignored.
#[inline(always)]
pub fn count<const ENTRIES: usize, const FLAGS: usize>(counters: &Array<u64, ENTRIES, FLAGS>, number: u32) {
    add(counters, number, 1);
}

/// Adds several.
#[inline(always)]
pub fn add<const ENTRIES: usize, const FLAGS: usize>(
    counters: &Array<u64, ENTRIES, FLAGS>,
    number: u32,
    several: u64,
) {
    let Some(counter) = counters.get_ptr_mut(number) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    atomic::add_u64(unsafe { &mut *counter }, several);
}
