//! Adds one operation to the statistics of its kind.

use sysprobe_common::hist;
use sysprobe_common::operation::OperationStats;

use crate::atomic;

/// The outcome of an operation, and its duration in nanoseconds.
pub struct Done {
    pub bytes: u64,
    pub failed: bool,
    pub took: u64,
}

#[inline(always)]
pub fn add(stats: &mut OperationStats, done: &Done) {
    atomic::add_u64(&mut stats.latency_ns, done.took);
    if done.failed {
        atomic::add_u32(&mut stats.errors, 1);
    }
    if done.bytes != 0 {
        atomic::add_u64(&mut stats.bytes, done.bytes);
    }
    if let Some(bucket) = stats.latency.get_mut(hist::bucket_of(done.took)) {
        atomic::add_u32(bucket, 1);
    }
}
