//! The flags of each table.

use clap::Parser;

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

#[derive(Debug, Parser)]
struct NetLine {
    #[command(flatten)]
    net: NetArgs,
}

fn parse_net(words: &[&str]) -> Result<NetArgs, clap::Error> {
    NetLine::try_parse_from(std::iter::once(&"net").chain(words)).map(|line| line.net)
}

fn parse_top(words: &[&str]) -> Result<TopArgs, clap::Error> {
    Line::try_parse_from(std::iter::once(&"top").chain(words)).map(|line| line.top)
}

fn parse_io(words: &[&str]) -> Result<IoArgs, clap::Error> {
    IoLine::try_parse_from(std::iter::once(&"io").chain(words)).map(|line| line.io)
}

#[test]
fn without_flags_it_is_sorted_by_cpu() {
    let by_pods = Selection { pods: true, ..Selection::default() };
    assert_eq!(parse_top(&[]).unwrap().selection(), Ok(by_pods));
    assert_eq!(parse_top(&["--containers"]).unwrap().selection(), Ok(Selection::default()));
}

#[test]
fn a_table_is_sorted_by_its_own_columns_only() {
    let top = ["cpu", "throttled", "p50", "p99", "max", "switches", "fsync", "fsync99", "name"];
    for word in top {
        parse_top(&["--sort", word]).unwrap().selection().unwrap();
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
    let error = parse_top(&["--sort", "unlink"]).unwrap().selection().unwrap_err();
    assert!(error.starts_with("the view `cpu` has no column `unlink`: it has cpu, throttled, "), "{error}");
    parse_top(&["--view", "io", "--sort", "unlink"]).unwrap().selection().unwrap();
    assert!(parse_net(&["--sort", "unlink"]).unwrap_err().to_string().contains("srtt99"));
    assert!(parse_io(&["--sort", "cpu"]).unwrap_err().to_string().contains("write-bytes"));
}

#[test]
fn each_table_has_its_own_order_at_first() {
    for (word, view) in [("cpu", View::Cpu), ("io", View::Io), ("net", View::Net), ("latency", View::Latency)]
    {
        let selection = parse_top(&["--view", word]).unwrap().selection().unwrap();
        assert_eq!((selection.view, selection.sort), (view, view.default_sort()));
    }
    let net = parse_net(&["-n", "shop"]).unwrap().selection();
    assert_eq!(
        (net.view, net.sort, net.scope.namespace.as_deref()),
        (View::Net, View::Net.default_sort(), Some("shop"))
    );
    let io = parse_io(&["--filter", "db"]).unwrap().selection();
    assert_eq!((io.view, io.sort, io.filter.as_str()), (View::Io, View::Io.default_sort(), "db"));
}

#[test]
fn the_help_names_every_flag() {
    let help = ["--help"];
    let help = [parse_top(&help).unwrap_err(), parse_io(&help).unwrap_err(), parse_net(&help).unwrap_err()];
    for help in help.map(|help| help.to_string()) {
        for flag in [
            "--once",
            "--output",
            "--interval",
            "--sort",
            "--filter",
            "--namespace",
            "--selector",
            "--window",
            "--containers",
            "--all",
            "--no-color",
        ] {
            assert!(help.contains(flag), "{flag} is missing in {help}");
        }
    }
}
