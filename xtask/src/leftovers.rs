//! Removes what tests left on this machine because they were killed: processes, cgroups, network namespaces,
//! devices, mounts and directories. Run before tests, so that a run that was broken off fails no other.
//!
//! Everything that a test makes carries its process id (`sysprobe-test-PID-...`), and is removed only when that
//! process is gone. Processes and directories carry the id of the run that started them.

mod cgroups;
mod devices;
mod network;
mod processes;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::say;

/// What tests call what they make; their process id follows.
const PREFIX: &str = "sysprobe-test-";
/// The directory for a run's temporary files; the process id of its `cargo xtask` follows.
const DIRECTORY: &str = "/tmp/sysprobe-run-";
/// The variable by which processes of a run are known; its value is the process id of its `cargo xtask`.
const RUN: &str = "SYSPROBE_TEST_RUN";

/// The marks of this run, and the directory for its temporary files.
#[derive(Debug)]
pub(crate) struct Marks(PathBuf);

impl Marks {
    /// Gives them to a command that runs tests.
    pub(crate) fn put_on(command: &mut Command) -> Self {
        let run = std::process::id();
        let directory = PathBuf::from(format!("{DIRECTORY}{run}"));
        // Without the directory, tests use the usual one, and only its removal after a kill is lost.
        if fs::create_dir_all(&directory).is_ok() {
            command.env("TMPDIR", &directory);
        }
        command.env(RUN, run.to_string());
        Self(directory)
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        for what in processes::remove_of(std::process::id()) {
            say::step(format_args!("Ended what a test has left: {what}."));
        }
        // Tests clean up after themselves; what is in it all the same says who did not.
        drop(fs::remove_dir(&self.0));
    }
}

/// Removes everything that belongs to processes that are gone, and says what it was.
pub(crate) fn remove() {
    // Processes first: the rest is in use as long as they live.
    // What a frozen file system keeps waiting cannot even be killed.
    devices::thaw();
    let steps: [fn() -> Vec<String>; 5] =
        [processes::remove, cgroups::remove, network::remove, devices::remove, directories];
    for what in steps.into_iter().flat_map(|remove| remove()) {
        say::step(format_args!("Removed what a killed run had left: {what}."));
    }
}

fn directories() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/tmp") else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ours = paths.filter(|path| path.to_str().is_some_and(is_left_over));
    ours.filter(|path| fs::remove_dir_all(path).is_ok())
        .map(|path| format!("directory {}", path.display()))
        .collect()
}

/// Whether a name or path is a test's or a run's whose process is gone.
fn is_left_over(name: &str) -> bool {
    owner(name).is_some_and(|pid| !is_ours(pid))
}

/// The process id in the name of what a test or a run made.
fn owner(name: &str) -> Option<u32> {
    let (_, rest) = [PREFIX, DIRECTORY].into_iter().find_map(|prefix| name.split_once(prefix))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether this process lives and is a test or a `cargo xtask`: ids are given again.
fn is_ours(pid: u32) -> bool {
    let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    let is_test = program.parent().is_some_and(|directory| directory.ends_with("deps"));
    is_test || program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("xtask"))
}

/// What a command prints; nothing if it is not there.
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
        assert_eq!(owner("sysprobe-testing"), None);
        assert_eq!(owner("/system.slice/sshd.service"), None);
    }

    #[test]
    fn what_a_living_test_made_stays() {
        let own = format!("{PREFIX}{}-x", std::process::id());
        assert!(!is_left_over(&own));
        // The first process is no test.
        assert!(is_left_over("sysprobe-test-1-x"));
    }
}
