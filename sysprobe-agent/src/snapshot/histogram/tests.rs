//! Quantiles, differences and memory use of histograms.

use super::*;

#[test]
fn quantiles_are_within_ten_per_cent() {
    let values: Vec<u64> = (1..=10_000).map(|i| i * 1_000).collect();
    let sample = HistogramSample::of(&values);
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
    let sample = HistogramSample::of(&[1_000, 2_000_000, 30]);
    let bound = sample.max_bound().expect("not empty");
    assert!((0.002..0.0024).contains(&bound), "{bound}");
    assert_eq!(HistogramSample::of(&[u64::MAX >> 20]).max_bound(), Some(f64::INFINITY));
}

#[test]
fn a_difference_is_what_came_between_and_a_restart_counts_as_new() {
    let earlier = HistogramSample::of(&[1_000]);
    let later = HistogramSample::of(&[1_000, 5_000]);
    assert_eq!(later.since(&earlier), HistogramSample::of(&[5_000]));
    assert_eq!(earlier.since(&later), earlier);
}

#[test]
fn what_never_happened_takes_no_memory() {
    let mut sample = HistogramSample::default();
    sample.gather(&[0; _], 0);
    sample.add(&HistogramSample::default());
    for sample in [&sample, &sample.since(&sample)] {
        assert!(matches!(sample.buckets, Counts::None), "{sample:?}");
    }
    let json = serde_json::to_string(&sample).expect("JSON");
    assert_eq!(json, r#"{"buckets":[],"sum_ns":0}"#);
    assert_eq!(serde_json::from_str::<HistogramSample>(&json).expect("the same"), sample);
}

#[test]
fn a_copy_shares_its_buckets_until_one_is_written_to() {
    let mut sample = HistogramSample::of(&[1_000]);
    let copy = sample.clone();
    let buckets = (&sample.buckets, &copy.buckets);
    assert!(matches!(buckets, (Counts::All(one), Counts::All(other)) if Arc::ptr_eq(one, other)));
    let mut counts = [0; _];
    counts[hist::bucket_of(5_000)] = 1;
    sample.gather(&counts, 5_000);
    assert_eq!((sample, copy), (HistogramSample::of(&[1_000, 5_000]), HistogramSample::of(&[1_000])));
}

#[test]
fn another_number_of_buckets_is_refused() {
    let sample = HistogramSample::of(&[1_000, 1 << 40]);
    let json = serde_json::to_string(&sample).expect("JSON");
    assert_eq!(serde_json::from_str::<HistogramSample>(&json).expect("the same"), sample);
    let error = serde_json::from_str::<HistogramSample>(r#"{"buckets":[1,2],"sum_ns":3}"#).expect_err("two");
    assert!(error.to_string().contains(&format!("{} buckets", hist::BUCKETS)), "{error}");
}

#[test]
fn what_was_read_takes_what_it_counts_and_adds_up_as_before() {
    let sample = HistogramSample::of(&[1_000, 2_000_000, 2_000_000]);
    let json = serde_json::to_string(&sample).expect("JSON");
    let mut read: HistogramSample = serde_json::from_str(&json).expect("a histogram");
    assert!(matches!(&read.buckets, Counts::Some(counts) if counts.len() == 2), "{read:?}");
    assert_eq!(read, sample);
    assert_eq!(serde_json::to_string(&read).expect("JSON"), json);
    assert_eq!(read.since(&HistogramSample::of(&[1_000])), HistogramSample::of(&[2_000_000; 2]));
    read.add(&sample);
    assert_eq!(read, HistogramSample::of(&[1_000, 1_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000]));
}
