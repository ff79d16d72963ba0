//! A cgroup of the test's own in the key hierarchy, and in the hierarchies of `cpuacct` or `memory` if they
//! are separate.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sysprobe_agent::cgroup::mounts::{KeyHierarchy, Mounts};
use sysprobe_agent::snapshot::Throttling;

use super::DEADLINE;

static KEY: LazyLock<KeyHierarchy> = LazyLock::new(|| {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let key = Mounts::parse(&mountinfo).key().expect("a cgroup hierarchy is mounted");
    if let KeyHierarchy::V2 { root } = &key {
        fs::write(root.join("cgroup.subtree_control"), "+cpu").expect("the cpu controller can be enabled");
    }
    key
});

/// The cgroup; removed when it is dropped, with everything that runs in it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    /// The path below the hierarchy's root, which the agent uses as its name.
    pub(crate) name: String,
    /// The directory in the key hierarchy, then those in others.
    directories: Vec<PathBuf>,
    /// The directory of the memory controller's files, if it was requested.
    memory: Option<PathBuf>,
}

/// A CPU bandwidth limit, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) quota_us: u64,
    pub(crate) period_us: u64,
}

pub(crate) fn is_v1() -> bool {
    matches!(*KEY, KeyHierarchy::V1 { .. })
}

impl Cgroup {
    /// `name` only has to be unique within the test file.
    pub(crate) fn new(name: &str) -> Self {
        Self::in_hierarchies(name, None)
    }

    /// Creates a cgroup with the memory controller.
    pub(crate) fn with_memory(name: &str) -> Self {
        let root = match &*KEY {
            KeyHierarchy::V1 { memory, .. } => memory.as_ref().expect("v1 has a hierarchy for memory"),
            KeyHierarchy::V2 { root } => {
                fs::write(root.join("cgroup.subtree_control"), "+memory").expect("memory can be enabled");
                root
            }
        };
        Self::in_hierarchies(name, Some(root))
    }

