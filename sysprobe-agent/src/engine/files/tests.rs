//! Which OOM kills are charged when a cgroup is removed, and what is counted of cgroups with and without
//! children.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::pods::PodsPlan;
use crate::snapshot::{Workload, WorkloadSample};

const POD: &str = "pod2c48913c-b29f-11e7-9350-020968147796";
const CONTAINER: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";

fn domain() -> Domain<MemoryFiles> {
    let files = MemoryFiles::new(&KeyHierarchy::V2 { root: PathBuf::from("/none") }).expect("v2 has it");
    of_files(files)
}

fn of_files<R: Read>(files: R) -> Domain<R> {
    let (seen, last, left_out) = (HashMap::new(), HashMap::new(), HashSet::new());
    Domain { files, seen, last, left_out, unreadable: 0, failed: (0, None), said: 0 }
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
    let manager = "/user.slice/user-0.slice/user@0.service".to_owned();
    for path in [format!("/kubepods/burstable/{POD}"), "/user.slice".to_owned(), manager, "/a".to_owned()] {
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

/// A hierarchy of version 2 in an ordinary directory, and what is counted of it.
struct Node {
    root: TempDir,
    tracker: CgroupTracker,
    domain: Domain<CpuFiles>,
    attribution: Attribution,
    registry: Registry,
    start: Instant,
    _runtime: tokio::runtime::Runtime,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let hierarchy = KeyHierarchy::V2 { root: root.path().to_owned() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self {
            tracker: CgroupTracker::start(root.path().to_owned(), None).expect("it is there"),
            root,
            domain: of_files(CpuFiles::new(hierarchy)),
            attribution: Attribution::start(&PodsPlan::default(), runtime.handle()),
            registry: Registry::default(),
            start: Instant::now(),
            _runtime: runtime,
        }
    }

    fn write(&self, cgroup: &str, file: &str, text: &str) {
        let directory = self.root.path().join(cgroup);
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join(file), text).expect("a file");
    }

    fn remove(&self, cgroup: &str) {
        fs::remove_dir_all(self.root.path().join(cgroup)).expect("it was there");
    }

    /// Reads all files, ten seconds after the last time; returns what a cgroup has.
    fn read(&mut self, name: &str) -> CpuSample {
        self.start += Duration::from_secs(10);
        self.tracker.update(self.start);
        for of in with_series(&self.tracker, self.start) {
            self.domain.read(self.tracker.tree(), &of, &mut self.attribution, &mut self.registry);
        }
        let samples = self.registry.samples();
        let sample = samples.into_iter().find(|sample| sample.workload.container == name);
        sample.and_then(|sample| sample.cpu).unwrap_or_default()
    }
}

/// Its totals include those of cgroups that were below it.
#[test]
fn a_slice_that_is_empty_again_is_not_charged_for_what_was_in_it() {
    let mut node = Node::new();
    node.write("x.slice", "cpu.stat", "usage_usec 0\n");
    assert_eq!(node.read("x.slice").usage_ns.unwrap_or(0), 0);
    for seconds in 1..=2 {
        node.write("x.slice/a.service", "cpu.stat", "usage_usec 1000000\n");
        node.read("a.service");
        node.write("x.slice", "cpu.stat", &format!("usage_usec {seconds}000000\n"));
        node.read("a.service");
        node.remove("x.slice/a.service");
        assert_eq!(node.read("x.slice").usage_ns.unwrap_or(0), 0, "{seconds} s of others");
    }
    node.write("x.slice", "cpu.stat", "usage_usec 2000007\n");
    assert_eq!(node.read("x.slice").usage_ns, Some(7_000), "its own");
}

/// Its totals include those of the user's units.
#[test]
fn a_users_service_manager_is_not_charged_for_the_users_units() {
    const MANAGER: &str = "user.slice/user-7.slice/user@7.service";
    let unit = format!("{MANAGER}/app.slice/a.service");
    let mut node = Node::new();
    for seconds in [0, 1] {
        node.write(MANAGER, "cpu.stat", &format!("usage_usec {seconds}000000\n"));
        node.write(&unit, "cpu.stat", &format!("usage_usec {seconds}000000\n"));
        node.read("user@7.service");
    }
    assert_eq!(node.read("user@7.service").usage_ns.unwrap_or(0), 0);
    assert_eq!(node.read("user@7.service/a.service").usage_ns, Some(1_000_000_000));
}

#[test]
fn a_limit_that_is_taken_away_is_told_no_more_and_the_time_without_one_is_not_counted() {
    let mut node = Node::new();
    node.write("x.slice/a.service", "cpu.stat", "usage_usec 0\n");
    node.write("x.slice", "cpu.stat", "usage_usec 5000000\n");
    assert_eq!(node.read("x.slice"), CpuSample::default(), "it has no limit");
    node.write("x.slice", "cpu.max", "50000 100000\n");
    assert_eq!(node.read("x.slice").quota_cores, Some(0.5));
    node.write("x.slice", "cpu.max", "max 100000\n");
    assert_eq!(node.read("x.slice").quota_cores, None);
    node.write("x.slice", "cpu.stat", "usage_usec 9000000\n");
    node.read("x.slice");
    node.write("x.slice", "cpu.max", "50000 100000\n");
    let again = node.read("x.slice");
    assert_eq!((again.quota_cores, again.usage_ns.unwrap_or(0)), (Some(0.5), 0));
}
