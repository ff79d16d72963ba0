//! Queues of devices: how many requests block devices accept at a time, and whether packets are steered to
//! other CPUs.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::node;

/// Settings of this host's device queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Queues {
    /// Maximum number of requests in flight, over all block devices.
    pub requests: u32,
    /// Whether packets of a network device are steered to other CPUs than those that receive them (RPS or
    /// RFS).
    pub steers_packets: bool,
}

impl Queues {
    pub(super) fn collect() -> Self {
        Self { requests: requests(Path::new("/sys/block")), steers_packets: steers_packets() }
    }
}

/// Whether packets are steered now.
#[must_use]
pub fn steers_packets() -> bool {
    let sockets = fs::read_to_string("/proc/sys/net/core/rps_sock_flow_entries").unwrap_or_default();
    steers(&node::network_devices(), has_bits(&sockets))
}

/// `queue/nr_requests` applies to each hardware queue (`mq/0` and so on). A device without hardware queues
/// passes its bios on to other devices.
fn requests(devices: &Path) -> u32 {
    let of_device = |device: PathBuf| {
        let queues = u32::try_from(entries(&device.join("mq")).count()).unwrap_or(u32::MAX);
        let each = fs::read_to_string(device.join("queue/nr_requests")).unwrap_or_default();
        each.trim().parse::<u32>().unwrap_or(0).saturating_mul(queues)
    };
    entries(devices).map(of_device).fold(0, u32::saturating_add)
}

/// `rps_flow_cnt` has an effect only together with the global socket flow table.
fn steers(devices: &Path, by_socket: bool) -> bool {
    let is_set =
        |queue: &Path, file: &str| fs::read_to_string(queue.join(file)).is_ok_and(|text| has_bits(&text));
    let mut queues = entries(devices).flat_map(|device| entries(&device.join("queues")));
    queues.any(|queue| is_set(&queue, "rps_cpus") || (by_socket && is_set(&queue, "rps_flow_cnt")))
}

/// Whether a mask, such as `00000000,0000000f`, or a number is other than zero.
fn has_bits(text: &str) -> bool {
    text.contains(|digit: char| digit.is_ascii_hexdigit() && digit != '0')
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(Result::ok).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files below a directory, and creates their directories.
    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
    }

    #[test]
    fn requests_are_those_of_all_hardware_queues() {
        let root = tempfile::tempdir().expect("a directory");
        let files = [
            ("nvme0n1/queue/nr_requests", "1023\n"),
            ("nvme0n1/mq/0/nr_tags", "1023\n"),
            ("nvme0n1/mq/1/nr_tags", "1023\n"),
            ("sda/queue/nr_requests", "64\n"),
            ("sda/mq/0/nr_tags", "64\n"),
            // The device mapper has no hardware queues.
            ("dm-0/queue/nr_requests", "128\n"),
        ];
        write(root.path(), &files);
        assert_eq!(requests(root.path()), 2 * 1023 + 64);
        assert_eq!(requests(&root.path().join("nowhere")), 0);
    }

    #[test]
    fn packets_are_steered_where_a_queue_has_cpus_or_flows() {
        let root = tempfile::tempdir().expect("a directory");
        let steers = |by_socket| steers(root.path(), by_socket);
        write(root.path(), &[("eth0/queues/rx-0/rps_cpus", "00000000,00000000\n")]);
        write(
            root.path(),
            &[("eth0/queues/rx-0/rps_flow_cnt", "4096\n"), ("eth0/queues/tx-0/xps_cpus", "3\n")],
        );
        assert_eq!((steers(false), steers(true)), (false, true));
        write(root.path(), &[("eth1/queues/rx-1/rps_cpus", "00000000,0000000f\n")]);
        assert!(steers(false));
    }
}
