//! The conversion of a record to a sample.

use std::net::Ipv4Addr;

use sysprobe_common::rxpath::slow::RUN_INTERVALS_TOLD;
use sysprobe_common::sched::RunInterval;

use super::*;
use crate::snapshot::Culprit;

const MS: u64 = 1_000_000;

/// The reader was woken after two milliseconds and waited for a CPU for ten more.
fn slow() -> Slow {
    let mut name = [0; 16];
    name[..5].copy_from_slice(b"nginx");
    let mut run_intervals = [RunInterval::NONE; RUN_INTERVALS_TOLD];
    let interval = |until, occupant| RunInterval { until, occupant, ..RunInterval::NONE };
    run_intervals[0] = interval(12 * MS, 8);
    run_intervals[1] = interval(6 * MS, KERNEL);
    run_intervals[2] = interval(5 * MS, 9);
    run_intervals[3] = interval(MS, 7);
    Slow {
        timestamps: [0, MS, MS, MS, 2 * MS, 12 * MS, 13 * MS],
        owner: 7,
        thread: (70 << 32) + 71,
        name,
        peer: [0, 0, u32::from_be(0xffff), u32::from_ne_bytes([10, 0, 0, 9])],
        peer_port: 40_000,
        own_port: 80,
        protocol: 0,
        points: 0x7f,
        cpu: 1,
        waited_from: 2 * MS,
        waited_to: 12 * MS,
        clock_offset: 0,
        run_intervals,
    }
}

fn named(owner: SlotOwner) -> Workload {
    let container = match owner {
        SlotOwner::Cgroup(id) => format!("{id}.service"),
        _ => "unknown".to_owned(),
    };
    Workload { container, ..Workload::default() }
}

#[test]
fn it_is_told_who_had_the_cpu_meanwhile() {
    let request = request(&slow(), named).expect("TCP");
    assert_eq!(request.workload, named(SlotOwner::Cgroup(7)));
    assert_eq!((request.took_ns, request.read_ns), (13 * MS, 13 * MS));
    assert_eq!(request.peer, Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9))));
    assert_eq!((request.pid, request.tid, request.thread.as_str()), (70, 71, "nginx"));
    let all: u64 = request.stages.iter().map(|(_, ns)| ns).sum();
    assert_eq!(all, request.took_ns);
    assert_eq!(request.stages[4], ("wakeup_to_run".to_owned(), 10 * MS));
    let service =
        |name: &str| Who::Workload(Culprit { container: format!("{name}.service"), ..Culprit::default() });
    let expected = [(service("8"), 6 * MS), (service("9"), 3 * MS), (Who::Kernel, MS)];
    assert_eq!(request.occupants, expected.map(|(who, ns)| Occupant { who, ns }));
}

#[test]
fn where_the_reader_is_not_seen_nobody_had_its_cpu() {
    let points = Point::Device.bit() | Point::Transport.bit() | Point::Read.bit();
    let request = request(&Slow { points, waited_to: 0, ..slow() }, named).expect("TCP");
    let names: Vec<_> = request.stages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["device_to_tcp", "tcp_to_read"]);
    assert_eq!(request.occupants, []);
}

#[test]
fn a_socket_that_is_not_connected_has_no_peer() {
    let request = request(&Slow { peer: [0; 4], ..slow() }, named).expect("TCP");
    assert_eq!(request.peer, None);
    assert!(super::request(&Slow { protocol: 9, ..slow() }, named).is_none());
}
