//! Processes by id: finding all descendants, and ending them.
//!
//! Shims and containers leave the tree of the process that started them. The supervisor is a subreaper and
//! inherits them, so its descendants are the processes that were started for it. Nothing else is ever
//! signalled.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, ptr, thread};

use anyhow::{Context, Result, bail};

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A killed process is gone as soon as it leaves the kernel; only an uninterruptible one takes longer.
const END_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// From now on, orphaned descendants become children of this process, and signals to stop are only recorded.
pub(crate) fn supervise() -> Result<()> {
    // SAFETY: sets a flag of this process, touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    if done != 0 {
        return Err(io::Error::last_os_error()).context("becoming the parent of orphans");
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler: extern "C" fn(libc::c_int) = note;
        // SAFETY: the handler only stores to an atomic. Unlike an ignored signal, a handled one is not
        // inherited.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    Ok(())
}

/// From now on, the kernel kills this process when its parent ends.
pub(super) fn end_with_parent() {
    // SAFETY: sets a number of this process, touches no memory. It cannot fail for a signal that exists.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Reaps every child that has ended. Returns the status of `child` if it is among them.
pub(super) fn reap(child: u32) -> Option<i32> {
    let mut found = None;
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid <= 0 {
            return found;
        }
        if pid.cast_unsigned() == child {
            found = Some(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 });
        }
    }
}

/// Kills all descendants of this process, including those that are orphaned meanwhile, until there are none.
pub(crate) fn end_descendants() -> Result<()> {
    let start = Instant::now();
    loop {
        reap(0);
        let left = descendants(std::process::id(), &parents());
        if left.is_empty() {
            return Ok(());
        }
        if start.elapsed() > END_LIMIT {
            bail!("the processes {left:?} do not end");
        }
        for pid in left {
            kill(pid);
        }
        thread::sleep(PAUSE);
    }
}

/// Kills the processes that run a program from below `directory`, and their descendants, until none is left.
/// They belong to a former run whose supervisor was killed. A runtime that loses its shims starts others to
/// clean up, so one pass is not enough.
pub(super) fn end_programs_below(directory: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        let ours = programs_below(directory);
        if ours.is_empty() {
            return Ok(());
        }
        if start.elapsed() > END_LIMIT {
            bail!("the processes {ours:?} of a former run do not end");
        }
        let parents = parents();
        for pid in ours {
            descendants(pid, &parents).into_iter().chain([pid]).for_each(kill);
        }
        thread::sleep(PAUSE);
    }
}

/// The processes that run a program from below `directory`.
pub(super) fn programs_below(directory: &Path) -> Vec<u32> {
    let runs = |pid: &u32| program(*pid).is_some_and(|path| path.starts_with(directory));
    parents().into_keys().filter(runs).collect()
}

fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

pub(super) fn kill(pid: u32) {
    signal(pid, libc::SIGKILL);
}

pub(crate) fn terminate(pid: u32) {
    signal(pid, libc::SIGTERM);
}

pub(super) fn signal(pid: u32, signal: libc::c_int) {
    // SAFETY: touches no memory. It does not matter if the process has already gone.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

/// Everything below `root`, zombies included.
fn descendants(root: u32, parents: &HashMap<u32, u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut new = vec![root];
    while let Some(parent) = new.pop() {
        for (pid, _) in parents.iter().filter(|(_, its)| **its == parent) {
            if found.insert(*pid) {
                new.push(*pid);
            }
        }
    }
    found
}

/// Each process with its parent.
fn parents() -> HashMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, field(pid, 4)?.parse().ok()?))).collect()
}

/// A field of `/proc/PID/stat`, counted from one as in proc(5). The program's name may contain anything, so
/// the fields after it are counted from the last bracket.
pub(super) fn field(pid: u32, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(number.checked_sub(3)?).map(str::to_owned)
}

/// The start time of a process, in seconds since boot.
pub(super) fn started(pid: u32) -> Option<f64> {
    let ticks: u64 = field(pid, 22)?.parse().ok()?;
    // SAFETY: asks for a constant.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(ticks as f64 / ticks_per_second as f64)
}

/// Seconds since boot, on the clock of process start times.
pub(super) fn since_boot() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the address is of a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, ptr::from_mut(&mut time)) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_over_generations() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 9)]);
        assert_eq!(descendants(2, &parents), BTreeSet::from([3, 4]));
        assert_eq!(descendants(1, &parents), BTreeSet::from([2, 3, 4, 5]));
        assert!(descendants(6, &parents).is_empty());
    }

    #[test]
    fn this_process_has_a_parent() {
        let pid = std::process::id();
        assert_eq!(parents().get(&pid).copied(), Some(std::os::unix::process::parent_id()));
    }
}
