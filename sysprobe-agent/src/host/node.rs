//! The machine's own counters, from `/proc` and `/sys`. Facts only: this module decides no thresholds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use procfs::net::DeviceStatus;
use procfs::process::{MountInfo, Process};
use procfs::{CpuTime, Current, CurrentSI, KernelStats, Meminfo, ProcResult};
use tracing::debug;

use crate::snapshot::{CpuTimes, DiskTimes, LinkCounts, NodeMemory, NodeSample};

const MS: u64 = 1_000_000;

/// Whether the kernel has a protocol of sockets (`struct proto`), by its name.
pub(crate) fn has_protocol(name: &str) -> bool {
    lists_protocol(&fs::read_to_string("/proc/net/protocols").unwrap_or_default(), name)
}

/// The first column is the name.
fn lists_protocol(protocols: &str, name: &str) -> bool {
    protocols.lines().any(|line| line.split_whitespace().next() == Some(name))
}

/// Reads all counters.
pub(crate) fn read() -> NodeSample {
    let stat = known(KernelStats::current());
    let softnet = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    NodeSample {
        monotonic_ns: super::monotonic_ns(),
        cpus: stat.as_ref().map_or(0, |stat| stat.cpu_time.len() as u64),
        cpu: stat.map(|stat| cpu(&stat.total)).unwrap_or_default(),
        memory: memory(),
        disks: disks(),
        links: links(),
        backlog_drops: backlog_drops(&softnet),
    }
}

/// A file that cannot be read, as in a sandbox, leaves its part empty.
fn known<T>(read: ProcResult<T>) -> Option<T> {
    read.inspect_err(|error| debug!(%error, "A file in /proc could not be read.")).ok()
}

fn cpu(total: &CpuTime) -> CpuTimes {
    let ns = |ms: Option<u64>| ms.unwrap_or_default() * MS;
    // `user` and `nice` include the time of guests.
    let busy = total.user_ms() + total.nice_ms() + total.system_ms();
    CpuTimes {
        busy_ns: busy * MS + ns(total.irq_ms()) + ns(total.softirq_ms()),
        idle_ns: total.idle_ms() * MS + ns(total.iowait_ms()),
        stolen_ns: ns(total.steal_ms()),
    }
}

fn memory() -> NodeMemory {
    let Some(info) = known(Meminfo::current()) else { return NodeMemory::default() };
    let vm = known(procfs::vmstat()).unwrap_or_default();
    let count = |name| vm.get(name).and_then(|count| u64::try_from(*count).ok()).unwrap_or_default();
    NodeMemory {
        total_bytes: info.mem_total,
        available_bytes: info.mem_available.unwrap_or(info.mem_free),
        swapped_in: count("pswpin"),
        swapped_out: count("pswpout"),
        oom_kills: count("oom_kill"),
    }
}

/// Only disks with hardware or a hypervisor behind them: a loop device's requests are counted on another disk
/// as well.
fn disks() -> BTreeMap<String, DiskTimes> {
    let is_whole = |name: &str| Path::new("/sys/block").join(name).join("device").exists();
    let disks = known(procfs::diskstats()).unwrap_or_default();
    let disks = disks.into_iter().filter(|disk| is_whole(&disk.name));
    let times = disks.map(|disk| {
        let (busy_ns, requests_ns) = (disk.time_in_progress * MS, disk.weighted_time_in_progress * MS);
        (disk.name, DiskTimes { busy_ns, requests_ns, requests_in_flight: disk.in_progress })
    });
    times.collect()
}

/// Links that leave the machine, if there are any; else all except loopback and ends of pairs such as veth.
fn links() -> BTreeMap<String, LinkCounts> {
    // Process 1 is in the node's network namespace; a container has its own.
    let of_node = known(Process::new(1).and_then(|first| first.dev_status()));
    let all = of_node.or_else(|| known(procfs::net::dev_status())).unwrap_or_default();
    let all: Vec<_> = all.into_values().filter(|link| link.name != "lo").collect();
    let devices = network_devices();
    let leaves = |link: &&DeviceStatus| devices.join(&link.name).join("device").exists();
    let real: Vec<_> = all.iter().filter(leaves).collect();
    let number = |link: &DeviceStatus, file| fs::read_to_string(devices.join(&link.name).join(file)).ok();
    let is_single = |link: &&DeviceStatus| number(link, "iflink") == number(link, "ifindex");
    let chosen = if real.is_empty() { all.iter().filter(is_single).collect() } else { real };
    chosen.into_iter().map(|link| (link.name.clone(), counts(link, &devices))).collect()
}

