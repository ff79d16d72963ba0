//! Many requests in flight at a time, on a device that takes a while for each: the agent tracks every request
//! that fits to its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use sysprobe_agent::bpf::Loader;
use sysprobe_agent::config::Config;
use sysprobe_agent::domain::block::Block;
use sysprobe_agent::domain::traits::{Domain as _, Start as _};
use sysprobe_agent::host::{self, Facts};
use sysprobe_agent::plan::{Decision, Plan};
use sysprobe_agent::probe::{AttachMode, program_set};
use sysprobe_common::block::Operation;

use super::counts::Counts;
use super::disk::DiskStats;
use super::support::attach_modes::watchers;
use super::support::cgroup::Cgroup;
use super::support::process::cpus;
use super::support::totals::lost;
use super::support::{figure, left_out, until};
use super::{assert_nothing_lost, fio};

/// The size of the device's queue, and of the tables of programs that a test loads itself.
const ROOM: u32 = 1024;
/// More than would remain if CPUs kept free entries for themselves.
const DEPTH: u32 = 1000;

/// A device without data that completes each request after a delay (`null_blk`).
struct Slow {
    directory: PathBuf,
    name: String,
}

impl Slow {
    /// Creates the device; `None` if the kernel has no `null_blk`.
    fn new(name: &str, takes: Duration) -> Option<Self> {
        let configfs = Path::new("/sys/kernel/config");
        drop(process::Command::new("modprobe").args(["null_blk", "nr_devices=0"]).output());
        if !configfs.join("nullb").is_dir() {
            drop(process::Command::new("mount").args(["-t", "configfs", "none"]).arg(configfs).output());
        }
        let name = format!("sysprobe-test-{}-{name}", process::id());
        let directory = configfs.join("nullb").join(&name);
        if fs::create_dir(&directory).is_err() {
            left_out("a slow device", "this kernel has no null_blk");
            return None;
        }
        let mut device = Self { directory, name };
        device.set("size", "256");
        device.set("irqmode", "2");
        device.set("completion_nsec", &takes.as_nanos().to_string());
        device.set("submit_queues", "1");
        device.set("hw_queue_depth", &ROOM.to_string());
        device.set("power", "1");
        // Before Linux 6.1, the device has a number instead of this name.
        if !Path::new("/sys/block").join(&device.name).exists() {
            let index = fs::read_to_string(device.directory.join("index")).expect("it has a number");
            device.name = format!("nullb{}", index.trim());
        }
        let queue = Path::new("/sys/block").join(&device.name).join("queue");
        drop(fs::write(queue.join("scheduler"), "none"));
        Some(device)
    }

