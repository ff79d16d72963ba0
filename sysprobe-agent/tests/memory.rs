//! Memory of cgroups against the kernel's own files while nothing changes, and the counters that must outlive
//! a cgroup.

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use support::agent::Agent;
use support::attach_modes::{kernel, watchers};
use support::cgroup::{Cgroup, is_v1};
use support::memory::{Memory, take};
use support::place::{Flag, sleep_forever};
use support::process::{Load, cpus};
use support::storage::{Kind, Storage};
use support::totals::{lost, workload};
use support::{at_rest, figure, left_out, until};
use sysprobe_agent::snapshot::{MemoryLevels, MemorySample, Snapshot};

const MIB: u64 = 1 << 20;

fn sample(snapshot: &Snapshot, name: &str) -> Option<MemorySample> {
    workload(snapshot, name)?.memory.clone()
}

/// The files' numbers and the agent's, once both stay the same: each CPU returns pre-charged pages late, and
/// the kernel sums up its statistics only now and then.
fn while_quiet(agent: &Agent, cgroup: &Cgroup) -> (Memory, MemorySample) {
    at_rest("the files and the agent's numbers stay the same", || {
        Some((cgroup.memory(), sample(&agent.snapshot(), &cgroup.name)?))
    })
}

/// Fills a file, without a buffer of its size. Runs in a load.
fn fill(path: &Path, bytes: u64) {
    let mut file = File::create(path).expect("made");
    let block = [7_u8; 4096];
    for _ in 0..bytes / block.len() as u64 {
        file.write_all(&block).expect("written");
    }
    file.sync_all().expect("written back");
}

#[test]
fn usage_working_set_and_limit_are_those_of_the_files() {
    const ANONYMOUS: u64 = 24 * MIB;
    const CACHED: u64 = 16 * MIB;
    const LIMIT: u64 = 256 * MIB;
    let agent = Agent::start();
    let storage = Storage::of(Kind::Ext4, 0);
    let cgroup = Cgroup::with_memory("levels");
    let (path, ready) = (storage.path().join("file"), Flag::new());
    let load = Load::running(&cgroup, &cpus(), || {
        let _taken = take(usize::try_from(ANONYMOUS).expect("small"));
        fill(&path, CACHED);
        ready.set();
        sleep_forever();
    });
    ready.wait();
    load.freeze();
    let (files, unlimited) = while_quiet(&agent, &cgroup);
    figure(&format!("unlimited: files {files:?}, agent {unlimited:?}"));
    assert!(files.usage >= ANONYMOUS + CACHED && files.inactive_file >= CACHED / 2, "{files:?}");
    let (usage_bytes, working_set_bytes) = (files.usage, files.usage - files.inactive_file);
    let levels = MemoryLevels { usage_bytes, working_set_bytes, limit_bytes: None };
    assert_eq!(unlimited.levels, Some(levels));
    let labels = [("container", &*cgroup.name)];
    assert_eq!(agent.scrape().value("sysprobe_memory_limit_bytes", &labels), None, "no limit, no series");

    cgroup.set_memory_limit(LIMIT);
    let (files, limited) = while_quiet(&agent, &cgroup);
    assert_eq!(limited.levels.and_then(|levels| levels.limit_bytes), Some(LIMIT), "{files:?}");
    let scrape = agent.scrape();
    assert!((scrape.get("sysprobe_memory_limit_bytes", &labels) - LIMIT as f64).abs() < 1.0);
    assert!(scrape.get("sysprobe_memory_usage_bytes", &labels) >= (ANONYMOUS + CACHED) as f64);
    assert_eq!(lost(&agent.snapshot(), "memory", "unreadable"), 0);

    let name = cgroup.name.clone();
    drop(load);
    cgroup.remove();
    let snapshot = agent.snapshot();
    let gone = sample(&snapshot, &name).expect("in its grace");
    assert_eq!(gone.levels, None, "what has gone uses nothing");
    assert!(gone.oom_kills.is_some() && gone.major_faults.is_some(), "{gone:?}");
}

/// Starts a process that exceeds its cgroup's memory limit and is OOM-killed.
fn take_too_much(cgroup: &Cgroup) {
    let mut load = Load::running(cgroup, &cpus(), || drop(take(64 << 20)));
    load.wait();
}

/// Waits until the agent tells of so many kills, never of more. A snapshot has an older number if the files
/// could not all be read in time.
fn wait_for_kills(agent: &Agent, name: &str, expected: u64) {
    until(&format!("{expected} kills in {name}"), || {
        let kills = sample(&agent.snapshot(), name)?.oom_kills;
        assert!(kills <= Some(expected), "{kills:?}");
        (kills == Some(expected)).then_some(())
    });
}

#[test]
fn each_kill_is_one_more_and_outlives_the_cgroup() {
    let agent = Agent::start();
    let cgroup = Cgroup::with_memory("killed");
    cgroup.set_memory_limit(16 * MIB);
    wait_for_kills(&agent, &cgroup.name, 0);
    for count in 1..=3 {
        take_too_much(&cgroup);
        assert_eq!(cgroup.memory().oom_kills, count, "the kernel killed it");
        wait_for_kills(&agent, &cgroup.name, count);
    }
    // Counters begin at 0 when the agent starts.
    let later = Agent::start();
    wait_for_kills(&later, &cgroup.name, 0);
    take_too_much(&cgroup);
    wait_for_kills(&agent, &cgroup.name, 4);
    wait_for_kills(&later, &cgroup.name, 1);
    let name = cgroup.name.clone();
    cgroup.remove();
    let gone = sample(&agent.snapshot(), &name).expect("in its grace");
    assert_eq!(gone.oom_kills, Some(4));
}

