//! Processes that a killed run started: agents, loads, servers. They inherit the run's variable.

use std::fs;

use super::{RUN, is_ours};

pub(super) fn remove() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(left_over)
        .filter(|(pid, _)| kill(*pid))
        .map(|(pid, name)| format!("process {pid} ({name})"))
        .collect()
}

/// The process with its name, if its run is gone.
fn left_over(pid: u32) -> Option<(u32, String)> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let run = run_of(&environment)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    (!is_ours(run)).then(|| (pid, name.trim().to_owned()))
}

/// The process id of the run in a process's environment, whose entries end in a zero byte.
fn run_of(environment: &[u8]) -> Option<u32> {
    let entries = environment.split(|byte| *byte == 0).filter_map(|entry| str::from_utf8(entry).ok());
    let mut values = entries.filter_map(|entry| entry.split_once('=')).filter(|(name, _)| *name == RUN);
    values.next()?.1.parse().ok()
}

fn kill(pid: u32) -> bool {
    // SAFETY: `kill` touches no memory of ours.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) == 0 }
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
