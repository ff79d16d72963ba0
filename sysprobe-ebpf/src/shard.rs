//! Which shard of a slot this CPU adds to. The agent lays it down before loading, by the caches that CPUs
//! share: a byte for each CPU in read-only data, which is one load without a look-up.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use sysprobe_common::shard::{CPUS, SHARED};

/// The bytes of `sysprobe_common::shard`, by CPU. `MaybeUninit` keeps the compiler from knowing what is in
/// it.
#[repr(transparent)]
pub struct Table(MaybeUninit<[u8; CPUS]>);

#[unsafe(no_mangle)]
pub static CPU_SHARDS: Table = Table(MaybeUninit::new([0; CPUS]));

/// The number of the shard.
#[inline(always)]
#[must_use]
pub fn of_this_cpu() -> u32 {
    u32::from(byte_of_this_cpu() & !SHARED)
}

/// Whether no other CPU adds to that shard.
#[inline(always)]
#[must_use]
pub fn is_own() -> bool {
    byte_of_this_cpu() & SHARED == 0
}

#[inline(always)]
fn byte_of_this_cpu() -> u8 {
    // SAFETY: the helper only returns a number.
    let cpu = unsafe { bpf_get_smp_processor_id() } as usize;
    let table = (&raw const CPU_SHARDS).cast::<u8>();
    // SAFETY: the place is within the table, whose bytes are all set.
    unsafe { table.add(cpu & (CPUS - 1)).read_volatile() }
}
