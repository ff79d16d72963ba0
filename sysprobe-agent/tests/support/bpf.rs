//! BPF objects: those that a process holds, and those that are built only for tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aya::maps::MapData;
use sysprobe_agent::bpf::{Loaded, Loader};
use sysprobe_agent::config::Config;
use sysprobe_agent::host::Facts;
use sysprobe_agent::probe::{AttachMode, Object, Program, ProgramSet};

/// Where `cargo xtask build` writes objects.
const OBJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/ebpf");

/// Loads an object that is built only for tests, and so is not in the agent.
pub(crate) fn load_for_test(file: &'static str, programs: &'static [Program]) -> Loaded {
    let path = Path::new(OBJECTS).join(file);
    let object = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let set: &'static ProgramSet = Box::leak(Box::new(ProgramSet {
        mode: AttachMode::RawTp,
        object: Object { file, bytes: object.leak(), maps: &[] },
        programs,
        members: &[],
        needs: &[],
    }));
    let btf = Facts::collect(&Config::default()).btf_path;
    Loader::new(Path::new(&btf)).load(set, &[], &[]).expect("the kernel takes it")
}

/// Ids of the programs and maps behind a process's descriptors, and of the maps that those programs use. The
/// kernel does not reuse an id while its object exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) programs: BTreeSet<u32>,
    pub(crate) maps: BTreeSet<u32>,
}

impl Objects {
    pub(crate) fn of_process(pid: u32) -> Self {
        let mut objects = Self::default();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process runs");
        for descriptor in descriptors.filter_map(Result::ok) {
            let text = fs::read_to_string(descriptor.path()).unwrap_or_default();
            objects.programs.extend(number(&text, "prog_id:"));
            objects.maps.extend(number(&text, "map_id:"));
        }
        // A map that is only memory-mapped has no descriptor, but its programs refer to it.
        let held = objects.programs.clone();
        let programs = aya::programs::loaded_programs().filter_map(Result::ok);
        let maps = programs.filter(|program| held.contains(&program.id()));
        objects.maps.extend(maps.filter_map(|program| program.map_ids().ok()?).flatten());
        objects
    }

    /// The only map with this name.
    pub(crate) fn map(&self, name: &str) -> MapData {
        let maps = aya::maps::loaded_maps().filter_map(Result::ok);
        let mut named = maps.filter(|map| self.maps.contains(&map.id()) && map.name_as_str() == Some(name));
        let map = named.next().unwrap_or_else(|| panic!("there is no {name}"));
        assert!(named.next().is_none(), "there are several {name}");
        MapData::from_id(map.id()).expect("it is there")
    }

    /// The objects that still exist in the kernel.
    pub(crate) fn left(&self) -> Self {
        let programs = aya::programs::loaded_programs().filter_map(|program| Some(program.ok()?.id()));
        let maps = aya::maps::loaded_maps().filter_map(|map| Some(map.ok()?.id()));
        Self {
            programs: programs.filter(|id| self.programs.contains(id)).collect(),
            maps: maps.filter(|id| self.maps.contains(id)).collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.maps.is_empty()
    }
}

fn number(text: &str, key: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}
