//! Which OOM kills are charged when a cgroup is removed.

use std::path::PathBuf;

use super::*;
use crate::cgroup::tree::Origin;
use crate::snapshot::{Workload, WorkloadSample};

const POD: &str = "pod2c48913c-b29f-11e7-9350-020968147796";
const CONTAINER: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";

fn domain() -> Domain<MemoryFiles> {
    let files = MemoryFiles::new(&KeyHierarchy::V2 { root: PathBuf::from("/none") }).expect("v2 has it");
    let (seen, last) = (HashMap::new(), HashMap::new());
    Domain { files, seen, last, unreadable: 0, failed: (0, None), said: 0 }
}

/// A cgroup that was removed after three kills.
fn removed(path: &str) -> Cgroup {
    let mut cgroup = Cgroup::of_path(path, Instant::now());
    cgroup.oom_kills = Some(3);
    cgroup
}

/// The kills that are charged if `read` is what the last reading of the cgroup's files said.
fn slot_tables(cgroup: &Cgroup, read: Option<u64>) -> Option<LastKills> {
    let mut domain = domain();
    if let Some(kills) = read {
        let sample = MemorySample { oom_kills: Some(kills), ..MemorySample::default() };
        let mut nowhere = WorkloadSample::new(Workload::default(), WorkloadKind::Unknown);
        let mut seen = sample.first_seen(Origin::Born);
        sample.add_to(&mut nowhere, &mut seen);
        domain.seen.insert(7, seen);
    }
    domain.last_kills(7, cgroup)
}

#[test]
fn kills_that_no_reading_has_counted_are_charged_once() {
    for path in [
        format!("/kubepods/burstable/{POD}/{CONTAINER}"),
        format!("/kubepods.slice/cri-containerd-{CONTAINER}.scope"),
        "/system.slice/nginx.service".to_owned(),
        "/a".to_owned(),
    ] {
        let cgroup = removed(&path);
        assert_eq!(slot_tables(&cgroup, None), Some(LastKills::of(3)), "{path}: never read");
        assert_eq!(slot_tables(&cgroup, Some(2)), Some(LastKills::of(1)), "{path}: read after two");
        assert_eq!(slot_tables(&cgroup, Some(3)), None, "{path}: all are counted");
    }
}

/// Its number would include those of the cgroups below it, which have series of their own.
#[test]
fn what_groups_others_is_charged_only_if_it_was_read() {
    for path in [format!("/kubepods/burstable/{POD}"), "/user.slice".to_owned(), "/a".to_owned()] {
        let mut cgroup = removed(&path);
        cgroup.is_parent = true;
        assert_eq!(slot_tables(&cgroup, None), None, "{path}: without a limit");
        assert_eq!(slot_tables(&cgroup, Some(2)), Some(LastKills::of(1)), "{path}: with a limit");
    }
}

#[test]
fn a_part_of_a_container_is_not_charged() {
    let part = removed(&format!("/kubepods/burstable/{POD}/{CONTAINER}/init.scope"));
    assert_eq!(slot_tables(&part, None), None, "the container's number includes it");
}

#[test]
fn what_may_be_older_than_the_agent_is_its_baseline() {
    let mut older = removed("/a");
    older.origin = Origin::Older;
    assert_eq!(slot_tables(&older, None), None);
}

#[test]
fn a_removal_that_does_not_tell_charges_nothing() {
    let mut untold = removed("/a");
    untold.oom_kills = None;
    assert_eq!(slot_tables(&untold, Some(1)), None);
}
