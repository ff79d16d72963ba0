//! Checks that the plan has every map that the agent creates, with the memory that the kernel accounts for
//! it.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{MapInfo, MapType};
use support::agent::{Agent, Options};
use support::attach_modes::kernel;
use support::bpf::Objects;
use support::{figure, left_out};

/// From Linux 6.4 on, `memlock` is what a map takes (`map_mem_usage`); before, it is an estimate from the
/// sizes of keys and values.
const EXACT_MEMORY: (u32, u32) = (6, 4);
/// The plan lacks the heads of maps. That of an array that is memory-mapped takes a page, and that of a hash
/// 32 bytes for each CPU.
const TOLERANCE: u64 = 2 * 4096;

/// The bytes that the kernel accounts for a map.
fn accounted(map: &MapInfo) -> u64 {
    let map = map.fd().expect("root may open maps");
    let path = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let text = fs::read_to_string(path).expect("an open descriptor");
    let bytes = text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
    bytes.expect("a number of bytes")
}

/// Storage, or the array of storages. Storage belongs to tasks and sockets: the kernel accounts it to no map.
fn is_storage(map: &MapInfo) -> bool {
    let kind = map.map_type().expect("a known type");
    matches!(kind, MapType::SkStorage | MapType::TaskStorage | MapType::ArrayOfMaps)
}

/// The name in the plan, which has one entry for the sixteen maps over which sockets are spread.
fn planned_name(map: &MapInfo) -> String {
    let name = map.name_as_str().expect("a name").to_lowercase();
    if is_storage(map) {
        name.trim_end_matches(|last: char| last.is_ascii_digit()).trim_end_matches('_').to_owned()
    } else {
        name
    }
}

/// The agent's maps, without those of read-only globals, of which each object has one of three pages at
/// most.
fn maps_of(agent: &Agent) -> Vec<(String, MapInfo)> {
    let ids = Objects::of_process(agent.pid()).maps;
    let maps = aya::maps::loaded_maps().map(|map| map.expect("root may list maps"));
    let ours = maps.filter(|map| ids.contains(&map.id())).map(|map| (planned_name(&map), map));
    ours.filter(|(name, _)| name != ".rodata").collect()
}

fn assert_planned(arguments: &[&str]) {
    let agent = Agent::with(Options { arguments, ..Options::default() });
    let planned = agent.snapshot().agent.maps;
    // The kernel cuts names off after 15 bytes.
    let planned: BTreeMap<_, _> =
        planned.iter().map(|map| (map.map.get(..15).unwrap_or(&map.map).to_owned(), map.bytes)).collect();
    let found = maps_of(&agent);
    let names: BTreeSet<_> = found.iter().map(|(name, _)| name.clone()).collect();
    let missing: Vec<_> = names.iter().filter(|name| !planned.contains_key(*name)).collect();
    let absent: Vec<_> = planned.keys().filter(|name| !names.contains(*name)).collect();
    assert!(missing.is_empty(), "not in the plan with {arguments:?}: {missing:?}");
    assert!(absent.is_empty(), "planned with {arguments:?}, but not there: {absent:?}");
    if kernel() < EXACT_MEMORY {
        left_out("the maps' bytes", "before Linux 6.4 the kernel only estimates them");
        return;
    }
    let mut total = [0, 0];
    for (name, map) in found.iter().filter(|(_, map)| !is_storage(map)) {
        let (planned, accounted) = (planned[name], accounted(map));
        total = [total[0] + planned, total[1] + accounted];
        assert!(planned.abs_diff(accounted) <= TOLERANCE, "{name}: planned {planned}, accounted {accounted}");
    }
    figure(&format!("with {arguments:?}: planned {}, accounted {} bytes", total[0], total[1]));
}

#[test]
fn every_map_takes_the_memory_that_is_planned() {
    assert_planned(&[]);
    for mode in ["raw_tp", "kprobe", "fentry"] {
        assert_planned(&["--attach", mode]);
    }
}
