//! Processes that a killed run started: agents, loads, servers. They inherit the run's environment variable.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::{RUN, is_ours};

/// How long killed processes may take to exit. The next scan finds processes that they forked meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Kills the processes whose run is gone.
pub(super) fn remove() -> Vec<String> {
    kill_all(|run| !is_ours(run))
}

/// Kills the processes of one run.
pub(super) fn remove_of(run: u32) -> Vec<String> {
    kill_all(|other| other == run)
}

fn kill_all(is_wanted: impl Fn(u32) -> bool) -> Vec<String> {
    let (mut killed, end) = (BTreeMap::new(), Instant::now() + PATIENCE);
    loop {
        let found = processes(&is_wanted);
        if found.is_empty() || Instant::now() > end {
            break;
        }
        for pid in found.keys() {
            kill(*pid);
        }
        killed.extend(found);
        thread::sleep(PAUSE);
    }
    killed.into_iter().map(|(pid, name)| format!("process {pid} ({name})")).collect()
}

/// Living processes of the wanted runs, with their names.
fn processes(is_wanted: impl Fn(u32) -> bool) -> BTreeMap<u32, String> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let process = |pid: u32| {
        // The environment of a process that has ended is empty.
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        is_wanted(run_of(&environment)?).then(|| (pid, name.trim().to_owned()))
    };
    pids.filter(|pid| *pid != std::process::id()).filter_map(process).collect()
}

/// The process id of the run in a process's environment, whose entries end in a zero byte.
fn run_of(environment: &[u8]) -> Option<u32> {
    let entries = environment.split(|byte| *byte == 0).filter_map(|entry| str::from_utf8(entry).ok());
    let mut values = entries.filter_map(|entry| entry.split_once('=')).filter(|(name, _)| *name == RUN);
    values.next()?.1.parse().ok()
}

fn kill(pid: u32) {
    // SAFETY: `kill` touches no memory of ours.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tells_its_run() {
        assert_eq!(run_of(b"HOME=/root\0SYSPROBE_TEST_RUN=17\0PATH=/bin\0"), Some(17));
        assert_eq!(run_of(b"HOME=/root\0"), None);
        assert_eq!(run_of(b"SYSPROBE_TEST_RUN=x\0"), None);
    }
}
