//! Sizes for nodes of all kinds.

use super::*;
use crate::config::Config;
use crate::host::Cpus;
use crate::plan::fixture::{self, cpus, facts};

fn plan(change: impl FnOnce(&mut Facts), configured: u32) -> Plan {
    let mut facts = facts();
    change(&mut facts);
    Plan::new(&facts, &Config { slots: configured, ..Config::default() })
}

const GIB: u64 = 1 << 30;

#[test]
fn five_hundred_pods_with_five_volumes_have_room_for_their_devices() {
    let plan = plan(|facts| facts.cpus = cpus(64), 0);
    // Each volume is used by its container and the kernel, and two cgroups of each pod write to the
    // node's disk.
    assert!(plan.sizes.block >= 2 * 500 * 5 + 2 * 500, "{} pairs", plan.sizes.block);
    assert!(plan.sizes.interference >= 250 * 249, "{} pairs", plan.sizes.interference);
}

#[test]
fn the_maps_stay_within_their_share_of_any_node() {
    for (gib, online, cgroups) in [(1, 2, 60), (2, 2, 100), (4, 4, 300), (64, 64, 1500), (1024, 512, 20_000)]
    {
        let plan = plan(
            |facts| {
                facts.cpus = cpus(online);
                facts.scale = Scale { memory_bytes: gib * GIB, memory_limit_bytes: None, cgroups, disks: 3 };
            },
            0,
        );
        assert!(bytes(&plan) <= plan.sizes.budget_bytes, "{gib} GiB: {} bytes", bytes(&plan));
        assert!(plan.sizes.budget_bytes <= gib * GIB / OF_THE_NODE);
        assert!(plan.slots >= cgroups, "{gib} GiB: {} slots", plan.slots);
        assert_eq!(plan.warnings, Vec::<String>::new(), "{gib} GiB");
    }
}

#[test]
fn the_agents_own_limit_counts_and_is_named() {
    let limited = |limit, cgroups| {
        plan(|facts| (facts.scale.memory_limit_bytes, facts.scale.cgroups) = (Some(limit), cgroups), 0)
    };
    let chart = limited(256 << 20, 200);
    assert!((chart.slots, bytes(&chart) <= 64 << 20) == (SLOTS, true), "{:?}", chart.sizes);
    let more = limited(256 << 20, SLOTS + 1);
    assert!(more.slots >= SLOTS, "no fewer than with fewer cgroups: {}", more.slots);
    let crowded = limited(128 << 20, 6000);
    assert!(crowded.slots < 6000 && bytes(&crowded) <= 32 << 20, "{} slots", crowded.slots);
    assert!(crowded.warnings[0].contains("agent's memory limit"), "{:?}", crowded.warnings);
}

#[test]
fn configured_slots_stay_and_say_when_they_are_too_many() {
    let small = plan(|_| {}, 100);
    assert_eq!((small.slots, small.warnings.len()), (100, 0));
    let large = plan(|facts| facts.scale.memory_bytes = GIB, 65_536);
    assert_eq!((large.slots, large.warnings.len()), (65_536, 1));
}

fn in_progress(cpus: u32, memory_bytes: u64, requests: u32) -> Plan {
    let change = |facts: &mut Facts| {
        facts.cpus = Cpus { possible: 2 * cpus, ..fixture::cpus(cpus) };
        facts.scale.memory_bytes = memory_bytes;
        facts.queues.requests = requests;
    };
    plan(change, 0)
}

/// Two `NVMe` devices with a queue for each of 64 CPUs.
const TWO_DEVICES: u32 = 2 * 64 * 1023;

#[test]
fn all_requests_that_devices_can_have_in_flight_find_room_twice() {
    let requests = |cpus, memory, requests| in_progress(cpus, memory * GIB, requests).sizes.requests;
    assert_eq!(requests(64, 256, TWO_DEVICES), REQUESTS_MOST);
    assert_eq!(requests(64, 256, 64), 16_384);
    assert_eq!(requests(2, 256, 10_000), 32_768);
    assert_eq!(requests(2, 16, 256), IN_PROGRESS_LEAST);
}

#[test]
fn under_the_charts_limit_they_find_room_once_before_cgroups_lose_theirs() {
    let limited = plan(
        |facts| {
            (facts.cpus, facts.queues.requests) = (cpus(64), TWO_DEVICES);
            facts.scale.memory_limit_bytes = Some(256 << 20);
        },
        0,
    );
    assert_eq!((limited.slots, limited.warnings.len()), (SLOTS, 0), "{:?}", limited.sizes);
    assert!(limited.sizes.requests >= TWO_DEVICES && bytes(&limited) <= 64 << 20, "{:?}", limited.sizes);
}

#[test]
fn more_cpus_remember_more_packets() {
    assert_eq!(
        [1, 2, 6, 64, 512].map(|cpus| in_progress(cpus, 256 * GIB, 0).sizes.packets),
        [1 << 14, 1 << 15, 1 << 17, 1 << 18, 1 << 18]
    );
}

#[test]
fn what_is_in_progress_gives_way_on_a_small_machine() {
    let small = in_progress(64, 2 * GIB, 100_000);
    let Sizes { requests, packets, budget_bytes, .. } = small.sizes;
    assert_eq!(requests, IN_PROGRESS_LEAST);
    assert!(packets < in_progress(64, 256 * GIB, 100_000).sizes.packets, "{packets} packets");
    assert!(bytes(&small) <= budget_bytes, "{} of {budget_bytes} bytes", bytes(&small));
    // A machine whose memory is unknown gets the minimum.
    let Sizes { requests, reclaims, packets, .. } = in_progress(64, 0, 100_000).sizes;
    assert_eq!([requests, packets, reclaims], [IN_PROGRESS_LEAST, IN_PROGRESS_LEAST, RECLAIMS_LEAST]);
}
