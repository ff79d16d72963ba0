//! The configuration: defaults, round trip, and every kind of mistake.

use super::*;
use crate::pods::config::{CriConfig, KubeletConfig};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/etc/sysprobe.toml")).map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn the_shipped_example_is_the_default_and_names_every_key() {
    let example = include_str!("../../../deploy/sysprobe.toml");
    assert_eq!(parse(example), Ok(Config::default()));
    let complete = Config {
        btf: Some("/b".into()),
        cgroup_root: Some("/c".into()),
        attach: Some(AttachMode::Kprobe),
        objects: Some("/o".into()),
        pods: PodsConfig {
            node: Some("n".into()),
            kubeconfig: Some("/k".into()),
            kubelet: KubeletConfig {
                url: Some("https://n".into()),
                ca: Some("/ca".into()),
                server_name: Some("n".into()),
                token: Some("/t".into()),
                insecure: false,
            },
            cri: CriConfig { socket: Some("/s".into()) },
            ..PodsConfig::default()
        },
        ..Config::default()
    };
    for line in toml::to_string(&complete).expect("serialises").lines() {
        let Some((key, _)) = line.split_once(" = ") else { continue };
        let named = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} = "));
        assert!(example.lines().any(named), "{key} is missing from deploy/sysprobe.toml");
    }
}

#[test]
fn what_is_written_comes_back() {
    let config = Config { slots: 64, grace_seconds: 5, btf: Some("/boot/btf".into()), ..Config::default() };
    let text = toml::to_string(&config).expect("serialises");
    assert_eq!(parse(&text), Ok(config));
}

#[test]
fn one_domain_is_enough() {
    for (text, domains) in [
        ("domains.sched = false", Domains { sched: false, ..Domains::default() }),
        ("domains.vfs = false", Domains { vfs: false, ..Domains::default() }),
        ("domains.cpu = false", Domains { cpu: false, ..Domains::default() }),
    ] {
        assert_eq!(parse(text), Ok(Config { domains, ..Config::default() }));
    }
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let cases = [
        ("listne = \"0.0.0.0:1\"", "unknown field `listne`"),
        ("[domains]\nsched = true\nshed = true", "line 3"),
        ("listen = \"9937\"", "invalid socket address"),
        ("slots = \"many\"", "invalid type: string"),
        ("slots = -1", "line 1"),
        ("\nslots = 3", "line 2"),
        ("slots = 3", "3 is not between 16 and 65536"),
        ("tasks = 10", "10 is not between 1024 and 4194304"),
        ("attach = \"uprobe\"", "unknown variant `uprobe`"),
        ("grace_seconds = 0", "0 is not between 1 and 3600"),
        ("log.filter = \"loud=very\"", "neither a log level nor filter directives"),
        ("socket = \"agent.sock\"", "the path must be absolute"),
        ("objects = \"target/ebpf\"", "the path must be absolute"),
        ("[log]\nformat = \"xml\"", "unknown variant `xml`"),
        ("[domains\nsched = true", "line 1"),
        ("slots = 64\nslots = 65", "duplicate key"),
        (
            "domains = { sched = false, vfs = false, block = false, tcp = false, net = false, rxpath = \
             false, reclaim = false, cpu = false, memory = false, pressure = false }",
            "all domains (sched, vfs, block, tcp, net, rxpath, reclaim, cpu, memory, pressure) are turned \
             off",
        ),
    ];
    for (text, expected) in cases {
        let message = parse(text).expect_err(text);
        assert!(message.contains(expected), "{text:?} gave: {message}");
        assert!(message.contains("/etc/sysprobe.toml"), "{text:?} gave: {message}");
    }
}
