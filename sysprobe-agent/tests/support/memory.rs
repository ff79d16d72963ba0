//! The memory controller's files of a test's cgroup, and loads that need memory.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use super::cgroup::{Cgroup, is_v1};

const LIMIT: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];
const USAGE: [&str; 2] = ["memory.usage_in_bytes", "memory.current"];
const EVENTS: [&str; 2] = ["memory.oom_control", "memory.events"];
const STAT: [&str; 2] = ["memory.stat", "memory.stat"];

/// The smallest page size.
const PAGE: usize = 4096;

/// The files' numbers at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) usage: u64,
    pub(crate) inactive_file: u64,
    pub(crate) oom_kills: u64,
    pub(crate) major_faults: u64,
}

impl Cgroup {
    pub(crate) fn set_memory_limit(&self, bytes: u64) {
        let file = self.memory_limit_file();
        fs::write(&file, bytes.to_string()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    pub(crate) fn memory_limit_file(&self) -> PathBuf {
        self.memory_file(LIMIT)
    }

    pub(crate) fn memory(&self) -> Memory {
        let total = |v2: &str| if is_v1() { format!("total_{v2}") } else { v2.to_owned() };
        let usage = fs::read_to_string(self.memory_file(USAGE)).expect("the controller is on");
        Memory {
            usage: usage.trim().parse().expect("a number"),
            inactive_file: self.memory_number(STAT, &total("inactive_file")),
            oom_kills: self.memory_number(EVENTS, "oom_kill"),
            major_faults: self.memory_number(STAT, &total("pgmajfault")),
        }
    }

    fn memory_number(&self, file: [&str; 2], key: &str) -> u64 {
        let text = fs::read_to_string(self.memory_file(file)).expect("the controller is on");
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(name, _)| *name == key).unwrap_or_else(|| panic!("no {key}: {text}"));
        value.trim().parse().expect("a number")
    }
}

/// Allocates this many bytes and writes to every page of them. Runs in a load.
pub(crate) fn take(bytes: usize) -> Vec<u8> {
    let mut taken = vec![0_u8; bytes];
    for page in taken.chunks_mut(PAGE) {
        page[0] = 1;
    }
    black_box(taken)
}

/// Frees memory: after a large build, nearly all of it is page cache. The kernel allocates socket storage
/// only from free memory, and counts failures. Any other allocation would have to reclaim memory first, which
/// `reclaim` counts.
pub(crate) fn make_room() {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let bytes = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    if bytes("MemFree:") < bytes("MemTotal:") / 20 {
        fs::write("/proc/sys/vm/drop_caches", "1").expect("root may");
    }
}
