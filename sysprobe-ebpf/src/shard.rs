//! The shard of a slot that this CPU adds to: a byte for each CPU in read-only data, which is one load
//! without a look-up. The agent sets it before loading, by the caches that CPUs share.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::bpf_get_smp_processor_id;
use sysprobe_common::shard::{CPUS, SHARED};

/// The bytes of `sysprobe_common::shard`, by CPU. `MaybeUninit` hides their values from the compiler.
#[repr(transparent)]
pub struct Table(MaybeUninit<[u8; CPUS]>);

#[unsafe(no_mangle)]
pub static CPU_SHARDS: Table = Table(MaybeUninit::new([0; CPUS]));

/// The number of this CPU's shard.
#[inline(always)]
#[must_use]
pub fn of_this_cpu() -> u32 {
    u32::from(byte_of_this_cpu() & !SHARED)
}

/// Whether no other CPU adds to this CPU's shard.
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
