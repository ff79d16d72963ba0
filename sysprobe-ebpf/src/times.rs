//! Adds to a histogram of durations that several CPUs share.

use sysprobe_common::hist::{self, BUCKETS, Times};

use crate::atomic::{add_u32, add_u64};

#[inline(always)]
pub fn add(times: &mut Times, nanoseconds: u64) {
    add_several(times, nanoseconds, 1);
}

/// The same for several durations of equal length.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are not so many")]
pub fn add_several(times: &mut Times, nanoseconds: u64, several: u64) {
    add_u64(&mut times.sum_ns, nanoseconds.wrapping_mul(several));
    let bucket = within(hist::bucket_of(nanoseconds));
    // SAFETY: there is a bucket with this number.
    add_u32(unsafe { times.counts.get_unchecked_mut(bucket) }, several as u32);
}

/// Bounds an index that is already in range. If the compiler did so, it might check a register and use a copy
/// from the stack, and the verifier (6.1) does not know that the two are equal.
#[inline(always)]
fn within(bucket: usize) -> usize {
    #[cfg(target_arch = "bpf")]
    {
        let mut bucket = bucket;
        // SAFETY: it changes only an index that is out of range.
        unsafe {
            core::arch::asm!(
                "if {bucket} < {buckets} goto +1",
                "{bucket} = 0",
                bucket = inout(reg) bucket,
                buckets = const BUCKETS,
            );
        }
        bucket
    }
    #[cfg(not(target_arch = "bpf"))]
    if bucket < BUCKETS { bucket } else { 0 }
}
