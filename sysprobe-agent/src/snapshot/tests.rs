//! Quantiles and differences of histograms.

use super::*;

fn histogram(values_ns: &[u64]) -> HistogramSample {
    let mut sample = HistogramSample::default();
    for value in values_ns {
        sample.buckets[hist::bucket_of(*value)] += 1;
        sample.sum_ns += value;
    }
    sample
}

#[test]
fn quantiles_are_within_ten_per_cent() {
    let values: Vec<u64> = (1..=10_000).map(|i| i * 1_000).collect();
    let sample = histogram(&values);
    for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
        let exact = q * 10_000_000.0 / 1e9;
        let estimate = sample.quantile(q).expect("not empty");
        assert!((estimate / exact - 1.0).abs() < 0.095, "q {q}: {estimate} instead of {exact}");
    }
}

#[test]
fn an_empty_histogram_has_no_quantile() {
    assert_eq!(HistogramSample::default().quantile(0.99), None);
    assert_eq!(HistogramSample::default().max_bound(), None);
}

#[test]
fn the_maximum_is_not_below_any_value() {
    let sample = histogram(&[1_000, 2_000_000, 30]);
    let bound = sample.max_bound().expect("not empty");
    assert!((0.002..0.0024).contains(&bound), "{bound}");
    assert_eq!(histogram(&[u64::MAX >> 20]).max_bound(), Some(f64::INFINITY));
}

#[test]
fn a_difference_is_what_came_between_and_a_restart_counts_as_new() {
    let earlier = histogram(&[1_000]);
    let later = histogram(&[1_000, 5_000]);
    assert_eq!(later.since(&earlier), histogram(&[5_000]));
    assert_eq!(earlier.since(&later), earlier);
}
