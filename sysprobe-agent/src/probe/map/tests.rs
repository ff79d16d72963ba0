//! Compares the table with the objects that are built into the agent.

use std::collections::HashMap;

use aya_obj::generated::{BPF_F_MMAPABLE, bpf_map_type};
use aya_obj::{EbpfSectionKind, Map, Object};

use crate::probe::{EntryCount, MapKind, MapSpec, PROBES};

/// The attributes of a map that decide what it takes: its type, whether user space maps it, the bytes of a
/// key and of a value, and its entries, unless the plan sets them.
#[derive(Debug, PartialEq, Eq)]
struct Attributes {
    kind: u32,
    is_mapped: bool,
    key: u32,
    value: u32,
    entries: Option<u32>,
}

fn map_type(kind: MapKind) -> bpf_map_type {
    match kind {
        MapKind::Array | MapKind::MappedArray => bpf_map_type::BPF_MAP_TYPE_ARRAY,
        MapKind::PerCpuArray => bpf_map_type::BPF_MAP_TYPE_PERCPU_ARRAY,
        MapKind::Stack => bpf_map_type::BPF_MAP_TYPE_STACK,
        MapKind::Hash => bpf_map_type::BPF_MAP_TYPE_HASH,
        MapKind::LruHash => bpf_map_type::BPF_MAP_TYPE_LRU_HASH,
        MapKind::RingBuffer => bpf_map_type::BPF_MAP_TYPE_RINGBUF,
        MapKind::TaskStorage => bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE,
        MapKind::SocketStorage => bpf_map_type::BPF_MAP_TYPE_SK_STORAGE,
    }
}

fn planned(spec: &MapSpec) -> Attributes {
    let bytes = |size| u32::try_from(size).expect("a small type");
    Attributes {
        kind: map_type(spec.kind) as u32,
        is_mapped: spec.kind == MapKind::MappedArray,
        key: bytes(spec.key),
        value: bytes(spec.value),
        entries: match spec.entries {
            EntryCount::Fixed(entries) => Some(entries),
            _ => None,
        },
    }
}

/// As far as `spec` tells.
fn found(map: &Map, spec: &MapSpec) -> Attributes {
    Attributes {
        kind: map.map_type(),
        is_mapped: map.map_flags() & BPF_F_MMAPABLE != 0,
        key: map.key_size(),
        value: map.value_size(),
        entries: matches!(spec.entries, EntryCount::Fixed(_)).then(|| map.max_entries()),
    }
}

/// The object's map of this name, or the maps over which it is spread.
fn take(maps: &mut HashMap<String, Map>, name: &str) -> Vec<Map> {
    let Some(map) = maps.remove(name) else { return Vec::new() };
    if map.map_type() != bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS as u32 {
        return vec![map];
    }
    (0..map.max_entries()).filter_map(|at| maps.remove(&format!("{name}_{at}"))).collect()
}

#[test]
fn the_table_has_every_map_of_the_objects_and_no_other() {
    for set in PROBES.iter().flat_map(|probe| probe.sets) {
        let file = set.object.file;
        let mut maps = Object::parse(set.object.bytes).expect("a built-in object").maps;
        maps.retain(|_, map| matches!(map.section_kind(), EbpfSectionKind::Maps | EbpfSectionKind::BtfMaps));
        for spec in set.maps() {
            let of_name = take(&mut maps, spec.name);
            assert!(!of_name.is_empty(), "{file} has no map {}", spec.name);
            for map in of_name {
                assert_eq!(found(&map, spec), planned(spec), "{file}: {}", spec.name);
            }
        }
        assert!(maps.is_empty(), "{file} has more maps: {:?}", maps.keys());
    }
}
