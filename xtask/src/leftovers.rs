//! Removes leftovers of killed tests and benchmarks from this machine: processes, cgroups, network
//! namespaces, devices, mounts, files and directories. Tests and benchmarks run it first, so that one killed
//! run does not fail the next.
//!
//! Everything that a test or a benchmark creates carries its process id (`sysprobe-test-PID-...`), and is
//! removed only when that process is gone. Processes and temporary directories carry the id of the run that
//! started them.

mod cgroups;
mod devices;
mod network;
mod processes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::say;

/// The prefixes of names that tests and benchmarks create; the creator's process id follows.
const PREFIXES: [&str; 5] = ["sysprobe-test-", OVERHEAD, "sysprobe-cost-", "sysprobe-bench-", DIRECTORY];
/// The prefix that `cargo xtask bench overhead` uses.
const OVERHEAD: &str = "sysprobe-overhead-";
/// The directory for a run's temporary files; the process id of its `cargo xtask` follows.
const DIRECTORY: &str = "sysprobe-run-";
/// Directories where tests leave files and directories.
const PLACES: [&str; 2] = ["/tmp", "/dev/shm"];
/// The variable that marks the processes of a run; its value is the process id of its `cargo xtask`.
const RUN: &str = "SYSPROBE_TEST_RUN";

/// The marks of this run, and the directory for its temporary files.
#[derive(Debug)]
pub(crate) struct Marks(PathBuf);

impl Marks {
    pub(crate) fn of_this_run() -> Self {
        let directory = PathBuf::from(format!("/tmp/{DIRECTORY}{}", std::process::id()));
        // Without the directory, tests use the default one; only the cleanup after a kill is lost then.
        drop(fs::create_dir_all(&directory));
        Self(directory)
    }

    /// Puts the marks on a command that runs tests.
    pub(crate) fn put_on(&self, command: &mut Command) {
        if self.0.is_dir() {
            command.env("TMPDIR", &self.0);
        }
        command.env(RUN, std::process::id().to_string());
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        for what in processes::remove_of(std::process::id()) {
            say::step(format_args!("Ended what a test has left: {what}."));
        }
        // Tests clean up after themselves. A directory that is not empty stays and shows which test did not.
        drop(fs::remove_dir(&self.0));
    }
}

/// Removes everything whose creating process is gone, and reports it.
pub(crate) fn remove() {
    // Processes first: the rest is in use while they live. A process that waits for a frozen file system
    // cannot even be killed, so file systems are thawed before that.
    devices::thaw();
    let steps: [fn() -> Vec<String>; 5] =
        [processes::remove, cgroups::remove, network::remove, devices::remove, files];
    for what in steps.into_iter().flat_map(|remove| remove()) {
        say::step(format_args!("Removed what a killed run had left: {what}."));
    }
}

/// A name that marks what this process creates as its own.
pub(crate) fn name_for_overhead(role: &str) -> String {
    format!("{OVERHEAD}{}-{role}", std::process::id())
}

fn files() -> Vec<String> {
    let entries = PLACES.into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ours = paths.filter(|path| path.to_str().is_some_and(is_left_over));
    ours.filter(|path| is_deleted(path)).map(|path| format!("{}", path.display())).collect()
}

fn is_deleted(path: &Path) -> bool {
    let deleted = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    deleted.is_ok()
}

/// Whether a name or path belongs to a test or run whose process is gone.
fn is_left_over(name: &str) -> bool {
    owner(name).is_some_and(|pid| !is_ours(pid))
}

/// The process id in the name of what a test or a run created.
fn owner(name: &str) -> Option<u32> {
    let (_, rest) = PREFIXES.into_iter().find_map(|prefix| name.split_once(prefix))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether this process is alive and is a test or a `cargo xtask`: process ids are reused.
fn is_ours(pid: u32) -> bool {
    let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    let is_test = program.parent().is_some_and(|directory| directory.ends_with("deps"));
    is_test || program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("xtask"))
}

/// What a command prints; empty if the command is missing.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Whether a command succeeds.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner() {
        assert_eq!(owner("/sysprobe-test-17-churn-1"), Some(17));
        assert_eq!(owner("/tmp/sysprobe-run-18/.tmpabc/image"), Some(18));
        assert_eq!(owner("/tmp/sysprobe-test-19-nginx"), Some(19));
        assert_eq!(owner("/dev/shm/sysprobe-cost-20-disk"), Some(20));
        assert_eq!(owner(&name_for_overhead("server")), Some(std::process::id()));
        assert_eq!(owner("sysprobe-testing"), None);
        assert_eq!(owner("/system.slice/sshd.service"), None);
    }

    #[test]
    fn what_a_living_test_made_stays() {
        assert!(!is_left_over(&name_for_overhead("server")));
        // PID 1 is alive but is not a test.
        assert!(is_left_over("sysprobe-test-1-x"));
    }
}
