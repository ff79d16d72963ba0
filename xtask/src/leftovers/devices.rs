//! Block devices of tests and their mounts, in the order of removal: mounts, device mapper, loop devices,
//! `null_blk`.

use std::fs;
use std::path::{Path, PathBuf};

use super::{is_left_over, printed, succeeds};

pub(super) fn remove() -> Vec<String> {
    let steps: [fn() -> Vec<String>; 4] = [mounts, mapped, loops, null_devices];
    steps.into_iter().flat_map(|remove| remove()).collect()
}

/// Thaws frozen file systems. On a file system that is not frozen, the command fails without effect.
pub(super) fn thaw() {
    for point in mount_points() {
        succeeds("fsfreeze", &["--unfreeze", &point]);
    }
}

/// The latest mounts first: they may be on top of others.
fn mount_points() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    points.into_iter().rev().filter(|point| is_left_over(point)).map(str::to_owned).collect()
}

fn mounts() -> Vec<String> {
    let ours = mount_points().into_iter();
    ours.filter(|point| succeeds("umount", &["--lazy", point]))
        .map(|point| format!("mount {point}"))
        .collect()
}

fn mapped() -> Vec<String> {
    let devices = printed("dmsetup", &["ls"]);
    let names =
        devices.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| is_left_over(name));
    names
        .filter(|name| succeeds("dmsetup", &["remove", "--force", name]))
        .map(|name| format!("device {name} of the device mapper"))
        .collect()
}

fn loops() -> Vec<String> {
    let devices = printed("losetup", &["--list", "--noheadings", "--output", "NAME,BACK-FILE"]);
    let fields = devices.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    let ours = fields.filter(|(_, file)| is_left_over(file));
    ours.filter(|(name, _)| succeeds("losetup", &["--detach", name]))
        .map(|(name, _)| format!("device {name}"))
        .collect()
}

fn null_devices() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/kernel/config/nullb") else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let ours = paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_left_over));
    let gone = |path: &PathBuf| turned_off(path) && fs::remove_dir(path).is_ok();
    ours.filter(gone).map(|path| format!("device {}", path.display())).collect()
}

fn turned_off(device: &Path) -> bool {
    fs::write(device.join("power"), "0").is_ok()
}
