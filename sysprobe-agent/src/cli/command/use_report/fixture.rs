//! A window of two seconds on a machine with two CPUs, for tests.

use std::collections::BTreeMap;

use crate::cli::fixture;
use crate::snapshot::{CpuTimes, DiskTimes, LinkCounts, NodeMemory, NodeSample, Snapshot};

pub(super) const SECOND: u64 = 1_000_000_000;

/// The machine's counters `at` nanoseconds after the first reading.
pub(super) fn node(at: u64) -> NodeSample {
    let seconds = at / SECOND;
    let link = |bits_per_second| LinkCounts {
        received_bytes: 500 * seconds,
        sent_bytes: 1000 * seconds,
        errors: 0,
        drops: 0,
        bits_per_second,
    };
    NodeSample {
        monotonic_ns: at,
        cpus: 2,
        cpu: CpuTimes { busy_ns: at / 20 * 38, idle_ns: at / 20, stolen_ns: at / 20 },
        memory: NodeMemory {
            total_bytes: 8 << 30,
            available_bytes: 2 << 30,
            swapped_in: 2 * seconds,
            swapped_out: 3 * seconds,
            oom_kills: seconds / 2,
        },
        disks: BTreeMap::from([(
            "vda".to_owned(),
            DiskTimes { busy_ns: at / 2, requests_ns: at * 6, requests_in_flight: 2 },
        )]),
        links: BTreeMap::from([("eth0".to_owned(), link(Some(20_000))), ("eth1".to_owned(), link(None))]),
        backlog_drops: seconds,
    }
}

pub(super) fn window() -> (Snapshot, Snapshot) {
    let (earlier, later) = fixture::node();
    let with = |snapshot, at| Snapshot { node: Some(node(at)), ..snapshot };
    (with(earlier, 0), with(later, 2 * SECOND))
}