pub(super) fn network_devices() -> PathBuf {
    let mounts = known(Process::myself().and_then(|own| own.mountinfo())).map(|mounts| mounts.0);
    devices(&mounts.unwrap_or_default())
}

/// The machine's memory; 0 if unknown.
pub(super) fn memory_bytes() -> u64 {
    known(Meminfo::current()).map_or(0, |info| info.mem_total)
}

/// The directory of the node's network devices. sysfs shows the devices of the network namespace in which it
/// was mounted, so a container needs a mount of the node's `/sys/class/net`. (Its entries link to
/// `/sys/devices`, beside it.)
fn devices(mounts: &[MountInfo]) -> PathBuf {
    const DEVICES: &str = "/class/net";
    let given = mounts.iter().find(|mount| mount.fs_type == "sysfs" && mount.root == DEVICES);
    given.map_or_else(|| Path::new("/sys/class/net").to_owned(), |mount| mount.mount_point.clone())
}

fn counts(link: &DeviceStatus, devices: &Path) -> LinkCounts {
    let speed = fs::read_to_string(devices.join(&link.name).join("speed")).ok();
    let megabits = speed.and_then(|text| text.trim().parse::<u64>().ok()).filter(|megabits| *megabits > 0);
    LinkCounts {
        received_bytes: link.recv_bytes,
        sent_bytes: link.sent_bytes,
        errors: link.recv_errs + link.sent_errs,
        drops: link.recv_drop + link.sent_drop,
        bits_per_second: megabits.map(|megabits| megabits * 1_000_000),
    }
}

/// Packets dropped because a queue was full, on all CPUs. Numbers are hexadecimal (`softnet_seq_show`).
fn backlog_drops(softnet: &str) -> u64 {
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet.lines().filter_map(dropped).sum()
}

/// Packets that the network layer has received since boot, on all CPUs and in all namespaces.
pub(crate) fn packets_received() -> u64 {
    processed(&fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default())
}

/// Each CPU's number wraps at 32 bits, so the agent reads it every second.
fn processed(softnet: &str) -> u64 {
    let received = |line: &str| u64::from_str_radix(line.split_whitespace().next()?, 16).ok();
    softnet.lines().filter_map(received).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_is_known_by_its_whole_name() {
        let text =
            "protocol  size sockets  memory\nSCTPv6    1560      0       0\nUDP       1344      2       1\n";
        let found = ["UDP", "SCTP", "SCTPv6", "size"].map(|name| lists_protocol(text, name));
        assert_eq!(found, [true, false, true, false]);
    }

    #[test]
    fn packets_that_found_no_room_are_summed_over_cpus() {
        let text = "00000010 00000001 0000000f 0\n00000020 0000000a 00000001 0\n";
        assert_eq!(backlog_drops(text), 11);
        assert_eq!(backlog_drops(""), 0);
        assert_eq!(processed(text), 48);
    }

    #[test]
    fn devices_that_a_container_was_given_come_before_its_own() {
        let own = "30 29 0:21 / /sys ro - sysfs sysfs ro";
        let given = "31 29 0:22 /class/net /host/sys/class/net ro - sysfs sysfs rw";
        let parse = |line: &str| MountInfo::from_line(line).expect("a line of mountinfo");
        assert_eq!(devices(&[parse(own)]), Path::new("/sys/class/net"));
        assert_eq!(devices(&[parse(own), parse(given)]), Path::new("/host/sys/class/net"));
    }

    #[test]
    fn this_machine_has_what_every_machine_has() {
        let node = read();
        assert!(node.cpus > 0 && node.cpu.busy_ns > 0, "{node:?}");
        assert!((1..node.memory.total_bytes).contains(&node.memory.available_bytes), "{node:?}");
    }
}
