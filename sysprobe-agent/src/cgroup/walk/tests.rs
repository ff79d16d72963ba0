//! Walks over made trees, with holes in them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::*;

fn tree(directories: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory for temporary files");
    for directory in directories {
        fs::create_dir_all(root.path().join(directory)).expect("a directory");
    }
    root
}

fn by_path(walk: &Walk) -> BTreeMap<&str, u64> {
    walk.found.iter().map(|found| (found.path.as_str(), found.id)).collect()
}

#[test]
fn finds_every_directory_by_its_inode_and_no_file() {
    let root = tree(&["a/b/c", "a/d", "e"]);
    fs::write(root.path().join("a/cpu.stat"), "").expect("a file");
    let walk = walk(root.path()).expect("readable");
    let found = by_path(&walk);
    let paths: Vec<&str> = found.keys().copied().collect();
    assert_eq!(paths, ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/e"]);
    for (path, id) in found {
        let metadata = fs::metadata(root.path().join(&path[1..])).expect("there");
        assert_eq!(id, metadata.ino(), "{path}");
    }
    assert_eq!((walk.found[0].path.as_str(), walk.unreadable), ("/", 0));
}

#[test]
fn parents_come_before_their_children() {
    let root = tree(&["a/b/c/d", "a/x/y", "z/a/b"]);
    let walk = walk(root.path()).expect("readable");
    let position = |path: &str| walk.found.iter().position(|found| found.path == path);
    for found in &walk.found[1..] {
        let (parent, _) = found.path.rsplit_once('/').expect("a path");
        let parent = if parent.is_empty() { "/" } else { parent };
        assert!(position(parent) < position(&found.path), "{}", found.path);
    }
}

#[test]
fn symbolic_links_are_not_followed_below_the_root_which_may_be_one() {
    let root = tree(&["cpu,cpuacct/a"]);
    symlink(root.path(), root.path().join("cpu,cpuacct/a/loop")).expect("a link");
    symlink("cpu,cpuacct", root.path().join("cpu")).expect("a link");
    let walk = walk(&root.path().join("cpu")).expect("readable");
    assert_eq!(by_path(&walk).into_keys().collect::<Vec<_>>(), ["/", "/a"]);
}

#[test]
fn names_that_are_no_text_are_found_all_the_same() {
    let root = tree(&[]);
    let name = OsStr::from_bytes(b"not\xff text");
    fs::create_dir_all(root.path().join(name).join("child")).expect("a directory");
    let walk = walk(root.path()).expect("readable");
    let paths: Vec<&str> = by_path(&walk).into_keys().collect();
    assert_eq!(paths, ["/", "/not\u{fffd} text", "/not\u{fffd} text/child"]);
}

#[test]
fn a_missing_root_is_an_error_that_names_it() {
    let error = walk(Path::new("/nonexistent/cgroup")).expect_err("no such directory");
    assert!(format!("{error:#}").starts_with("listing the cgroups in `/nonexistent/cgroup`: "), "{error:#}");
}

#[test]
fn a_tree_may_vanish_during_the_walk() {
    let names: Vec<String> = (0..50).map(|name| format!("{name}/sub/deep")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let root = tree(&names);
    let pending: Vec<Pending> = (0..50)
        .map(|name| Pending { directory: root.path().join(name.to_string()), path: format!("/{name}") })
        .collect();
    for name in 0..50 {
        fs::remove_dir_all(root.path().join(name.to_string())).expect("removable");
    }
    let device = fs::metadata(root.path()).expect("there").dev();
    let mut walk = Walk::default();
    for gone in &pending {
        let error = walk.list(gone, device, &mut Vec::new()).expect_err("gone");
        assert!(is_gone(&error));
    }
    assert_eq!(walk, Walk::default());
}

#[test]
fn what_cannot_be_listed_is_counted_and_the_rest_found() {
    let root = tree(&["open/child", "too/long"]);
    // Below 20 names of 250 characters a path is longer than the 4096 that the system takes.
    let name = "n".repeat(250);
    let mut directory = root.path().join("too/long");
    for _ in 0..14 {
        directory.push(&name);
    }
    fs::create_dir_all(&directory).expect("a directory");
    std::process::Command::new("sh")
        .current_dir(&directory)
        .args(["-c", &format!("for i in 1 2 3 4; do mkdir {name} && cd -P {name}; done")])
        .status()
        .expect("a shell");
    let walk = walk(root.path()).expect("readable");
    assert_eq!(walk.unreadable, 1);
    assert!(walk.found.iter().any(|found| found.path == "/open/child"));
    std::process::Command::new("rm").arg("-rf").arg(root.path()).status().expect("removed");
}

#[test]
fn ten_thousand_are_found() {
    let root = tree(&[]);
    for group in 0..100 {
        for leaf in 0..99 {
            fs::create_dir_all(root.path().join(format!("{group}/{leaf}"))).expect("a directory");
        }
    }
    assert_eq!(walk(root.path()).expect("readable").found.len(), 1 + 100 * 100);
}
