//! What the guests run: the agent's integration tests, the same binaries that run on the host.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::Value;
use xtask_init::Job;

use crate::build::{Arch, cross};
use crate::{cmd, say};

/// Files of tests that stay on the host unless they are asked for by name.
///
/// Every other file runs in every guest, so that a new one cannot be forgotten.
const HOST_ONLY: [(&str, &str); 6] = [
    ("config", "arguments, files and rights are judged alike on every kernel"),
    ("dashboards", "what a query means does not depend on the kernel"),
    ("prometheus", "what Prometheus makes of the agent's text does not depend on the kernel"),
    ("screens", "what a terminal shows does not depend on the kernel"),
    ("terminal", "what a terminal shows does not depend on the kernel"),
    ("top", "what a terminal shows does not depend on the kernel"),
];

/// The name of the job that is not a test.
pub(super) const SHELL: &str = "shell";

/// A part of what there is to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) file: &'static str,
    /// Beginnings or other pieces of names; without any, the whole file.
    pub(super) tests: &'static [&'static str],
    /// On this kernel only.
    pub(super) kernel: Option<&'static str>,
}

/// What `cargo xtask test` has time for: every tier against the kernel and the others, the files of cgroups,
/// and of storage what a host without device mapper, fentry and kprobes, or with cgroup v1, cannot show. Old
/// kernels ask for more rights.
pub(super) const SHORT: [Part; 12] = [
    Part { file: "cpu", tests: &[], kernel: None },
    Part { file: "memory", tests: &[], kernel: None },
    Part { file: "pressure", tests: &[], kernel: None },
    Part { file: "reclaim", tests: &[], kernel: Some("5.10") },
    Part { file: "tiers", tests: &[], kernel: None },
    Part { file: "rights", tests: &["the_table", "room", "kprobes"], kernel: Some("5.10") },
    Part { file: "block", tests: &["all_requests", "what_is_written"], kernel: Some("5.10") },
    Part { file: "tcp", tests: &["segments_and_bytes", "a_full_accept_queue"], kernel: Some("5.10") },
    Part { file: "net", tests: &["as_the_kernel_counts", "a_flood"], kernel: Some("6.1") },
    Part { file: "blame", tests: &["two_spinners", "nested_quotas"], kernel: Some("6.1") },
    Part { file: "rxpath", tests: &["each_request_is_followed", "what_comes_with"], kernel: Some("6.1") },
    Part {
        file: "vfs",
        tests: &["devices::", "every_way", "synchronous_writings", "transfers::"],
        kernel: Some("6.1"),
    },
];

/// What every change is tried with: every domain by every tier on the oldest kernel. The newest needs longer
/// than there is to load four agents at once, so two domains have to do there.
pub(super) const SMOKE: [Part; 2] = [
    Part { file: "smoke", tests: &[], kernel: Some("5.10") },
    Part { file: "tiers", tests: &[], kernel: Some("7.3") },
];

/// A test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tests {
    pub(super) name: String,
    binary: PathBuf,
}

/// Builds the tests that guests run, `only` the named ones if any are named.
pub(super) fn build(arch: Arch, only: &[String]) -> Result<Vec<Tests>> {
    say::step(format_args!("Building the agent's integration tests for {}.", arch.name()));
    let mut cargo = cargo(arch)?;
    cargo.args(["--no-run", "--package", "sysprobe-agent", "--test", "*"]);
    let Some(messages) = capture(cargo.args(["--message-format", "json-render-diagnostics"])) else {
        bail!("the agent's integration tests cannot be built, see above");
    };
    let tests = binaries(&messages);
    for name in only {
        if !tests.iter().any(|test| test.name == *name) {
            let names: Vec<&str> = tests.iter().map(|test| &*test.name).collect();
            bail!("there are no tests `{name}`: choose from {}", names.join(", "));
        }
    }
    if !only.is_empty() {
        return Ok(tests.into_iter().filter(|test| only.contains(&test.name)).collect());
    }
    for (what, reason) in HOST_ONLY {
        say::step(format_args!("Leaving out {what}: {reason}."));
    }
    Ok(tests.into_iter().filter(|tests| !stays_on_host(&tests.name)).collect())
}

/// For guests that cannot run this machine's programs, tests bring their C library with them.
fn cargo(arch: Arch) -> Result<Command> {
    if arch == Arch::HOST {
        let mut cargo = cmd::cargo();
        cargo.args(["test", "--locked"]);
        return Ok(cargo);
    }
    let mut cargo = cross::compiler(arch, "test")?.cargo;
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    Ok(cargo)
}

fn stays_on_host(name: &str) -> bool {
    HOST_ONLY.iter().any(|(file, _)| *file == name)
}

/// Which of the parts is in these tests.
pub(super) fn part(parts: &[Part], tests: &Tests) -> Option<Part> {
    parts.iter().copied().find(|part| part.file == tests.name)
}

/// One test at a time: two CPUs in emulation are soon at their limits, and a hang has a name.
pub(super) fn job(tests: &Tests, filters: &[&str]) -> Job {
    let mut arguments = vec!["--test-threads=1".to_owned()];
    arguments.extend(filters.iter().map(|filter| (*filter).to_owned()));
    Job { name: tests.name.clone(), program: tests.binary.display().to_string(), arguments }
}

/// A line for the shell instead of tests.
pub(super) fn shell(line: &str) -> Job {
    Job {
        name: SHELL.to_owned(),
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), line.to_owned()],
    }
}

/// Where jobs find programs: a line for the shell finds the agent. Tests know where theirs is.
pub(super) fn search_path(arch: Arch) -> String {
    let agent = arch.agent("release");
    let directory = agent.parent().unwrap_or(Path::new("/"));
    format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", directory.display())
}

/// Like `cmd::capture`, but compiler errors are shown.
fn capture(command: &mut Command) -> Option<String> {
    let output = command.stderr(std::process::Stdio::inherit()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The test binaries among what cargo says it has built, by name.
fn binaries(messages: &str) -> Vec<Tests> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found: Vec<Tests> = messages.filter_map(|message| binary(&message)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn binary(message: &Value) -> Option<Tests> {
    let target = message.get("target")?;
    let is_test = target.get("kind")?.as_array()?.iter().any(|kind| kind == "test");
    let binary = PathBuf::from(message.get("executable")?.as_str()?);
    is_test.then_some(Tests { name: target.get("name")?.as_str()?.to_owned(), binary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_among_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"sysprobe_agent"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"sysprobe"},"executable":"/t/debug/sysprobe"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"sched"},"executable":"/t/debug/deps/sched-1"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"cgroup"},"executable":"/t/debug/cgroup-1"}
{"reason":"build-finished","success":true}
"#;
        let found = binaries(messages);
        let names: Vec<&str> = found.iter().map(|tests| &*tests.name).collect();
        assert_eq!(names, ["cgroup", "sched"]);
        assert_eq!(found[1].binary, Path::new("/t/debug/deps/sched-1"));
    }

    #[test]
    fn filters_are_the_last_arguments() {
        let tests = Tests { name: "sched".to_owned(), binary: PathBuf::from("/t/sched") };
        assert_eq!(job(&tests, &[]).arguments, ["--test-threads=1"]);
        assert_eq!(job(&tests, &["idle", "busy"]).arguments, ["--test-threads=1", "idle", "busy"]);
    }
}
