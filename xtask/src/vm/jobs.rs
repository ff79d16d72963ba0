//! What the guests run: the agent's integration tests, the same binaries that run on the host.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use xtask_init::Job;

use crate::build::test_programs::{self, Program};
use crate::build::{Arch, cross};
use crate::say;

/// Test files that run on the host only, unless they are named explicitly.
///
/// Every other file runs in every guest, so a new file cannot be forgotten.
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

/// Part of a test file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) file: &'static str,
    /// Substrings of test names; empty for the whole file.
    pub(super) tests: &'static [&'static str],
    /// The only kernel that runs it, if set.
    pub(super) kernel: Option<&'static str>,
}

/// The parts that `cargo xtask test` has time for: each attach mode against the kernel and the others, cgroup
/// files, an agent at its memory limit, and tests that need what a host may lack: device mapper, fentry and
/// kprobes, iterators over maps, or cgroup v1. Old kernels need more capabilities.
pub(super) const SHORT: [Part; 14] = [
    Part { file: "cpu", tests: &[], kernel: None },
    Part { file: "memory", tests: &[], kernel: None },
    Part { file: "pressure", tests: &[], kernel: None },
    Part { file: "reclaim", tests: &[], kernel: Some("5.10") },
    Part { file: "attach_modes", tests: &[], kernel: None },
    Part { file: "rights", tests: &["the_table", "room", "kprobes"], kernel: Some("5.10") },
    Part { file: "block", tests: &["all_requests", "held::", "what_is_written"], kernel: Some("5.10") },
    Part { file: "tcp", tests: &["segments_and_bytes", "a_full_accept_queue"], kernel: Some("5.10") },
    Part { file: "net", tests: &["as_the_kernel_counts", "a_flood"], kernel: Some("6.1") },
    Part { file: "blame", tests: &["two_spinners", "nested_quotas"], kernel: Some("6.1") },
    Part { file: "rxpath", tests: &["each_request_is_followed", "what_comes_with"], kernel: Some("6.1") },
    Part {
        file: "vfs",
        tests: &["devices::", "every_way", "synchronous_writings", "transfers::"],
        kernel: Some("6.1"),
    },
    // Iterators over maps, which a host may refuse.
    Part { file: "scans", tests: &["of_many", "outlives"], kernel: Some("6.1") },
    // Since 7.1, an allocation fails at the agent's limit.
    Part { file: "storage", tests: &["an_agent_at"], kernel: Some("7.3") },
];

/// The parts that every change is tested with: all domains and attach modes on the oldest kernel, and what
/// differs there because the verifier replaces helpers by functions that return an `int`. On the newest,
/// loading four agents at once takes too long, so only two domains run there, and a test that needs
/// cgroup v2.
pub(super) const SMOKE: [Part; 4] = [
    Part { file: "smoke", tests: &[], kernel: Some("5.10") },
    Part { file: "full_slots", tests: &["programs_note"], kernel: Some("5.10") },
    Part { file: "attach_modes", tests: &[], kernel: Some("7.3") },
    Part { file: "memory", tests: &["a_kill_that_ends"], kernel: Some("7.3") },
];

/// Builds the tests that guests run, or only the named ones if there are names.
pub(super) fn build(arch: Arch, only: &[String]) -> Result<Vec<Program>> {
    say::step(format_args!("Building the agent's integration tests for {}.", arch.name()));
    let mut cargo = cargo(arch)?;
    cargo.args(["--test", "*"]);
    let tests: Vec<Program> =
        test_programs::build(cargo)?.into_iter().filter(Program::is_integration).collect();
    for name in only {
        if !tests.iter().any(|test| test.target == *name) {
            let names: Vec<&str> = tests.iter().map(|test| &*test.target).collect();
            bail!("there are no tests `{name}`: choose from {}", names.join(", "));
        }
    }
    if !only.is_empty() {
        return Ok(tests.into_iter().filter(|test| only.contains(&test.target)).collect());
    }
    for (what, reason) in HOST_ONLY {
        say::step(format_args!("Leaving out {what}: {reason}."));
    }
    Ok(tests.into_iter().filter(|test| !stays_on_host(&test.target)).collect())
}

/// Guests that cannot run this machine's programs get statically linked tests.
fn cargo(arch: Arch) -> Result<Command> {
    if arch == Arch::HOST {
        // Selects the same packages as the host's own tests: with fewer packages, cargo would build crates
        // with other features.
        return Ok(test_programs::cargo_test());
    }
    let mut cargo = cross::compiler(arch, "test")?.cargo;
    cargo.args(["--package", "sysprobe-agent"]);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    Ok(cargo)
}

fn stays_on_host(name: &str) -> bool {
    HOST_ONLY.iter().any(|(file, _)| *file == name)
}

/// The part that belongs to this test program.
pub(super) fn part(parts: &[Part], tests: &Program) -> Option<Part> {
    parts.iter().copied().find(|part| part.file == tests.target)
}

pub(super) fn job(tests: &Program, filters: &[&str]) -> Job {
    Job {
        name: tests.target.clone(),
        program: tests.executable.display().to_string(),
        arguments: arguments(filters),
    }
}

/// One test at a time: two emulated CPUs soon reach their limit, and a hang can be tied to one test.
fn arguments(filters: &[&str]) -> Vec<String> {
    ["--test-threads=1"].iter().chain(filters).map(|&argument| argument.to_owned()).collect()
}

/// A job that runs a shell command line instead of tests.
pub(super) fn shell(line: &str) -> Job {
    Job {
        name: SHELL.to_owned(),
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), line.to_owned()],
    }
}

/// The jobs' search path: a shell command line finds the agent on it.
pub(super) fn search_path(arch: Arch) -> String {
    let agent = arch.agent("release");
    let directory = agent.parent().unwrap_or(Path::new("/"));
    format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", directory.display())
}

/// The variables that tell tests which agent to start and, where they are set, how much to do.
pub(super) fn environment(arch: Arch) -> Vec<(String, String)> {
    let of = |name: &str| Some((name.to_owned(), env::var(name).ok()?));
    let agent = (test_programs::AGENT.to_owned(), arch.agent("release").display().to_string());
    ["SYSPROBE_TEST_FULL", "SYSPROBE_TEST_SOCKETS"].into_iter().filter_map(of).chain([agent]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_the_last_arguments() {
        assert_eq!(arguments(&[]), ["--test-threads=1"]);
        assert_eq!(arguments(&["idle", "busy"]), ["--test-threads=1", "idle", "busy"]);
    }
}
