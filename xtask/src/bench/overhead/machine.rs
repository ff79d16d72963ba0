//! Facts about the machine and the run, for the head of the report.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::{cmd, paths};

/// With these statistics on, the kernel reads the clock twice for every run of a program.
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Refuses a machine whose settings would distort the figures.
pub(super) fn check() -> Result<()> {
    if fs::read_to_string(STATISTICS).is_ok_and(|text| text.trim() != "0") {
        bail!("{STATISTICS} is not 0: every run of a program would cost two clock reads more");
    }
    Ok(())
}

pub(super) fn kernel() -> Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").context("reading the kernel's release")?;
    Ok(text.trim().to_owned())
}

pub(super) fn processor() -> String {
    processor_of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// The load average of the last minute.
pub(super) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

/// The commit that the agent was built from.
pub(super) fn commit() -> Option<String> {
    let words = ["describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"];
    Some(cmd::capture(cmd::tool("git").args(words))?.trim().to_owned())
}

/// The command as the user typed it; the program's own path is replaced by `cargo xtask`.
pub(super) fn command() -> String {
    let words = env::args().skip(1);
    ["cargo".to_owned(), "xtask".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// The domains that a configuration can turn off, read from the example that lists all of them.
pub(super) fn switches() -> Result<Vec<String>> {
    let file = paths::root().join(Path::new("deploy/sysprobe.toml"));
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(switches_of(&text))
}

fn switches_of(text: &str) -> Vec<String> {
    let section = text.lines().skip_while(|line| *line != "[domains]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    section.filter_map(|line| Some(line.strip_suffix(" = true")?.to_owned())).collect()
}

fn processor_of(text: &str) -> String {
    let names =
        text.lines().filter_map(|line| line.split_once(':')).filter(|(key, _)| key.trim() == "model name");
    names.map(|(_, name)| name.trim().to_owned()).next().unwrap_or_else(|| env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_lists_the_domains() {
        let text =
            "slots = 0\n[domains]\n# Wakeups.\nsched = true\n# Files.\nvfs = true\n\n[pods]\nother = true\n";
        assert_eq!(switches_of(text), ["sched", "vfs"]);
        assert!(switches().unwrap().len() > 5);
    }

    #[test]
    fn a_processor_has_a_name() {
        assert_eq!(processor_of("processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nflags : x\n"), "A CPU @ 2 GHz");
        assert_eq!(processor_of(""), env::consts::ARCH);
    }
}
