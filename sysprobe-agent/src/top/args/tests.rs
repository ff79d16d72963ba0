//! The flags, their limits, and the mode that follows from them.

use clap::{Parser, error::ErrorKind};

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    top: TopArgs,
}

#[derive(Debug, Parser)]
struct IoLine {
    #[command(flatten)]
    io: IoArgs,
}

fn parse_top(words: &[&str]) -> Result<TopArgs, clap::Error> {
    Line::try_parse_from(std::iter::once(&"top").chain(words)).map(|line| line.top)
}

fn parse_io(words: &[&str]) -> Result<IoArgs, clap::Error> {
    IoLine::try_parse_from(std::iter::once(&"io").chain(words)).map(|line| line.io)
}

fn parse(words: &[&str]) -> Result<WindowArgs, clap::Error> {
    parse_top(words).map(|args| args.window)
}

#[test]
fn without_flags_it_is_live_sorted_by_cpu_every_two_seconds() {
    let args = parse_top(&[]).unwrap();
    assert_eq!(args.window.interval, Duration::from_secs(2));
    assert_eq!(args.selection(), Selection::default());
    assert_eq!(args.window.mode(true), Mode::Live);
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
fn only_an_interactive_terminal_gets_the_live_table() {
    let mode = |words: &[&str], terminal| parse(words).unwrap().mode(terminal);
    assert_eq!(mode(&[], false), Mode::Plain);
    assert_eq!(mode(&["--once"], true), Mode::Plain);
    assert_eq!(mode(&["-o", "wide"], true), Mode::Live);
    assert_eq!(mode(&["-o", "json"], true), Mode::Json);
    assert_eq!(mode(&["-o", "json", "--once"], false), Mode::Json);
}

#[test]
fn a_table_is_sorted_by_its_own_columns_only() {
    let top = ["cpu", "throttled", "p50", "p99", "max", "switches", "fsync", "fsync99", "name"];
    for word in top {
        parse_top(&["--sort", word]).unwrap();
    }
    let io = [
        "read",
        "read-bytes",
        "read99",
        "write",
        "write-bytes",
        "write99",
        "fsync",
        "fsync50",
        "fsync99",
        "open",
        "create",
        "unlink",
        "errors",
        "name",
    ];
    for word in io {
        parse_io(&["--sort", word]).unwrap();
    }
    assert!(parse_top(&["--sort", "colour"]).unwrap_err().to_string().contains("p99"));
    assert!(parse_top(&["--sort", "unlink"]).is_err());
    assert!(parse_io(&["--sort", "cpu"]).unwrap_err().to_string().contains("write-bytes"));
}

#[test]
fn each_table_has_its_own_order_at_first() {
    assert_eq!(parse_top(&[]).unwrap().sort, Topic::Top.default_sort());
    let io = parse_io(&["--filter", "db"]).unwrap().selection();
    assert_eq!((io.topic, io.sort, io.filter.as_str()), (Topic::Io, Topic::Io.default_sort(), "db"));
}

#[test]
fn no_color_counts_unless_it_is_empty() {
    let args = parse(&[]).unwrap();
    assert!(args.color(None));
    assert!(args.color(Some(OsStr::new(""))));
    assert!(!args.color(Some(OsStr::new("0"))));
    assert!(!parse(&["--no-color"]).unwrap().color(None));
}

#[test]
fn the_help_names_every_flag() {
    let help = [parse_top(&["--help"]).unwrap_err(), parse_io(&["--help"]).unwrap_err()];
    for help in help.map(|help| help.to_string()) {
        for flag in ["--once", "--output", "--interval", "--sort", "--filter", "--all", "--no-color"] {
            assert!(help.contains(flag), "{flag} is missing in {help}");
        }
    }
}
