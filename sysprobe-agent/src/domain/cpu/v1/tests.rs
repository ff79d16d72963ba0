//! Files of cgroup v1.

use super::*;
use crate::snapshot::Throttling;

#[test]
fn throttled_time_is_in_nanoseconds_already() {
    let text = "nr_periods 1200\nnr_throttled 37\nthrottled_time 4400123456\nnr_bursts 2\nburst_time 100\n";
    let throttling = Throttling { periods: 1200, throttled_periods: 37, throttled_ns: 4_400_123_456 };
    assert_eq!(parse_stat(text), Ok(Stat { usage_ns: None, throttling: Some(throttling) }));
}

#[test]
fn without_a_quota_there_are_zero_periods() {
    let stat = parse_stat("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n").expect("what every cgroup has");
    assert_eq!(stat.throttling, Some(Throttling::default()));
}

#[test]
fn minus_one_is_no_quota() {
    assert_eq!(parse_quota("-1\n"), Ok(None));
    assert_eq!(parse_quota("250000\n"), Ok(Some(250_000)));
    assert!(parse_quota("-2\n").is_err());
    assert!(parse_quota("").is_err());
}

#[test]
fn shares_become_weights_by_the_kubelets_formula() {
    let table = [(2, 1), (102, 4), (1024, 39), (2048, 79), (10_240, 391), (262_144, 10_000)];
    for (shares, weight) in table {
        assert_eq!(weight_of_shares(shares), weight, "{shares}");
    }
    assert_eq!(weight_of_shares(0), 1);
    assert_eq!(weight_of_shares(u64::MAX), 10_000);
}
