//! The flags, their limits, and the mode that follows from them.

use clap::{Parser, error::ErrorKind};

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    window: WindowArgs,
}

fn parse(words: &[&str]) -> Result<WindowArgs, clap::Error> {
    Line::try_parse_from(std::iter::once(&"top").chain(words)).map(|line| line.window)
}

#[test]
fn without_flags_it_is_live_every_two_seconds() {
    let args = parse(&[]).unwrap();
    assert_eq!(args.interval, Duration::from_secs(2));
    assert_eq!(args.mode(true), Mode::Live);
}

#[test]
fn intervals_have_units() {
    let cases = [
        ("1", 1_000),
        ("0.5", 500),
        ("500ms", 500),
        ("2s", 2_000),
        ("1.5 s", 1_500),
        ("1m", 60_000),
        ("1h", 3_600_000),
    ];
    for (text, milliseconds) in cases {
        assert_eq!(
            parse(&["--interval", text]).unwrap().interval,
            Duration::from_millis(milliseconds),
            "{text}"
        );
    }
}

#[test]
fn a_wrong_interval_is_answered_with_a_sentence() {
    for text in ["", "s", "5x", "two", "1 2", "µs", "1e"] {
        let error = parse(&["--interval", text]).unwrap_err();
        assert!(error.to_string().contains("write a number of seconds"), "{text}: {error}");
    }
    for text in ["0", "99ms", "3601", "1e300h", "inf", "nan", "0x"] {
        let error = parse(&["--interval", text]).unwrap_err();
        assert!(error.kind() == ErrorKind::ValueValidation, "{text}: {error}");
    }
    let error = parse(&["--interval=-1"]).unwrap_err();
    assert!(error.to_string().contains("at least 100ms and at most 1h"), "{error}");
}

#[test]
fn a_window_is_no_shorter_than_the_interval() {
    let check = |words: &[&str]| parse(words).unwrap().check();
    assert_eq!(check(&["--window", "1m"]), Ok(()));
    assert_eq!(check(&["--window", "2"]), Ok(()));
    let error = check(&["--window", "1"]).unwrap_err();
    assert!(error.contains("not be shorter than the interval, which is 2s"), "{error}");
    assert_eq!(check(&["--window", "500ms", "--interval", "100ms"]), Ok(()));
    assert_eq!(check(&["--window", "1", "--once"]), Ok(()));
}

#[test]
fn one_window_takes_as_long_as_it_is() {
    let step = |words: &[&str]| parse(words).unwrap().step();
    assert_eq!(step(&["--interval", "3", "--window", "10"]), Duration::from_secs(3));
    assert_eq!(step(&["--interval", "3", "--window", "10", "--once"]), Duration::from_secs(10));
    assert_eq!(step(&["--interval", "3", "--once"]), Duration::from_secs(3));
}

#[test]
fn only_an_interactive_terminal_gets_the_live_table() {
    let mode = |words: &[&str], terminal| parse(words).unwrap().mode(terminal);
    assert_eq!(mode(&[], false), Mode::Plain);
    assert_eq!(mode(&["--once"], true), Mode::Plain);
    assert_eq!(mode(&["-o", "wide"], true), Mode::Live);
    assert_eq!(mode(&["-o", "json"], true), Mode::Json);
    assert_eq!(mode(&["-o", "json", "--once"], false), Mode::Json);
}

#[test]
fn no_color_counts_unless_it_is_empty() {
    let args = parse(&[]).unwrap();
    assert!(args.color(None));
    assert!(args.color(Some(OsStr::new(""))));
    assert!(!args.color(Some(OsStr::new("0"))));
    assert!(!parse(&["--no-color"]).unwrap().color(None));
}
