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
    for name in Domains::names() {
        let config = Config { domains: Domains::without(&[name]), ..Config::default() };
        assert_eq!(parse(&format!("domains.{name} = false")), Ok(config));
        let others: Vec<_> = Domains::names().iter().filter(|other| *other != name).collect();
        let off: Vec<_> = others.iter().map(|other| format!("domains.{other} = false")).collect();
        let domains = parse(&off.join("\n")).expect("one is on").domains;
        assert!(domains.wants(name) && others.iter().all(|other| !domains.wants(other)));
    }
}

#[test]
fn at_least_one_domain_is_needed() {
    let off: Vec<_> = Domains::names().iter().map(|name| format!("domains.{name} = false")).collect();
    let message = parse(&off.join("\n")).expect_err("nothing is on");
    let names = Domains::names().join(", ");
    assert!(message.contains(&format!("all domains ({names}) are turned off")), "{message}");
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let cases = [
        ("listne = \"0.0.0.0:1\"", "unknown field `listne`"),
        ("[domains]\nsched = true\nshed = true", "line 3"),
        ("[domains]\ncgroup = true", "unknown field `cgroup`, expected one of `sched`, `vfs`"),
        ("domains = true", "expected a map"),
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
    ];
    for (text, expected) in cases {
        let message = parse(text).expect_err(text);
        assert!(message.contains(expected), "{text:?} gave: {message}");
        assert!(message.contains("/etc/sysprobe.toml"), "{text:?} gave: {message}");
    }
}
