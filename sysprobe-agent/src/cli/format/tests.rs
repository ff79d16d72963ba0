//! Numbers and names at fixed widths.

use proptest::prelude::*;

use super::{
    super::fixture::{ID, workload},
    *,
};

#[test]
fn durations_have_three_digits_and_a_unit() {
    let cases = [
        (0.0, "0ns"),
        (950e-9, "950ns"),
        (999.6e-9, "1.00us"),
        (12.34e-6, "12.3us"),
        (999.9e-6, "1.00ms"),
        (4.557e-3, "4.56ms"),
        (0.25, "250ms"),
        (1.2, "1.20s"),
        (32.0, "32.0s"),
        (3600.0, "3600s"),
        (f64::INFINITY, ">32s"),
    ];
    for (seconds, text) in cases {
        assert_eq!(duration(seconds), text, "{seconds}");
    }
}

#[test]
fn cores_shares_and_rates_have_their_forms() {
    let of = |show: fn(f64) -> String, numbers: &[f64]| numbers.iter().map(|n| show(*n)).collect::<Vec<_>>();
    assert_eq!(
        of(cores, &[0.0, 0.001, 0.374, 9.996, 12.44, 128.0]),
        ["0.00", "<0.01", "0.37", "10.0", "12.4", "128"]
    );
    assert_eq!(of(percent, &[0.0, 0.001, 0.124, 1.0]), ["0%", "<1%", "12%", "100%"]);
    assert_eq!(
        of(rate, &[0.0, 0.01, 3.44, 9.96, 120.0, 999.9, 1_234.0, 45_000.0, 1.2e6]),
        ["0/s", "<.1/s", "3.4/s", "10/s", "120/s", "1.0k/s", "1.2k/s", "45k/s", "1.2M/s"]
    );
    assert_eq!(
        of(count, &[0.0, 0.01, 3.44, 1_234.0, 999.6e6, 3.45e9]),
        ["0", "<.1", "3.4", "1.2k", "1.0G", "3.5G"]
    );
    assert_eq!([0, 999_999, 1_234_567].map(whole), ["0", "999999", "1.2M"]);
    assert_eq!(or_nothing(None, cores), "-");
}

#[test]
fn names_are_made_of_the_parts_that_exist() {
    assert_eq!(full_name(&workload("shop", "cart-0", "server")), "shop/cart-0/server");
    assert_eq!(full_name(&workload("shop", "cart-0", "")), "shop/cart-0");
    assert_eq!(full_name(&workload("", "", "ssh.service")), "ssh.service");
}

#[test]
fn container_ids_are_short_in_narrow_views() {
    let short = |container: &str| short_name(&workload("", "", container));
    assert_eq!(short(ID), "4f1c0e9d2b7a");
    assert_eq!(short(&format!("/docker/{ID}/init")), "/docker/4f1c0e9d2b7a/init");
    assert_eq!(short(&format!("cri-{ID}.scope")), "cri-4f1c0e9d2b7a.scope");
    assert_eq!(short("deadbeef"), "deadbeef");
    assert_eq!(short(&format!("{ID}0")), format!("{ID}0"));
    assert_eq!(short(""), "");
    assert_eq!(full_name(&workload("", "", ID)), ID);
}

#[test]
fn names_cannot_drive_the_terminal() {
    assert_eq!(clean("a\x1b[31mb\nc\u{9b}d"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d");
    assert_eq!(clean("right\u{202e}left\u{200b}"), "right\u{fffd}left\u{fffd}");
    assert_eq!(clean("größe-名"), "größe-名");
}

#[test]
fn long_names_keep_both_ends() {
    assert_eq!(cut_middle("checkout-7d9c5b6f4-x2x9q", 11), "check…x2x9q");
    assert_eq!(cut_middle("short", 5), "short");
    assert_eq!(cut_middle("short", 1), "…");
    assert_eq!(cut_middle("short", 0), "");
    assert_eq!(cut_end("no cgroup is mounted", 9), "no cgrou…");
}

#[test]
fn wide_characters_count_twice() {
    assert_eq!(width("名a"), 3);
    assert_eq!(cut_middle("名名名名", 5), "名…名");
    assert_eq!(pad_right("名", 4), "名  ");
    assert_eq!(pad_left("名", 4), "  名");
}

proptest! {
    #[test]
    fn numbers_fit_their_columns(
        seconds in 0.0..99_999.0f64,
        per_second in 0.0..999e6f64,
        cpus in 0.0..99_999.0f64,
    ) {
        prop_assert!(duration(seconds).len() <= NUMBER_WIDTH);
        prop_assert!(rate(per_second).len() <= NUMBER_WIDTH);
        prop_assert!(cores(cpus).len() <= 5);
    }

    #[test]
    fn cut_names_fit_and_fill(text in "\\PC{0,40}", limit in 0usize..20) {
        let text = clean(&text);
        for cut in [cut_middle(&text, limit), cut_end(&text, limit)] {
            prop_assert!(width(&cut) <= limit, "{cut}");
            // A wide character at an edge may leave a column on each side.
            prop_assert!(width(&cut) + 2 >= limit.min(width(&text)), "{cut}");
        }
    }
}
