//! Both forms hold the same counts as the kernel's buckets.

use proptest::prelude::*;

use super::*;

/// The count of the zero bucket, and the other counts by native index.
fn decoded(native: &NativeHistogram) -> (u64, Vec<(i32, u64)>) {
    let (mut index, mut count, mut deltas) = (0, 0_i64, native.positive.deltas.iter());
    let mut buckets = Vec::new();
    for (offset, length) in native.positive.spans {
        index += offset;
        for _ in 0..*length {
            count += deltas.next().expect("a delta for each bucket");
            buckets.push((index, count.cast_unsigned()));
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    (native.zero_count, buckets)
}

fn sample(counts: &[(usize, u64)]) -> HistogramSample {
    let mut buckets = [0; _];
    for (bucket, count) in counts {
        buckets[*bucket] += count;
    }
    HistogramSample::new(buckets, 0)
}

proptest! {
    #[test]
    fn nothing_is_lost_or_moved(
        counts in prop::collection::vec((0..hist::BUCKETS, 1..1_000_000_u64), 0..40),
    ) {
        let sample = sample(&counts);
        let mut buckets = Buckets::default();
        for (width, wanted) in [
            (Width::EveryThird, ClassicBuckets::Fine),
            (Width::EachPower, ClassicBuckets::None),
            (Width::EachPower, ClassicBuckets::Coarse),
            (Width::EachPower, ClassicBuckets::Fine),
        ] {
            buckets.fill_classic(&sample, width, wanted);
            buckets.fill_native(&sample);
            let (zero, positive) = decoded(&buckets.native());
            prop_assert_eq!(zero, sample.buckets()[0]);
            let sampled = sample.buckets();
            let counted = sampled.iter().enumerate().skip(1).filter(|(_, count)| **count > 0);
            let expected: Vec<_> = counted
                .map(|(bucket, count)| {
                    (if bucket == hist::OVERFLOW { INFINITE } else { hist::native_index(bucket) }, *count)
                }).collect();
            prop_assert_eq!(positive, expected);
            let all: u64 = buckets.classic.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(all, sample.count());
            // Cumulatively, each bucket equals the kernel's count up to its bound.
            let mut so_far = 0;
            for (bound, count) in &buckets.classic {
                so_far += count;
                let kernels: u64 = sample.buckets().iter().enumerate()
                    .filter(|(bucket, _)| bucket_upper(*bucket) <= *bound).map(|(_, count)| count).sum();
                prop_assert_eq!(so_far, kernels);
            }
        }
    }
}

#[test]
fn what_is_longer_than_any_bound_is_infinite() {
    // The largest number is just below 2^1024; a bucket of schema 2 ends at 2^(index/4).
    assert_eq!(INFINITE, 4 * 1024 + 1);
    let mut buckets = Buckets::default();
    buckets.fill_native(&sample(&[(hist::OVERFLOW, 3)]));
    assert_eq!(decoded(&buckets.native()), (0, vec![(INFINITE, 3)]));
}

#[test]
fn neighbours_are_one_span() {
    let mut buckets = Buckets::default();
    buckets.fill_native(&sample(&[(10, 5), (11, 2), (20, 2)]));
    let first = hist::native_index(10);
    assert_eq!(buckets.spans, [(first, 2), (8, 1)]);
    assert_eq!(buckets.deltas, [5, -3, 0]);
}

#[test]
fn the_next_histogram_starts_anew() {
    let mut buckets = Buckets::default();
    for sample in [sample(&[(0, 1), (10, 5)]), sample(&[])] {
        buckets.fill_classic(&sample, Width::EachPower, ClassicBuckets::Fine);
        buckets.fill_native(&sample);
    }
    assert_eq!(decoded(&buckets.native()), (0, vec![]));
    assert!(buckets.classic.iter().all(|(_, count)| *count == 0));
}
