//! Files of cgroup v2.

use super::*;
use crate::snapshot::Throttling;

#[test]
fn microseconds_become_nanoseconds() {
    let text = "usage_usec 417078540\nuser_usec 342106526\nsystem_usec 74972014\nnice_usec 0\n\
        core_sched.force_idle_usec 0\nnr_periods 88\nnr_throttled 12\nthrottled_usec 345678\nnr_bursts \
        0\nburst_usec 0\n";
    let throttling = Throttling { periods: 88, throttled_periods: 12, throttled_ns: 345_678_000 };
    assert_eq!(parse_stat(text), Ok(Stat { usage_ns: Some(417_078_540_000), throttling: Some(throttling) }));
}

#[test]
fn without_the_controller_there_is_usage_only() {
    let stat = parse_stat("usage_usec 5\nuser_usec 3\nsystem_usec 2\n").expect("valid");
    assert_eq!(stat, Stat { usage_ns: Some(5000), throttling: None });
    assert_eq!(parse_stat(""), Ok(Stat::default()));
}

#[test]
fn unknown_keys_may_have_any_form() {
    let stat = parse_stat("pressure some=1.0\n\nlonely\nusage_usec 5\n").expect("valid");
    assert_eq!(stat.usage_ns, Some(5000));
}

#[test]
fn a_known_key_without_a_number_is_an_error_with_its_place() {
    for (text, line) in [("usage_usec 5\nnr_periods many\n", 2), ("usage_usec\n", 1), ("usage_usec -1\n", 1)]
    {
        let error = parse_stat(text).expect_err(text);
        assert_eq!((error.file, error.line), ("cpu.stat", line));
    }
    let error = parse_stat("usage_usec \u{1b}[2J\n").expect_err("no number");
    assert_eq!(
        error.to_string(),
        "`cpu.stat`, line 1: expected a key and a number, found `usage_usec \\u{1b}[2J`"
    );
}

#[test]
fn the_limit_is_a_quota_and_a_period() {
    assert_eq!(parse_max("max 100000\n"), Ok(Max { quota_us: None, period_us: 100_000 }));
    assert_eq!(parse_max("150000 50000\n"), Ok(Max { quota_us: Some(150_000), period_us: 50_000 }));
    for text in ["", "max\n", "100000\n", "max max\n", "-1 100000\n", "1 2 3\n"] {
        let error = parse_max(text).expect_err(text);
        assert_eq!((error.file, error.line, error.text.as_str()), ("cpu.max", 1, text.trim_end()));
    }
}