/// Most OOM kills end a container: the kernel kills all of its processes, and the runtime removes the cgroup
/// before its files are read again.
#[test]
fn a_kill_that_ends_its_cgroup_is_counted() {
    if is_v1() {
        left_out(
            "kills that end a cgroup",
            "the memory controller's hierarchy is not the agent's (cgroup v1)",
        );
        return;
    }
    let watchers = watchers("cgroup");
    let limited = |name| {
        let cgroup = Cgroup::with_memory(name);
        cgroup.set_memory_limit(16 * MIB);
        cgroup
    };
    let read = limited("read");
    take_too_much(&read);
    for watcher in &watchers {
        wait_for_kills(&watcher.agent, &read.name, 1);
    }
    for (cgroup, expected) in [(limited("unread"), 1), (read, 2)] {
        take_too_much(&cgroup);
        assert_eq!(cgroup.memory().oom_kills, expected, "the kernel killed it");
        let name = cgroup.name.clone();
        cgroup.remove();
        for watcher in &watchers {
            wait_for_kills(&watcher.agent, &name, expected);
            let again = sample(&watcher.agent.snapshot(), &name).and_then(|memory| memory.oom_kills);
            assert_eq!(again, Some(expected), "counted once");
        }
    }
}

/// The kernel's count of major faults in `/proc/PID/stat`.
fn major_faults(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    fields.split(' ').nth(9).expect("majflt").parse().expect("a number")
}

/// Reads one byte every 64 KiB of a file through a mapping, after dropping it from memory. Runs in a load.
fn fault_in(path: &Path, bytes: usize) {
    let file = File::open(path).expect("there");
    // SAFETY: a new mapping of an open file, which is as long and is not changed.
    unsafe {
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let address = libc::mmap(std::ptr::null_mut(), bytes, read, private, file.as_raw_fd(), 0);
        if address == libc::MAP_FAILED {
            libc::_exit(1);
        }
        // Without readahead, which would bring the next pages into memory.
        libc::madvise(address, bytes, libc::MADV_RANDOM);
        for at in (0..bytes).step_by(64 << 10) {
            std::ptr::read_volatile(address.cast::<u8>().add(at));
        }
    }
}

#[test]
fn major_faults_are_the_processs_own() {
    const BYTES: u64 = 16 * MIB;
    /// Before 5.13, each CPU keeps up to this many to itself (`MEMCG_CHARGE_BATCH`) until it exceeds that.
    const KEPT_BACK: u64 = 32;
    let kept_back = if kernel() < (5, 13) { KEPT_BACK * cpus().len() as u64 } else { 0 };
    let agent = Agent::start();
    let storage = Storage::of(Kind::Ext4, 0);
    let path = storage.path().join("file");
    fill(&path, BYTES);
    let cgroup = Cgroup::with_memory("faults");
    let done = Flag::new();
    let load = Load::stopped(&cgroup, &cpus(), || {
        fault_in(&path, usize::try_from(BYTES).expect("small"));
        done.set();
        sleep_forever();
    });
    let before = (major_faults(load.pid), while_quiet(&agent, &cgroup).1.major_faults.expect("a number"));
    load.resume();
    done.wait();
    load.freeze();
    let own = major_faults(load.pid) - before.0;
    // Cgroup v2 sums up small numbers of them at most every two seconds.
    let (files, ours) = until("the kernel has summed them up", || {
        let (files, ours) = while_quiet(&agent, &cgroup);
        let ours = ours.major_faults? - before.1;
        (ours + kept_back >= own).then_some((files, ours))
    });
    figure(&format!("major faults: process {own}, agent {ours}, files {files:?}"));
    assert!(own >= BYTES / (64 << 10), "{own}");
    assert!((own - kept_back..=own).contains(&ours), "{ours} of {own}");
}

/// Reads a file through the page cache. Runs in a load.
fn read_all(path: &Path) {
    let mut file = File::open(path).expect("there");
    let mut block = [0_u8; 4096];
    while file.read(&mut block).expect("readable") > 0 {}
}

#[test]
fn a_cache_that_is_full_is_not_all_of_the_working_set() {
    const LIMIT: u64 = 16 * MIB;
    let agent = Agent::start();
    let storage = Storage::of(Kind::Ext4, 0);
    let path = storage.path().join("file");
    fill(&path, 4 * LIMIT);
    let cgroup = Cgroup::with_memory("cache");
    cgroup.set_memory_limit(LIMIT);
    let done = Flag::new();
    let load = Load::running(&cgroup, &cpus(), || {
        // Dropped from memory first, so that its pages are charged to this cgroup instead of the writer's.
        let file = File::open(&path).expect("there");
        // SAFETY: an open file.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        read_all(&path);
        done.set();
        sleep_forever();
    });
    done.wait();
    load.freeze();
    let (files, memory) = while_quiet(&agent, &cgroup);
    let levels = memory.levels.expect("it is there");
    figure(&format!("a full cache: files {files:?}, agent {levels:?}"));
    assert!(levels.usage_bytes <= LIMIT && levels.usage_bytes > LIMIT / 2, "{levels:?}");
    assert!(levels.working_set_bytes < levels.usage_bytes / 2, "what was read once may go: {levels:?}");
}
