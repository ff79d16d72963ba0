//! Block devices of a test's own: a file in memory by a loop device, and on it what the device mapper makes
//! of that. Gone at the end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use super::storage::{Kind, Storage, clean_up, run};

/// A loop device over a file in memory.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) path: PathBuf,
    pub(crate) memory: Storage,
}

impl Loop {
    pub(crate) fn new(bytes: u64) -> Self {
        Self::with_room(bytes, bytes)
    }

    /// Of which no more can be written than so many bytes.
    pub(crate) fn with_room(bytes: u64, room: u64) -> Self {
        let memory = Storage::of(Kind::Tmpfs, room);
        let image = memory.path().join("image");
        File::create(&image).and_then(|file| file.set_len(bytes)).expect("an image");
        let path = run(Command::new("losetup").args(["--find", "--show"]).arg(&image));
        Self { path: PathBuf::from(path.trim()), memory }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The kernel detaches it as soon as no process has it open any more.
        clean_up(Command::new("losetup").arg("--detach").arg(&self.path));
    }
}

/// Blocks of 512 bytes, in which tables of the device mapper count.
pub(crate) const SECTOR: u64 = 512;

/// A device of the device mapper's over a loop device.
#[derive(Debug)]
pub(crate) struct Mapped {
    name: String,
    sectors: u64,
    below: Loop,
}

impl Mapped {
    /// One that does what the device below does. `None` where the kernel has no device mapper.
    pub(crate) fn new(name: &str, bytes: u64) -> Option<Self> {
        if !has_mapper() {
            return None;
        }
        let name = format!("sysprobe-test-{}-{name}", process::id());
        let device = Self { name, sectors: bytes / SECTOR, below: Loop::new(bytes) };
        device.control(&["create"], Some(&device.same(0, device.sectors)));
        Some(device)
    }

    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(&self.name)
    }

    /// Has every access to these blocks fail.
    pub(crate) fn fail(&self, start: u64, sectors: u64) {
        let end = start + sectors;
        let before = if start > 0 { self.same(0, start) } else { String::new() };
        let after = if end < self.sectors { self.same(end, self.sectors - end) } else { String::new() };
        self.become_(&format!("{before}{start} {sectors} error\n{after}"));
    }

    /// The same for all of it.
    pub(crate) fn fail_all(&self) {
        self.fail(0, self.sectors);
    }

    /// Has everything work again.
    pub(crate) fn mend(&self) {
        self.become_(&self.same(0, self.sectors));
    }

    /// Has every reading take so long.
    pub(crate) fn delay(&self, milliseconds: u64) {
        let (sectors, below) = (self.sectors, self.below.path.display());
        self.become_(&format!("0 {sectors} delay {below} 0 {milliseconds} {below} 0 0\n"));
    }

    fn same(&self, start: u64, sectors: u64) -> String {
        format!("{start} {sectors} linear {} {start}\n", self.below.path.display())
    }

    fn become_(&self, table: &str) {
        self.control(&["load"], Some(table));
        self.control(&["resume"], None);
    }

    /// Without a daemon that makes the device's node, dmsetup makes it by itself.
    fn control(&self, command: &[&str], table: Option<&str>) {
        let mut dmsetup = Command::new("dmsetup");
        dmsetup.args(command).arg(&self.name).env("DM_DISABLE_UDEV", "1");
        let stdin = if table.is_some() { Stdio::piped() } else { Stdio::null() };
        let started = dmsetup.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = started.expect("dmsetup can be started");
        if let (Some(table), Some(mut input)) = (table, child.stdin.take()) {
            input.write_all(table.as_bytes()).expect("dmsetup reads the table");
        }
        let output = child.wait_with_output().expect("dmsetup ends");
        assert!(output.status.success(), "{dmsetup:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Whether the kernel has a device mapper, be it as a module that is not loaded yet.
fn has_mapper() -> bool {
    // It may be built in, or this kernel may have no modules: the list of devices decides.
    drop(Command::new("modprobe").arg("dm_mod").output());
    let devices = fs::read_to_string("/proc/misc").expect("the kernel lists its devices");
    devices.lines().any(|line| line.ends_with(" device-mapper"))
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Deferred until a file system that was unmounted lazily has let go of it.
        self.control(&["remove", "--deferred"], None);
    }
}
