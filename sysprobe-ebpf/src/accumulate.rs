//! Adds durations and operations to statistics that several CPUs share.

use sysprobe_common::hist::{self, BUCKETS, Times};
use sysprobe_common::operation::OperationStats;

use crate::atomic::{add_u32, add_u64};

/// The outcome of an operation, and its duration in nanoseconds.
pub struct Done {
    pub bytes: u64,
    pub failed: bool,
    pub took: u64,
}

/// Adds one operation to the statistics of its kind.
#[inline(always)]
pub fn operation(stats: &mut OperationStats, done: &Done) {
    add_u64(&mut stats.latency_ns, done.took);
    if done.failed {
        add_u32(&mut stats.errors, 1);
    }
    if done.bytes != 0 {
        add_u64(&mut stats.bytes, done.bytes);
    }
    if let Some(bucket) = stats.latency.get_mut(hist::bucket_of(done.took)) {
        add_u32(bucket, 1);
    }
}

#[inline(always)]
pub fn duration(times: &mut Times, nanoseconds: u64) {
    durations(times, nanoseconds, 1);
}

/// The same for several durations of equal length.
#[inline(always)]
pub fn durations(times: &mut Times, nanoseconds: u64, several: u64) {
    add_u64(&mut times.sum_ns, nanoseconds.wrapping_mul(several));
    add_to(&mut times.counts, hist::bucket_of(nanoseconds), several);
}

/// Adds to a bucket, atomically. The index is in range, but the verifier has to see that, and it forgets the
/// range of a number that the compiler copies or puts on the stack (5.10, 6.1). So the check, the address and
/// the addition are one piece that the compiler cannot take apart.
#[inline(always)]
#[cfg_attr(
    not(target_arch = "bpf"),
    expect(clippy::cast_possible_truncation, reason = "counters are narrow")
)]
fn add_to(counts: &mut [u32; BUCKETS], bucket: usize, several: u64) {
    #[cfg(target_arch = "bpf")]
    // SAFETY: the index is below the array's length; the instruction adds to these four bytes only.
    unsafe {
        core::arch::asm!(
            "if {bucket} < {buckets} goto +1",
            "{bucket} = 0",
            "{bucket} <<= 2",
            "{counts} += {bucket}",
            "lock *(u32 *)({counts} + 0) += {several}",
            bucket = inout(reg) bucket => _,
            counts = inout(reg) counts.as_mut_ptr() => _,
            several = in(reg) several,
            buckets = const BUCKETS,
        );
    }
    #[cfg(not(target_arch = "bpf"))]
    if let Some(count) = counts.get_mut(bucket) {
        *count = count.wrapping_add(several as u32);
    }
}
