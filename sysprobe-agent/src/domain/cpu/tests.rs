//! Reading one cgroup: paths, and deleted cgroups.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::cgroup::parse::ParseError;

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

fn v2(root: &TempDir) -> CpuFiles {
    CpuFiles::new(KeyHierarchy::V2 { root: root.path().to_owned() })
}

fn v1(root: &TempDir, cpu: &str, cpuacct: Option<&str>) -> CpuFiles {
    let cpuacct = cpuacct.map(|cpuacct| root.path().join(cpuacct));
    CpuFiles::new(KeyHierarchy::V1 { root: root.path().join(cpu), cpuacct, memory: None })
}

const V2_STAT: &str = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n\
    nr_periods 30\nnr_throttled 10\nthrottled_usec 700000\n";
const V1_STAT: &str = "nr_periods 30\nnr_throttled 10\nthrottled_time 700000000\n";
const THROTTLING: Throttling = Throttling { periods: 30, throttled_periods: 10, throttled_ns: 700_000_000 };

#[test]
fn a_limited_v2_container_has_everything() {
    let root = tree(&[
        ("kubepods/pod1/cpu.stat", V2_STAT),
        ("kubepods/pod1/cpu.max", "150000 100000\n"),
        ("kubepods/pod1/cpu.max.burst", "20000\n"),
        ("kubepods/pod1/cpu.weight", "39\n"),
    ]);
    let sample = v2(&root).read("/kubepods/pod1").expect("readable");
    assert_eq!(
        sample,
        Some(CpuSample {
            usage_ns: Some(2_500_000_000),
            throttling: Some(THROTTLING),
            quota_cores: Some(1.5),
            period_us: Some(100_000),
            burst_us: Some(20_000),
            weight: Some(39),
        })
    );
}

#[test]
fn no_limit_on_v2_still_has_a_period_and_no_burst_file_before_5_14() {
    let root = tree(&[("a/cpu.stat", V2_STAT), ("a/cpu.max", "max 100000\n"), ("a/cpu.weight", "100\n")]);
    let sample = v2(&root).read("/a").expect("readable").expect("there");
    assert_eq!((sample.quota_cores, sample.period_us, sample.burst_us), (None, Some(100_000), None));
}

#[test]
fn a_v2_cgroup_without_the_controller_and_the_root_have_usage_only() {
    let root = tree(&[("cpu.stat", "usage_usec 7\n"), ("leaf/cpu.stat", "usage_usec 7\n")]);
    let usage_only = CpuSample { usage_ns: Some(7000), ..CpuSample::default() };
    let mut files = v2(&root);
    for cgroup in ["/", "/leaf"] {
        assert_eq!(files.read(cgroup).expect("readable"), Some(usage_only.clone()), "{cgroup}");
    }
}

#[test]
fn the_v2_root_before_5_8_exists_though_it_has_no_file() {
    let root = tree(&[]);
    assert_eq!(v2(&root).read("/").expect("readable"), Some(CpuSample::default()));
}

#[test]
fn a_cgroup_that_has_gone_is_none() {
    let root = tree(&[("cpu/a/cpu.stat", V1_STAT)]);
    assert_eq!(v2(&root).read("/gone/deeper").expect("no error"), None);
    assert_eq!(v1(&root, "cpu", Some("cpu")).read("/gone").expect("no error"), None);
}

#[test]
fn v1_takes_usage_from_the_cpuacct_hierarchy() {
    let root = tree(&[
        ("cpu/docker/1/cpu.stat", V1_STAT),
        ("cpu/docker/1/cpu.cfs_quota_us", "50000\n"),
        ("cpu/docker/1/cpu.cfs_period_us", "100000\n"),
        ("cpu/docker/1/cpu.cfs_burst_us", "0\n"),
        ("cpu/docker/1/cpu.shares", "1024\n"),
        ("cpuacct/docker/1/cpuacct.usage", "423849584637\n"),
    ]);
    let expected = CpuSample {
        usage_ns: Some(423_849_584_637),
        throttling: Some(THROTTLING),
        quota_cores: Some(0.5),
        period_us: Some(100_000),
        burst_us: Some(0),
        weight: Some(39),
    };
    let sample = v1(&root, "cpu", Some("cpuacct")).read("/docker/1").expect("readable");
    assert_eq!(sample, Some(expected.clone()));
    let sample = v1(&root, "cpu", None).read("/docker/1").expect("readable");
    assert_eq!(sample, Some(CpuSample { usage_ns: None, ..expected }));
}

#[test]
fn v1_has_usage_beside_the_rest_where_the_controllers_share_a_hierarchy() {
    let root = tree(&[
        ("cpu,cpuacct/a/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
        ("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"),
        ("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
        ("cpu,cpuacct/a/cpu.shares", "2\n"),
        ("cpu,cpuacct/a/cpuacct.usage", "12\n"),
    ]);
    let sample = v1(&root, "cpu,cpuacct", Some("cpu,cpuacct")).read("/a").expect("readable");
    assert_eq!(
        sample,
        Some(CpuSample {
            usage_ns: Some(12),
            throttling: Some(Throttling::default()),
            quota_cores: None,
            period_us: Some(100_000),
            burst_us: None,
            weight: Some(1),
        })
    );
}

#[test]
fn a_path_cannot_leave_the_hierarchy() {
    let root = tree(&[("inside/cpu.stat", V2_STAT), ("outside/cpu.stat", V2_STAT)]);
    let mut files = CpuFiles::new(KeyHierarchy::V2 { root: root.path().join("inside") });
    let absolute = root.path().join("outside");
    for cgroup in ["/../outside", "/a/../../outside", "..", "", "outside", "/.."] {
        assert!(files.read(cgroup).is_err(), "{cgroup}");
    }
    assert_eq!(files.read(&format!("/{}", absolute.display())).expect("no error"), None);
}

#[test]
fn names_with_dots_that_are_not_the_parent_are_read() {
    let root = tree(&[("..a/b../cpu.stat", "usage_usec 1\n")]);
    assert!(v2(&root).read("/..a/b..").expect("readable").is_some());
}

#[test]
fn an_unreadable_number_names_the_cgroup_and_the_file() {
    let root = tree(&[("a/cpu.stat", V2_STAT), ("a/cpu.weight", "heavy\n")]);
    let error = v2(&root).read("/a").expect_err("no number");
    assert_eq!(
        format!("{error:#}"),
        "reading the CPU files of cgroup `/a`: `cpu.weight`, line 1: expected a number, found `heavy`"
    );
    assert!(error.downcast_ref::<ParseError>().is_some());
}

#[test]
fn one_reader_serves_many_cgroups_without_mixing_them() {
    let root = tree(&[
        ("a/cpu.stat", V2_STAT),
        ("a/cpu.max", "150000 100000\n"),
        ("b/cpu.stat", "usage_usec 1\n"),
        ("c/cpu.stat", ""),
    ]);
    let mut files = v2(&root);
    for _ in 0..2 {
        let usages = ["/a", "/b", "/c"].map(|cgroup| {
            let sample = files.read(cgroup).expect("readable").expect("there");
            (sample.usage_ns, sample.quota_cores)
        });
        assert_eq!(usages, [(Some(2_500_000_000), Some(1.5)), (Some(1000), None), (None, None)]);
    }
}

#[test]
fn the_root_of_the_hierarchy_is_where_it_is_mounted() {
    let hierarchy =
        KeyHierarchy::V1 { root: PathBuf::from("/sys/fs/cgroup/cpu"), cpuacct: None, memory: None };
    assert_eq!(hierarchy.root(), Path::new("/sys/fs/cgroup/cpu"));
}
