//! The measuring program: building it, running it here, and reading what it prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::golden::Source;
use super::report::Line;
use crate::build::Arch;
use crate::{build, cmd, say};

/// The benchmark that the program is part of.
const BENCH: &str = "cost";

/// Builds the eBPF objects and the program.
pub(super) fn build() -> Result<PathBuf> {
    build::objects()?;
    say::step("Building the measuring program.");
    let mut cargo = cmd::cargo();
    cargo.args(["bench", "--no-run", "--locked", "--profile", "dist"]);
    cargo.args(["--package", "sysprobe-agent", "--bench", BENCH]);
    cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = cargo.output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("the measuring program cannot be built, see above");
    }
    executable(&String::from_utf8_lossy(&output.stdout)).context("cargo does not say where the program is")
}

/// What to count.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// Programs, and requests with the default configuration.
    Programs,
    /// Only requests, in each attach mode.
    Requests,
    /// Both, and how much longer calls take, also with other tools.
    All,
}

/// Arguments for a measurement of `times` repetitions.
pub(super) fn arguments(times: u32, count: Count) -> Vec<String> {
    let also = match count {
        Count::Programs => None,
        Count::Requests => Some("requests"),
        Count::All => Some("calls"),
    };
    let mut arguments = vec!["programs".to_owned(), times.to_string()];
    arguments.extend(also.map(str::to_owned));
    arguments
}

/// Runs it on this host.
pub(super) fn run(program: &Path, times: u32) -> Result<Vec<Line>> {
    let mut rows = Vec::new();
    let mut command = cmd::tool(program);
    let output = command.args(arguments(times, Count::All)).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("{} cannot be started", program.display()))?;
    if !output.status.success() {
        bail!("the measurement on this host failed ({})", output.status);
    }
    rows.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
    parse(&rows)
}

pub(super) fn parse(rows: &[String]) -> Result<Vec<Line>> {
    let line = |row: &String| serde_json::from_str(row).with_context(|| format!("not a row: {row}"));
    rows.iter().map(line).collect()
}

/// The version of the measured programs, from the built objects.
pub(super) fn source() -> Result<Source> {
    Ok(Source { commit: commit(), objects: digests()? })
}

/// The SHA-256 of each object, by name.
fn digests() -> Result<BTreeMap<String, String>> {
    let directory = Arch::HOST.objects();
    let listed = fs::read_dir(&directory).with_context(|| format!("listing {}", directory.display()))?;
    let files: Vec<PathBuf> = listed.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let printed = cmd::output(cmd::tool("sha256sum").args(&files))?;
    let lines = printed.lines().filter_map(|line| line.split_once("  "));
    let name = |file: &str| Some(Path::new(file).file_stem()?.to_str()?.to_owned());
    Ok(lines.filter_map(|(digest, file)| Some((name(file)?, digest.to_owned()))).collect())
}

/// The commit, with its date.
pub(super) fn commit() -> String {
    let git = |words: &[&str]| cmd::capture(cmd::tool("git").args(words));
    let Some(commit) = git(&["log", "-1", "--format=`%h` (%cs)"]) else { return "unknown".to_owned() };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    format!("{}{}", commit.trim(), if changes.trim().is_empty() { "" } else { " with uncommitted changes" })
}

/// The load average of the last minute.
pub(super) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

/// The program's path, from cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| {
        message.pointer("/target/name").is_some_and(|name| name == BENCH)
            && message.pointer("/target/kind/0").is_some_and(|kind| kind == "bench")
    });
    built.find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"cost"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"cost"},"executable":"/t/release/cost"}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"cost"},"executable":"/t/release/deps/cost-1"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages).as_deref(), Some(Path::new("/t/release/deps/cost-1")));
        assert_eq!(executable("{}"), None);
    }

    #[test]
    fn rows_are_read_and_anything_else_is_refused() {
        let row = r#"{"refused":{"domain":"sched","mode":"fentry","reason":"no"}}"#.to_owned();
        assert!(matches!(&parse(&[row]).unwrap()[..], [Line::Refused(refused)] if refused.reason == "no"));
        assert!(parse(&["{}".to_owned()]).is_err());
    }
}
