//! The memory files of both versions: complete, incomplete and malformed.

use std::fs;

use tempfile::TempDir;

use super::*;

/// A directory with files, each given as its path and its text.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a directory for temporary files");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    root
}

fn v2(root: &TempDir) -> MemoryFiles {
    MemoryFiles::new(&KeyHierarchy::V2 { root: root.path().to_owned() }).expect("v2 has all in one")
}

fn v1(root: &TempDir) -> MemoryFiles {
    let at = |controller| root.path().join(controller);
    let key = KeyHierarchy::V1 { root: at("cpu"), cpuacct: None, memory: Some(at("memory")) };
    MemoryFiles::new(&key).expect("there is a hierarchy for it")
}

fn sample(usage_bytes: u64, working_set_bytes: u64, limit_bytes: Option<u64>) -> MemorySample {
    MemorySample {
        levels: Some(MemoryLevels { usage_bytes, working_set_bytes, limit_bytes }),
        oom_kills: Some(3),
        major_faults: Some(17),
    }
}

const V2_STAT: &str =
    "anon 5000\nfile 3000\nactive_anon 1\ninactive_file 2000\nactive_file 1000\npgfault 99\npgmajfault 17\n";
const V2_EVENTS: &str = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 1\n";
/// The cgroup's own values precede the hierarchical ones.
const V1_STAT: &str = "cache 1\ninactive_file 1\npgmajfault 1\nhierarchical_memory_limit \
                       9223372036854771712\n\
    total_cache 1\ntotal_pgmajfault 17\ntotal_inactive_file 2000\ntotal_active_file 1\n";
const V1_OOM: &str = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";

fn v2_files(limit: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("a/memory.max", limit),
        ("a/memory.current", "8000\n"),
        ("a/memory.events", V2_EVENTS),
        ("a/memory.stat", V2_STAT),
    ]
}

fn v1_files(limit: &'static str, usage: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("memory/a/memory.limit_in_bytes", limit),
        ("memory/a/memory.usage_in_bytes", usage),
        ("memory/a/memory.oom_control", V1_OOM),
        ("memory/a/memory.stat", V1_STAT),
    ]
}

#[test]
fn v2_is_read_with_and_without_a_limit() {
    for (limit, expected) in [("max\n", None), ("16384\n", Some(16_384))] {
        let root = tree(&v2_files(limit));
        let read = v2(&root).read("/a", Place::Workload).expect("readable");
        assert_eq!(read, Some(sample(8000, 6000, expected)));
    }
}

#[test]
fn v1_is_read_from_the_controllers_own_hierarchy_and_its_huge_number_is_no_limit() {
    // Pages of 4 KiB, and of 64 KiB.
    let unlimited = ["9223372036854771712\n", "9223372036854710272\n"];
    for (limit, expected) in [(unlimited[0], None), (unlimited[1], None), ("16384\n", Some(16_384))] {
        let root = tree(&v1_files(limit, "8000\n"));
        let read = v1(&root).read("/a", Place::Workload).expect("readable");
        assert_eq!(read, Some(sample(8000, 6000, expected)));
    }
    let key = KeyHierarchy::V1 { root: "/sys/fs/cgroup/cpu".into(), cpuacct: None, memory: None };
    assert!(MemoryFiles::new(&key).is_none());
}

#[test]
fn a_working_set_is_never_below_zero() {
    // Usage is charged ahead in batches, and statistics lag behind.
    let root = tree(&v1_files("16384\n", "1500\n"));
    let read = v1(&root).read("/a", Place::Workload).expect("readable");
    assert_eq!(read, Some(sample(1500, 0, Some(16_384))));
}

#[test]
fn what_holds_others_together_is_read_only_for_its_own_limit() {
    for place in [Place::Pod, Place::Inner] {
        let root = tree(&v2_files("max\n"));
        assert_eq!(v2(&root).read("/a", place).expect("readable"), None);
        let root = tree(&v2_files("16384\n"));
        assert!(v2(&root).read("/a", place).expect("readable").is_some());
    }
}

#[test]
fn a_cgroup_that_has_gone_or_lacks_the_controller_is_none() {
    let root = tree(&[("a/cgroup.procs", "")]);
    assert_eq!(v2(&root).read("/a", Place::Workload).expect("no error"), None);
    assert_eq!(v2(&root).read("/gone", Place::Workload).expect("no error"), None);
    assert_eq!(v1(&root).read("/gone", Place::Workload).expect("no error"), None);
    // Deleted while it was read.
    let root = tree(&v2_files("max\n")[..3]);
    assert_eq!(v2(&root).read("/a", Place::Workload).expect("no error"), None);
}

#[test]
fn keys_that_are_absent_are_no_zeros() {
    let root = tree(&[
        ("a/memory.max", "max\n"),
        ("a/memory.current", "8000\n"),
        ("a/memory.events", "low 0\n"),
        ("a/memory.stat", "anon 1\n"),
    ]);
    let read = v2(&root).read("/a", Place::Workload).expect("readable").expect("there");
    assert_eq!((read.oom_kills, read.major_faults), (None, None));
    assert_eq!(read.levels.map(|levels| levels.working_set_bytes), Some(8000), "all of it may be in use");
}

#[test]
fn what_is_no_number_names_the_cgroup_and_the_file() {
    let cases = [
        (0, "a/memory.max", "much\n", "`memory.max`, line 1: expected a number, found `much`"),
        (1, "a/memory.current", "-1\n", "`memory.current`, line 1: expected a number, found `-1`"),
        (
            2,
            "a/memory.events",
            "low 0\noom_kill\n",
            "`memory.events`, line 2: expected a key and a number, found `oom_kill`",
        ),
        (
            3,
            "a/memory.stat",
            "pgmajfault x\n",
            "`memory.stat`, line 1: expected a key and a number, found `pgmajfault x`",
        ),
    ];
    for (at, path, text, says) in cases {
        let mut files = v2_files("max\n");
        files[at] = (path, text);
        let error = v2(&tree(&files)).read("/a", Place::Workload).expect_err(path);
        assert_eq!(format!("{error:#}"), format!("reading the memory files of cgroup `/a`: {says}"));
    }
}

#[test]
fn a_path_cannot_leave_the_hierarchy() {
    let root = tree(&v2_files("max\n"));
    for cgroup in ["/../a", "a", "", "/a/../a"] {
        assert!(v2(&root).read(cgroup, Place::Workload).is_err(), "{cgroup}");
    }
}
