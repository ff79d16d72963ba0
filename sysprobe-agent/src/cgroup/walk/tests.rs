//! Walks over synthetic trees, with unreadable parts.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsStr};
use std::fs::Permissions;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::heap_meter;

fn tree(directories: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory for temporary files");
    for directory in directories {
        fs::create_dir_all(root.path().join(directory)).expect("a directory");
    }
    root
}

/// Ids by path. Paths are built from the names; parents come before their children.
fn by_path(walk: &Walk) -> BTreeMap<String, u64> {
    let mut paths: HashMap<u64, String> = HashMap::new();
    for found in &walk.found {
        let path = match paths.get(&found.parent) {
            Some(parent) => format!("{parent}/{}", found.name),
            None => String::new(),
        };
        assert_eq!(path.is_empty(), found.parent == 0, "{found:?} comes after its parent");
        paths.insert(found.id, path);
    }
    paths.into_iter().map(|(id, path)| (path, id)).collect()
}

fn paths(walk: &Walk) -> Vec<String> {
    by_path(walk).into_keys().collect()
}

#[test]
fn finds_every_directory_by_its_inode_and_no_file() {
    let root = tree(&["a/b/c", "a/d", "e"]);
    fs::write(root.path().join("a/cpu.stat"), "").expect("a file");
    let walk = walk(root.path()).expect("readable");
    assert_eq!(paths(&walk), ["", "/a", "/a/b", "/a/b/c", "/a/d", "/e"]);
    for (path, id) in by_path(&walk) {
        let metadata = fs::metadata(root.path().join(path.trim_start_matches('/'))).expect("there");
        assert_eq!(id, metadata.ino(), "{path}");
    }
    assert_eq!(walk.unreadable, 0);
}

#[test]
fn symbolic_links_are_not_followed_below_the_root_which_may_be_one() {
    let root = tree(&["cpu,cpuacct/a"]);
    symlink(root.path(), root.path().join("cpu,cpuacct/a/loop")).expect("a link");
    symlink("cpu,cpuacct", root.path().join("cpu")).expect("a link");
    let walk = walk(&root.path().join("cpu")).expect("readable");
    assert_eq!(paths(&walk), ["", "/a"]);
}

#[test]
fn names_that_are_no_text_are_found_all_the_same() {
    let root = tree(&[]);
    let name = OsStr::from_bytes(b"not\xff text");
    fs::create_dir_all(root.path().join(name).join("child")).expect("a directory");
    let walk = walk(root.path()).expect("readable");
    assert_eq!(paths(&walk), ["", "/not\u{fffd} text", "/not\u{fffd} text/child"]);
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
        .map(|name| Pending { id: name, directory: root.path().join(name.to_string()), from: None })
        .collect();
    for name in 0..50 {
        fs::remove_dir_all(root.path().join(name.to_string())).expect("removable");
    }
    let device = fs::metadata(root.path()).expect("there").dev();
    let mut walk = Walk::default();
    for gone in pending {
        let error = walk.list(gone, device, &mut Vec::new()).expect_err("gone");
        assert!(is_gone(&error));
    }
    assert_eq!(walk, Walk::default());
}

#[test]
fn what_cannot_be_listed_is_counted_and_the_rest_found() {
    let root = tree(&["open/child", "closed/child"]);
    let closed = root.path().join("closed");
    // A temporary directory is accessible only to its owner.
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).expect("permissions");
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).expect("permissions");
    // SAFETY: it changes the user that file accesses are checked against, for this thread only. Root could
    // read everything.
    let before = unsafe { libc::setfsuid(65_534) };
    let walk = walk(root.path()).expect("readable");
    // SAFETY: as above.
    unsafe { libc::setfsuid(before.cast_unsigned()) };
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).expect("permissions");
    assert_eq!(walk.unreadable, 1);
    assert_eq!(paths(&walk), ["", "/closed", "/open", "/open/child"]);
}

/// The kernel accepts paths of 4096 bytes, but directories may be deeper.
#[test]
fn no_path_is_too_long() {
    const LEVELS: usize = 300;
    let root = tree(&["beside"]);
    let name = CString::new("n".repeat(250)).expect("no zero");
    let mut at = OwnedFd::from(File::open(root.path()).expect("there"));
    for _ in 0..LEVELS {
        // SAFETY: an open directory and a NUL-terminated name.
        let made = unsafe { libc::mkdirat(at.as_raw_fd(), name.as_ptr(), 0o700) };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
        // SAFETY: as above.
        let below = unsafe { libc::openat(at.as_raw_fd(), name.as_ptr(), libc::O_DIRECTORY) };
        assert!(below >= 0, "{}", io::Error::last_os_error());
        // SAFETY: a new descriptor without another owner.
        at = unsafe { OwnedFd::from_raw_fd(below) };
    }
    let before = heap_meter::begin();
    let walk = walk(root.path()).expect("readable");
    let taken = heap_meter::peak_since(before);
    assert_eq!((walk.found.len(), walk.unreadable), (2 + LEVELS, 0));
    let deepest = by_path(&walk).into_keys().map(|path| path.len()).max();
    assert_eq!(deepest, Some(LEVELS * 251));
    assert!(taken < 1 << 20, "{taken} bytes");
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
