//! What the guests run: the agent's integration tests, the same binaries that run on the host.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use xtask_init::Job;

use crate::build::{Arch, cross};
use crate::test::programs::Program;
use crate::{say, test};

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

/// Builds the tests that guests run, `only` the named ones if any are named.
pub(super) fn build(arch: Arch, only: &[String]) -> Result<Vec<Program>> {
    say::step(format_args!("Building the agent's integration tests for {}.", arch.name()));
    let mut cargo = cargo(arch)?;
    cargo.args(["--test", "*"]);
    let tests: Vec<Program> = test::build(cargo)?.into_iter().filter(Program::is_integration).collect();
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

/// For guests that cannot run this machine's programs, tests bring their C library with them.
fn cargo(arch: Arch) -> Result<Command> {
    if arch == Arch::HOST {
        // Chosen as for the host's own tests: of fewer packages, cargo would build crates with other
        // features.
        return Ok(test::cargo_test());
    }
    let mut cargo = cross::compiler(arch, "test")?.cargo;
    cargo.args(["--package", "sysprobe-agent"]);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    Ok(cargo)
}

fn stays_on_host(name: &str) -> bool {
    HOST_ONLY.iter().any(|(file, _)| *file == name)
}

/// Which of the parts is in these tests.
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

/// One test at a time: two CPUs in emulation are soon at their limits, and a hang has a name.
fn arguments(filters: &[&str]) -> Vec<String> {
    ["--test-threads=1"].iter().chain(filters).map(|&argument| argument.to_owned()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_the_last_arguments() {
        assert_eq!(arguments(&[]), ["--test-threads=1"]);
        assert_eq!(arguments(&["idle", "busy"]), ["--test-threads=1", "idle", "busy"]);
    }
}