    fn set(&self, setting: &str, value: &str) {
        let file = self.directory.join(setting);
        fs::write(&file, value).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// The statistics, once nothing is in flight.
    fn at_rest(&self) -> DiskStats {
        until("the device is idle", || {
            let statistics = DiskStats::of(&self.name);
            (statistics.in_flight == 0).then_some(statistics)
        })
    }

    /// Makes `reads` reads from one CPU, `depth` of them at a time.
    fn read_deep(&self, cgroup: &Cgroup, cpu: usize, depth: u32, reads: u32) {
        let place = format!("--filename={}", self.path());
        let (size, depth) = (format!("--io_size={}k", 4 * reads), format!("--iodepth={depth}"));
        let cpu = format!("--cpus_allowed={cpu}");
        fio(cgroup, &[&place, "--direct=1", "--rw=randread", "--ioengine=libaio", &size, &depth, &cpu]);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        drop(fs::write(self.directory.join("power"), "0"));
        drop(fs::remove_dir(&self.directory));
    }
}

/// Loads the programs without an agent, with room for this many requests in flight.
fn start(requests: u32) -> (AttachMode, Block) {
    let config = Config::default();
    let facts = Facts::collect(&config);
    let mut plan = Plan::new(&facts, &config);
    plan.sizes.requests = requests;
    let Some(Decision::On(candidates)) = plan.decision("block") else {
        panic!("{:?}", plan.decision("block"))
    };
    let loader = Loader::new(&facts.btf_path);
    let mut refused = Vec::new();
    for candidate in candidates {
        let set = program_set("block", candidate.mode).expect("a candidate is in the table");
        match Block::start(&loader, set, candidate, &plan) {
            Ok(block) => return (candidate.mode, block),
            Err(error) => refused.push(format!("{}: {error}", candidate.mode.name())),
        }
    }
    panic!("the kernel takes none: {refused:?}")
}

/// Requests in flight at the last scan.
fn in_flight(block: &Block) -> u64 {
    let maps = block.in_use();
    maps.iter().find(|(map, _)| *map == "BLOCK_IN_FLIGHT").expect("the map is listed").1
}

fn count_lost(block: &Block, reason: &str) -> u64 {
    block.losses().into_iter().filter(|lost| lost.reason == reason).map(|lost| lost.count).sum()
}

/// The number of reads from a disk that were tracked to their end.
fn reads_of(block: &mut Block, disk: &str) -> u64 {
    block.slots().list().expect("the slots can be listed");
    let mut reads = 0;
    block.slots().read(
        |_| true,
        |_, gathered| {
            if gathered.disk.starts_with(disk.as_bytes()) {
                reads += gathered.operations[Operation::Read as usize]
                    .latency
                    .iter()
                    .map(|count| u64::from(*count))
                    .sum::<u64>();
            }
        },
    );
    reads
}

#[test]
fn a_deep_queue_of_one_cpu_loses_no_request_when_all_cpus_have_had_some() {
    const READS: u32 = 3 * DEPTH;
    let Some(disk) = Slow::new("deep", Duration::from_millis(400)) else { return };
    let watchers = watchers("block");
    let (mode, mut block) = start(ROOM);
    let (cgroup, before) = (Cgroup::new("deep"), disk.at_rest());
    let all = cpus();
    for cpu in &all {
        disk.read_deep(&cgroup, *cpu, 1, 1);
    }
    disk.read_deep(&cgroup, all[0], DEPTH, READS);
    let truth = disk.at_rest().since(&before);
    assert!(truth.reads >= u64::from(READS), "{truth:?}");
    let ours = reads_of(&mut block, &disk.name);
    let [missed, full] = ["submission_missed", "in_flight_full"].map(|reason| count_lost(&block, reason));
    let (cpus, name) = (all.len(), mode.name());
    figure(&format!(
        "{name}: {ours} of {} reads on {cpus} CPUs; {missed} missed, {full} no room",
        truth.reads
    ));
    assert_eq!((ours, missed, full), (truth.reads, 0, 0), "by {name}");
    for watcher in &watchers {
        let snapshot = watcher.agent.snapshot();
        let read = *Counts::of_device(&snapshot, &disk.name).of(Operation::Read);
        assert_eq!(
            (read.requests, read.bytes),
            (truth.reads, truth.sectors_read * 512),
            "by {}",
            watcher.mode.name()
        );
        assert_eq!(lost(&snapshot, "block", "submission_missed"), 0, "by {}", watcher.mode.name());
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn more_requests_than_there_is_room_for_are_counted_as_lost() {
    const FEW: u32 = 64;
    let Some(disk) = Slow::new("full", Duration::from_millis(400)) else { return };
    let (mode, mut block) = start(FEW);
    let (cgroup, before) = (Cgroup::new("full"), disk.at_rest());
    disk.read_deep(&cgroup, cpus()[0], DEPTH, DEPTH);
    let reads = disk.at_rest().since(&before).reads;
    let ours = reads_of(&mut block, &disk.name);
    let [missed, full] = ["submission_missed", "in_flight_full"].map(|reason| count_lost(&block, reason));
    figure(&format!("{}: {ours} of {reads}; {missed} missed, {full} no room", mode.name()));
    assert!(ours >= u64::from(FEW) && full > 0, "{ours} of {reads}, {full} no room");
    assert_eq!(ours + missed, reads);
}

#[test]
fn requests_whose_end_was_missed_are_removed_once_they_fill_half_of_the_table() {
    const LONG: Duration = Duration::from_secs(3600);
    /// Less and more than half of the table.
    const DEPTHS: [u32; 2] = [400, 700];
    let Some(disk) = Slow::new("stale", Duration::from_secs(4)) else { return };
    let (_, mut block) = start(ROOM);
    let cgroup = Cgroup::new("stale");
    let monotonic = || u64::try_from(host::monotonic().as_nanos()).expect("small");
    let mut now = Instant::now();
    for depth in DEPTHS {
        thread::scope(|scope| {
            scope.spawn(|| disk.read_deep(&cgroup, cpus()[0], depth, depth));
            until("all are in flight", || {
                now += LONG;
                block.remove_stale(now, monotonic());
                (in_flight(&block) >= u64::from(depth)).then_some(())
            });
            assert_eq!(count_lost(&block, "end_missed"), 0, "none is old");
            now += LONG;
            block.remove_stale(now, monotonic() + u64::try_from(LONG.as_nanos()).expect("small"));
        });
        let (left, removed) = (in_flight(&block), count_lost(&block, "end_missed"));
        figure(&format!("of {depth} in flight {removed} were removed, {left} are left"));
        if depth < ROOM / 2 {
            assert_eq!(removed, 0);
        } else {
            assert!(left == 0 && removed >= u64::from(depth), "{left} are left of {removed}");
        }
        disk.at_rest();
    }
}
