//! Block devices of the test's own: a loop device over a file, and device-mapper devices on top. They are
//! removed at the end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use super::storage::{Kind, Storage, clean_up, run};

/// A loop device over a file.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) path: PathBuf,
    /// Holds the file.
    pub(crate) storage: Storage,
}

impl Loop {
    /// A device in memory.
    pub(crate) fn new(bytes: u64) -> Self {
        Self::with_room(bytes, bytes)
    }

    /// A device in memory, of which no more than `room` bytes can be written.
    pub(crate) fn with_room(bytes: u64, room: u64) -> Self {
        Self::over(Storage::of(Kind::Tmpfs, room), bytes)
    }

    pub(crate) fn over(storage: Storage, bytes: u64) -> Self {
        let image = storage.path().join("image");
        File::create(&image).and_then(|file| file.set_len(bytes)).expect("an image");
        let path = run(Command::new("losetup").args(["--find", "--show"]).arg(&image));
        Self { path: PathBuf::from(path.trim()), storage }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The kernel detaches it as soon as no process has it open.
        clean_up(Command::new("losetup").arg("--detach").arg(&self.path));
    }
}

/// The size in bytes of the blocks that device-mapper tables use.
pub(crate) const SECTOR: u64 = 512;

/// A device-mapper device over a loop device.
#[derive(Debug)]
pub(crate) struct Mapped {
    name: String,
    sectors: u64,
    below: Loop,
}

impl Mapped {
    /// Creates a device that passes everything through. `None` if the kernel has no device mapper.
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

    /// Makes every access to these blocks fail.
    pub(crate) fn fail(&self, start: u64, sectors: u64) {
        let end = start + sectors;
        let before = if start > 0 { self.same(0, start) } else { String::new() };
        let after = if end < self.sectors { self.same(end, self.sectors - end) } else { String::new() };
        self.become_(&format!("{before}{start} {sectors} error\n{after}"));
    }

    /// Makes every access fail.
    pub(crate) fn fail_all(&self) {
        self.fail(0, self.sectors);
    }

    /// Makes all accesses work again.
    pub(crate) fn mend(&self) {
        self.become_(&self.same(0, self.sectors));
    }

    /// Delays every read by this time.
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

    /// dmsetup creates the device node itself, because there may be no udev.
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

/// Whether the kernel has the device mapper, even as a module that is not loaded yet.
fn has_mapper() -> bool {
    // It may be built in, or this kernel may have no modules: the list of devices decides.
    drop(Command::new("modprobe").arg("dm_mod").output());
    let devices = fs::read_to_string("/proc/misc").expect("the kernel lists its devices");
    devices.lines().any(|line| line.ends_with(" device-mapper"))
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Deferred until a lazily unmounted file system releases it.
        let mut dmsetup = Command::new("dmsetup");
        dmsetup.args(["remove", "--deferred"]).arg(&self.name).env("DM_DISABLE_UDEV", "1");
        clean_up(dmsetup.stdout(Stdio::null()));
    }
}
