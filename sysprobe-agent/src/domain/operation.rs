//! The counters of one kind of operation in a slot: how they are combined, and added to a workload's totals.

use sysprobe_common::operation::OperationStats;

use crate::snapshot::OperationSample;

pub(crate) fn combine(
    own: &mut OperationStats,
    other: &OperationStats,
    wide: fn(u64, u64) -> u64,
    narrow: fn(u32, u32) -> u32,
) {
    own.latency_ns = wide(own.latency_ns, other.latency_ns);
    own.bytes = wide(own.bytes, other.bytes);
    own.errors = narrow(own.errors, other.errors);
    for (own, other) in own.latency.iter_mut().zip(&other.latency) {
        *own = narrow(*own, *other);
    }
}

pub(crate) fn accumulate(total: &mut OperationSample, gathered: &OperationStats) {
    total.errors += u64::from(gathered.errors);
    total.bytes += gathered.bytes;
    total.latency.gather(&gathered.latency, gathered.latency_ns);
}

/// Checks all of them: a program that is adding may have got no further than the first.
pub(crate) fn is_unused(gathered: &OperationStats) -> bool {
    let silent = gathered.latency_ns == 0 && gathered.bytes == 0 && gathered.errors == 0;
    silent && gathered.latency.iter().all(|count| *count == 0)
}
