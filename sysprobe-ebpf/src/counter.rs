//! Counters of losses and of other events, in lanes. Programs add to them atomically, and the agent reads
//! them through `mmap`.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use sysprobe_common::lanes::{ENTRIES, WORDS, place};

use crate::atomic;

/// CPUs in different lanes do not wait for one another.
pub type Lanes = Array<u64, ENTRIES, { BPF_F_MMAPABLE as usize }>;

/// Adds one to a counter; a number out of range is ignored.
#[inline(always)]
pub fn count(counters: &Lanes, number: u32) {
    add(counters, number, 1);
}

/// Adds several.
#[inline(always)]
pub fn add(counters: &Lanes, number: u32, several: u64) {
    if number >= WORDS {
        return;
    }
    // SAFETY: the helper only returns a number.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    add_to(counters, place(cpu, number), several);
}

/// Adds one to a number that all CPUs share, because programs read it, too.
#[inline(always)]
pub fn count_shared<const N: usize, const FLAGS: usize>(numbers: &Array<u64, N, FLAGS>, number: u32) {
    add_to(numbers, number, 1);
}

#[inline(always)]
fn add_to<const N: usize, const FLAGS: usize>(numbers: &Array<u64, N, FLAGS>, number: u32, several: u64) {
    let Some(counter) = numbers.get_ptr_mut(number) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    atomic::add_u64(unsafe { &mut *counter }, several);
}
