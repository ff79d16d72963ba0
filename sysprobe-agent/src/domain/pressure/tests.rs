//! Pressure files: complete, of older kernels, and malformed.

use std::fs;

use tempfile::TempDir;

use super::*;

const NEW: &str = "some avg10=0.11 avg60=3.60 avg300=3.50 total=4771783509\nfull avg10=0.00 avg60=0.00 \
                   avg300=0.00 total=7\n";
const OLD: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n";

/// A hierarchy with a cgroup `a` that has these files.
fn tree(files: &[(&str, &str)]) -> (TempDir, PressureFiles) {
    let root = tempfile::tempdir().expect("a directory for temporary files");
    fs::create_dir(root.path().join("a")).expect("a directory");
    for (file, text) in files {
        fs::write(root.path().join("a").join(file), text).expect("a file");
    }
    let files = PressureFiles::new(&KeyHierarchy::V2 { root: root.path().to_owned() });
    (root, files.expect("v2 has it"))
}

#[test]
fn totals_are_nanoseconds_of_every_resource() {
    let (_root, mut files) = tree(&[(CPU, OLD), (MEMORY, NEW), (IO, NEW)]);
    let both = StallSample { waiting_ns: Some(4_771_783_509_000), stalled_ns: Some(7000) };
    let expected = PressureSample {
        cpu: StallSample { waiting_ns: Some(12_000), stalled_ns: None },
        memory: both.clone(),
        io: both,
    };
    for place in [Place::Workload, Place::Pod] {
        assert_eq!(files.read("/a", place).expect("readable").as_ref(), Some(&expected));
    }
    assert_eq!(files.read("/a", Place::Inner).expect("readable"), None);
}

#[test]
fn a_cgroup_without_pressure_and_one_that_has_gone_are_none() {
    let (_root, mut files) = tree(&[]);
    assert_eq!(files.read("/a", Place::Workload).expect("no error"), None);
    assert_eq!(files.read("/gone", Place::Workload).expect("no error"), None);
    let key = KeyHierarchy::V1 { root: "/sys/fs/cgroup/cpu".into(), cpuacct: None, memory: None };
    assert!(PressureFiles::new(&key).is_none());
}

#[test]
fn fields_may_come_in_any_order_and_others_with_them() {
    let expected = StallSample { waiting_ns: Some(5000), stalled_ns: None };
    assert_eq!(parse(IO, "some total=5 avg10=0.00 new=1\nmost total=9\n"), Ok(expected));
    assert_eq!(parse(IO, ""), Ok(StallSample::default()));
}

#[test]
fn a_line_without_a_total_names_its_file_and_place() {
    for text in
        ["some total=1\nfull avg10=0.00\n", "some total=1\nfull total=\n", "some total=1\nfull total=-1\n"]
    {
        let (_root, mut files) = tree(&[(CPU, text)]);
        let error = files.read("/a", Place::Workload).expect_err(text).to_string();
        let root = format!("{:#}", files.read("/a", Place::Workload).expect_err(text));
        assert!(
            error.contains("`/a`") && root.contains("`cpu.pressure`, line 2: expected a total"),
            "{root}"
        );
    }
}
