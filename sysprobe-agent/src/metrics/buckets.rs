//! The kernel's buckets in both Prometheus forms: merged into classic buckets for readers of text, and
//! unchanged as a native histogram. Both are exact: every classic bound is also a bound in the kernel, and
//! the kernel's bounds are those of the native schema.

use prometheus_client::encoding::{NativeHistogram, NativeHistogramBuckets};
use sysprobe_common::hist;

use crate::config::metrics::ClassicBuckets;
use crate::snapshot::{HistogramSample, bucket_upper};

/// The classic buckets: powers of two from 4 microseconds to 8 seconds. Finer buckets would be expensive for
/// a server that keeps one series per bucket.
const CLASSIC: std::ops::RangeInclusive<i32> = -18..=3;
/// The native index of the overflow bucket (`+Inf`): the one after the bucket of the largest number.
const INFINITE: i32 = (f64::MAX_EXP << hist::SCHEMA) + 1;

/// The width of classic buckets: one per power of two, or one per three where a pod has several such
/// histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    EachPower,
    EveryThird,
}

/// A histogram in both forms. Refilled for each histogram, so that a scrape allocates it once.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    /// Bounds and counts, not cumulative.
    pub(super) classic: Vec<(f64, u64)>,
    zero: u64,
    spans: Vec<(i32, u32)>,
    deltas: Vec<i64>,
}

impl Buckets {
    pub(super) fn fill_classic(&mut self, sample: &HistogramSample, width: Width, wanted: ClassicBuckets) {
        self.classic.clear();
        let of_octaves = match (wanted, width) {
            (ClassicBuckets::None, _) => {
                self.classic.push((f64::INFINITY, sample.count()));
                return;
            }
            (ClassicBuckets::Fine, Width::EachPower) => 1,
            (ClassicBuckets::Fine, Width::EveryThird) | (ClassicBuckets::Coarse, _) => 3,
        };
        let mut gathered = 0;
        for (bucket, count) in sample.buckets().iter().enumerate() {
            gathered += count;
            let index = hist::native_index(bucket);
            if index % (4 * of_octaves) == 0 && CLASSIC.contains(&(index / 4)) {
                self.classic.push((bucket_upper(bucket), gathered));
                gathered = 0;
            }
        }
        self.classic.push((f64::INFINITY, gathered));
    }

    /// The kernel's first bucket holds everything too short to be distinguished, so it becomes the zero
    /// bucket.
    pub(super) fn fill_native(&mut self, sample: &HistogramSample) {
        self.spans.clear();
        self.deltas.clear();
        self.zero = sample.buckets()[0];
        let (mut end, mut last) = (0, 0);
        for (bucket, count) in sample.buckets().iter().enumerate().skip(1).filter(|(_, count)| **count > 0) {
            let index = if bucket == hist::OVERFLOW { INFINITE } else { hist::native_index(bucket) };
            match self.spans.last_mut() {
                Some((_, length)) if index == end => *length += 1,
                _ => self.spans.push((index - end, 1)),
            }
            end = index + 1;
            let count = count.cast_signed();
            self.deltas.push(count - last);
            last = count;
        }
    }

    pub(super) fn native(&self) -> NativeHistogram<'_> {
        NativeHistogram {
            schema: hist::SCHEMA.cast_signed(),
            zero_threshold: bucket_upper(0),
            zero_count: self.zero,
            negative: NativeHistogramBuckets { spans: &[], deltas: &[] },
            positive: NativeHistogramBuckets { spans: &self.spans, deltas: &self.deltas },
            created: None,
        }
    }
}

#[cfg(test)]
mod tests;
