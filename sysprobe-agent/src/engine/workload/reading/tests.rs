//! Readings of cgroups, added up by workload.

use super::*;
use crate::cgroup::name::name_of;
use crate::domain::slots::Charge as _;
use crate::engine::workload::{Owner, Registry};
use crate::snapshot::MemoryLevels;

/// For a cgroup that was created while the agent ran.
fn new<S: AllSeen>() -> S {
    S::all(Seen(Some(0)))
}

fn owner() -> Owner {
    Owner::of_path(&name_of("/a"))
}

fn memory(usage_bytes: u64, limit_bytes: Option<u64>, oom_kills: u64) -> MemorySample {
    let levels = MemoryLevels { usage_bytes, working_set_bytes: usage_bytes / 2, limit_bytes };
    MemorySample { levels: Some(levels), oom_kills: Some(oom_kills), major_faults: None }
}

fn of(registry: &Registry) -> MemorySample {
    registry.samples()[0].memory.clone().expect("has memory")
}

#[test]
fn a_cgroup_takes_its_levels_along_and_leaves_its_totals() {
    let mut registry = Registry::default();
    let (mut first, mut second) = (new::<MemorySeen>(), new::<MemorySeen>());
    registry.add_reading(&owner(), &memory(100, Some(1000), 2), &mut first);
    registry.add_reading(&owner(), &memory(40, Some(500), 1), &mut second);
    let both = MemoryLevels { usage_bytes: 140, working_set_bytes: 70, limit_bytes: Some(1500) };
    assert_eq!((of(&registry).levels, of(&registry).oom_kills), (Some(both), Some(3)));

    // The first cgroup was deleted.
    registry.forget_memory_levels();
    registry.add_reading(&owner(), &memory(60, None, 1), &mut second);
    let one = MemoryLevels { usage_bytes: 60, working_set_bytes: 30, limit_bytes: None };
    assert_eq!((of(&registry).levels, of(&registry).oom_kills), (Some(one), Some(3)));

    // A new one counts from zero.
    registry.forget_memory_levels();
    registry.add_reading(&owner(), &memory(5, Some(1000), 4), &mut new::<MemorySeen>());
    assert_eq!((of(&registry).oom_kills, of(&registry).major_faults), (Some(7), None));

    registry.forget_memory_levels();
    assert_eq!((of(&registry).levels, of(&registry).oom_kills), (None, Some(7)));
}

#[test]
fn a_removed_cgroup_adds_the_kills_that_no_reading_has_counted() {
    let mut registry = Registry::default();
    let mut seen = new::<MemorySeen>();
    registry.add_reading(&owner(), &memory(100, None, 2), &mut seen);
    registry.forget_memory_levels();
    registry.add(&owner(), &seen.last_kills(3));
    assert_eq!((of(&registry).levels, of(&registry).oom_kills), (None, Some(3)));
    assert!(seen.last_kills(3).is_idle(), "all are counted");

    // Never read, and created while the agent ran or before.
    registry.add(&owner(), &new::<MemorySeen>().last_kills(1));
    registry.add(&owner(), &MemorySeen::all(Seen(None)).last_kills(5));
    assert_eq!(of(&registry).oom_kills, Some(4));
}

#[test]
fn one_of_several_without_a_limit_leaves_the_workload_without() {
    let mut registry = Registry::default();
    for limit in [Some(1000), None, Some(1000)] {
        registry.add_reading(&owner(), &memory(1, limit, 0), &mut new::<MemorySeen>());
    }
    assert_eq!(of(&registry).levels.map(|levels| (levels.usage_bytes, levels.limit_bytes)), Some((3, None)));
}

#[test]
fn a_total_that_is_a_little_less_for_a_moment_is_not_counted_twice() {
    let (mut total, mut seen) = (0, Seen(Some(0)));
    for now in [100, 98, 100, 103] {
        seen.add_to(&mut total, now);
    }
    assert_eq!(total, 103);
}

#[test]
fn pressure_is_added_by_resource() {
    let stall = |waiting, stalled| StallSample { waiting_ns: Some(waiting), stalled_ns: stalled };
    let mut registry = Registry::default();
    let mut seen = new::<PressureSeen>();
    for times in 1..=2 {
        let now = PressureSample {
            cpu: stall(times, None),
            memory: stall(10 * times, Some(times)),
            io: StallSample::default(),
        };
        registry.add_reading(&owner(), &now, &mut seen);
    }
    let expected =
        PressureSample { cpu: stall(2, None), memory: stall(20, Some(2)), io: StallSample::default() };
    assert_eq!(registry.samples()[0].pressure, Some(expected));
}

#[test]
fn what_an_older_cgroup_did_before_is_not_added_and_what_a_new_one_did_is() {
    for (origin, first) in [(Origin::Older, 0), (Origin::Born, 2)] {
        let mut registry = Registry::default();
        let at_start = memory(100, None, 2);
        let mut seen = at_start.first_seen(origin);
        registry.add_reading(&owner(), &at_start, &mut seen);
        assert_eq!(of(&registry).oom_kills, Some(first), "{origin:?}");
        registry.add_reading(&owner(), &memory(100, None, 5), &mut seen);
        assert_eq!(of(&registry).oom_kills, Some(first + 3), "{origin:?}");
    }
}

#[test]
fn a_total_of_an_older_cgroup_that_is_told_later_begins_at_its_first_reading() {
    let mut registry = Registry::default();
    let pressure = |waiting_ns| PressureSample {
        io: StallSample { waiting_ns, stalled_ns: None },
        ..PressureSample::default()
    };
    // The kernel was configured not to report it at first.
    let mut seen = pressure(None).first_seen(Origin::Older);
    for waiting in [None, Some(700), Some(750)] {
        registry.add_reading(&owner(), &pressure(waiting), &mut seen);
    }
    let io = registry.samples()[0].pressure.as_ref().map(|pressure| pressure.io.waiting_ns);
    assert_eq!(io, Some(Some(50)));
}
