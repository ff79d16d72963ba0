//! Adds to a histogram of times that several CPUs share.

use sysprobe_common::hist::{self, Times};

use crate::atomic::{add_u32, add_u64};

#[inline(always)]
pub fn add(times: &mut Times, nanoseconds: u64) {
    add_u64(&mut times.sum_ns, nanoseconds);
    if let Some(bucket) = times.counts.get_mut(hist::bucket_of(nanoseconds)) {
        add_u32(bucket, 1);
    }
}
