//! The kernel side's histograms: their differences, and how they are added to a workload's.

use sysprobe_common::hist::Times;

use crate::snapshot::HistogramSample;

/// See `slots::Counters::combine`.
pub(crate) fn combine(
    own: &mut Times,
    other: &Times,
    wide: fn(u64, u64) -> u64,
    narrow: fn(u32, u32) -> u32,
) {
    own.sum_ns = wide(own.sum_ns, other.sum_ns);
    for (own, other) in own.counts.iter_mut().zip(&other.counts) {
        *own = narrow(*own, *other);
    }
}

pub(crate) fn accumulate(total: &mut HistogramSample, gathered: &Times) {
    total.gather(&gathered.counts, gathered.sum_ns);
}

/// Checks all of them: a program that is adding may have got no further than the first.
pub(crate) fn is_unused(gathered: &Times) -> bool {
    gathered.sum_ns == 0 && gathered.counts.iter().all(|count| *count == 0)
}