    fn in_hierarchies(name: &str, memory: Option<&Path>) -> Self {
        let name = format!("/sysprobe-test-{}-{name}", process::id());
        let mut roots = vec![KEY.root()];
        let cpuacct = match &*KEY {
            KeyHierarchy::V1 { cpuacct, .. } => cpuacct.as_deref(),
            KeyHierarchy::V2 { .. } => None,
        };
        for other in [cpuacct, memory].into_iter().flatten() {
            if !roots.contains(&other) {
                roots.push(other);
            }
        }
        let directories: Vec<_> = roots.iter().map(|root| root.join(&name[1..])).collect();
        for directory in &directories {
            fs::create_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
        let memory = memory.map(|root| root.join(&name[1..]));
        Self { name, directories, memory }
    }

    /// A file of the memory controller, by its names on v1 and v2.
    pub(crate) fn memory_file(&self, [v1, v2]: [&str; 2]) -> PathBuf {
        let directory = self.memory.as_ref().expect("made with the memory controller");
        directory.join(if is_v1() { v1 } else { v2 })
    }

    /// The files to which a process writes its id to enter the cgroup.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// Moves a process into the cgroup.
    pub(crate) fn adopt(&self, pid: i32) {
        for entrance in self.entrances() {
            fs::write(&entrance, pid.to_string()).unwrap_or_else(|error| panic!("{pid}: {error}"));
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directories[0]
    }

    pub(crate) fn set_quota(&self, quota: Quota) {
        let Quota { quota_us, period_us } = quota;
        if is_v1() {
            self.write("cpu.cfs_period_us", &period_us.to_string());
            self.write("cpu.cfs_quota_us", &quota_us.to_string());
        } else {
            self.write("cpu.max", &format!("{quota_us} {period_us}"));
        }
    }

    /// Sets the burst, if this kernel supports it (Linux 5.14).
    pub(crate) fn set_burst(&self, burst_us: u64) -> bool {
        let file = if is_v1() { "cpu.cfs_burst_us" } else { "cpu.max.burst" };
        let has = self.directory().join(file).exists();
        if has {
            self.write(file, &burst_us.to_string());
        }
        has
    }

    /// Sets the same weight in either unit: by the kubelet's formula, 2048 shares are a weight of 79.
    pub(crate) fn set_weight_79(&self) {
        if is_v1() { self.write("cpu.shares", "2048") } else { self.write("cpu.weight", "79") }
    }

    /// 64 times the default weight: nearly all of a CPU, but on a machine with a single CPU, other tasks
    /// still make progress.
    pub(crate) fn set_weight_high(&self) {
        if is_v1() { self.write("cpu.shares", "65536") } else { self.write("cpu.weight", "6400") }
    }

    /// A sixteenth of the default weight: competing with heavier groups, it rarely gets a CPU as soon as it
    /// is woken.
    pub(crate) fn set_weight_low(&self) {
        if is_v1() { self.write("cpu.shares", "64") } else { self.write("cpu.weight", "6") }
    }

    /// Enables the cpu controller for cgroups below. v2 needs a write to a file; v1 always has it.
    pub(crate) fn enable_controllers_below(&self) {
        if !is_v1() {
            self.write("cgroup.subtree_control", "+cpu");
        }
    }

    /// Allows real-time tasks: with `CONFIG_RT_GROUP_SCHED`, a new v1 group has no real-time runtime. Ignored
    /// if it fails.
    pub(crate) fn allow_real_time(&self) {
        drop(fs::write(self.directory().join("cpu.rt_runtime_us"), "900000"));
    }

    /// The CPU time used, according to the kernel.
    pub(crate) fn usage_ns(&self) -> u64 {
        if is_v1() {
            let files = self.directories.iter().map(|directory| directory.join("cpuacct.usage"));
            let file = files.into_iter().find(|file| file.exists()).expect("cpuacct is mounted");
            return fs::read_to_string(file).expect("cpuacct.usage").trim().parse().expect("a number");
        }
        self.stat("usage_usec").expect("usage_usec") * 1000
    }

    /// The CPU time used, if it does not change over a few ticks.
    pub(crate) fn usage_at_rest(&self) -> Option<u64> {
        let usage = self.usage_ns();
        sleep(Duration::from_millis(50));
        (self.usage_ns() == usage).then_some(usage)
    }

    /// The cgroup's id in BPF programs: the inode number of its directory.
    pub(crate) fn id(&self) -> u64 {
        fs::metadata(self.directory()).expect("the directory exists").ino()
    }

    pub(crate) fn throttling(&self) -> Throttling {
        let throttled_ns = match self.stat("throttled_time") {
            Some(nanoseconds) => nanoseconds,
            None => self.stat("throttled_usec").expect("throttled_usec") * 1000,
        };
        let number = |key| self.stat(key).expect("the cpu controller is on");
        Throttling { periods: number("nr_periods"), throttled_periods: number("nr_throttled"), throttled_ns }
    }

    fn stat(&self, key: &str) -> Option<u64> {
        let text = fs::read_to_string(self.directory().join("cpu.stat")).expect("cpu.stat");
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == key).map(|(_, value)| value.parse().expect("a number"))
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.directory().join(file);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{text} to {}: {error}", path.display()));
    }

    /// Removes the cgroup now, with everything that runs in it.
    pub(crate) fn remove(self) {
        drop(self);
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let start = Instant::now();
        for directory in &self.directories {
            while !is_removed(directory) && start.elapsed() < DEADLINE {
                kill_all(directory);
                sleep(Duration::from_millis(1));
            }
        }
    }
}

fn is_removed(directory: &Path) -> bool {
    match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn kill_all(directory: &Path) {
    let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    for process in processes.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 1) {
        // SAFETY: `kill` touches no memory of ours.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }
}
