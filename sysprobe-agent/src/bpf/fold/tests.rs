//! On the objects that are built into the agent.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind};

use super::*;
use crate::probe::PROBES;

/// The names of an object's settings.
fn settings(object: &object::File<'_>) -> Vec<&'static str> {
    const PREFIXES: [&str; 7] = ["OFF_", "CFG_", "BIT_", "VAL_", "ARGS_", "PARAMS_", "BTF_"];
    let is_setting = |name: &&str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let names =
        object.symbols().filter_map(|symbol| symbol.name().ok().filter(is_setting).map(str::to_owned));
    names.map(|name| &*name.leak()).collect()
}

/// The objects by the names of their files.
fn objects() -> BTreeMap<&'static str, &'static [u8]> {
    let sets = PROBES.iter().flat_map(|probe| probe.sets);
    let objects: BTreeMap<_, _> = sets.map(|set| (set.object.file, set.object.bytes)).collect();
    assert!(objects.len() > 10, "{:?}", objects.keys());
    objects
}

/// The relocations of programs: section, place and symbol.
fn relocations<'a>(object: &'a object::File<'_>) -> Vec<(usize, u64, &'a str)> {
    let name_of = |target| match target {
        RelocationTarget::Symbol(symbol) => object.symbol_by_index(symbol).ok()?.name().ok(),
        _ => None,
    };
    let programs = object.sections().filter(|section| section.kind() == SectionKind::Text);
    let of_section = |section: object::Section<'a, '_>| {
        let index = section.index().0;
        let found = section.relocations();
        found.map(|(at, found)| (index, at, name_of(found.target()).unwrap_or_default())).collect::<Vec<_>>()
    };
    programs.flat_map(of_section).collect()
}

/// Those of settings.
fn loads<'a>(object: &'a object::File<'_>, settings: &[&str]) -> Vec<(usize, u64, &'a str)> {
    let mut found = relocations(object);
    found.retain(|(_, _, name)| settings.contains(name));
    found
}

/// Those of maps, functions and tables.
fn others<'a>(object: &'a object::File<'_>, settings: &[&str]) -> Vec<(usize, u64, &'a str)> {
    let mut found = relocations(object);
    found.retain(|(_, _, name)| !settings.contains(name));
    found
}

#[test]
fn nearly_all_settings_of_the_agents_objects_are_folded() {
    for (name, bytes) in objects() {
        let original = object::File::parse(bytes).expect("an object");
        let settings = settings(&original);
        let values: Vec<_> = settings.iter().map(|name| (*name, 64)).collect();
        let folded = fold(bytes, &values, &[]).expect("an object");
        assert_eq!(folded.len(), bytes.len());
        let changed = object::File::parse(&*folded).expect("still an object");
        let (before, after) = (loads(&original, &settings).len(), loads(&changed, &settings).len());
        println!("{name}: {before} loads of settings before, {after} after");
        assert_eq!(others(&original, &settings), others(&changed, &settings), "{name}");
        assert!(after * 10 <= before, "{name}: {after} of {before} are left");
        aya_obj::Object::parse(&folded).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn what_is_not_set_or_too_large_stays_a_global() {
    for (_, bytes) in objects() {
        assert_eq!(fold(bytes, &[], &[]).expect("an object"), bytes);
        assert_eq!(fold(bytes, &[("OFF_TASK_PID", u32::MAX)], &[]).expect("an object"), bytes);
    }
    assert!(fold(b"no object", &[], &[]).is_err());
}

#[test]
fn an_excepted_program_stays_as_it_is() {
    for (name, bytes) in objects() {
        let original = object::File::parse(bytes).expect("an object");
        let functions = original.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
        let functions: Vec<_> = functions.map(|symbol| symbol.name().expect("a name").to_owned()).collect();
        let all: Vec<_> = functions.iter().map(String::as_str).collect();
        let values: Vec<_> = settings(&original).into_iter().map(|name| (name, 64)).collect();
        assert_eq!(fold(bytes, &values, &all).expect("an object"), bytes, "{name}");
        let without_one = fold(bytes, &values, &all[..1]).expect("an object");
        let folded = fold(bytes, &values, &[]).expect("an object");
        assert!(all.len() == 1 || without_one != bytes, "{name}: nothing is folded without {}", all[0]);
        assert_ne!(folded, bytes, "{name}");
    }
}

#[test]
fn a_damaged_object_is_refused_or_folded() {
    let bytes = objects().into_values().min_by_key(|bytes| bytes.len()).expect("an object");
    let settings = settings(&object::File::parse(bytes).expect("an object"));
    let values: Vec<_> = settings.into_iter().map(|name| (name, 64)).collect();
    // Headers and tables have 8, 3 or 2 such words, so this step meets each of their members.
    for at in (0..bytes.len() - SIZE).step_by(SIZE * 7) {
        let mut damaged = bytes.to_vec();
        damaged[at..at + SIZE].fill(0xff);
        drop(fold(&damaged, &values, &[]));
    }
}
