//! A block device of the test's own: a file behind a loop device, and the kernel's counts of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::device::Loop;
use super::support::storage::{Frozen, Kind, Storage, clean_up, run};

/// The device; detached when it is dropped.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The name in `/sys/block`.
    pub(crate) name: String,
    mount: Option<PathBuf>,
    /// Dropped last.
    device: Loop,
}

/// A line of `/proc/diskstats` (Documentation/admin-guide/iostats.rst): requests, sectors of 512 bytes, and
/// milliseconds from start to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskStats {
    pub(crate) reads: u64,
    pub(crate) sectors_read: u64,
    pub(crate) read_ms: u64,
    pub(crate) writes: u64,
    pub(crate) sectors_written: u64,
    pub(crate) write_ms: u64,
    pub(crate) in_flight: u64,
    pub(crate) discards: u64,
    pub(crate) sectors_discarded: u64,
    pub(crate) discard_ms: u64,
}

impl Disk {
    pub(crate) fn new(bytes: u64) -> Self {
        // Tmpfs needs a little more room than the file.
        Self::with_room(bytes, bytes + (4 << 20))
    }

    /// A device of which no more than `room` bytes can be written.
    pub(crate) fn with_room(bytes: u64, room: u64) -> Self {
        Self::from(Loop::with_room(bytes, room))
    }

    /// A device over a file of an ext4 that can be frozen.
    pub(crate) fn that_can_be_held(bytes: u64) -> Self {
        Self::from(Loop::over(Storage::of(Kind::Ext4, bytes), bytes))
    }

    /// From now on, no write completes until the result is dropped.
    pub(crate) fn hold(&self) -> Frozen {
        self.device.storage.freeze()
    }

    fn from(device: Loop) -> Self {
        let name = device.path.file_name().expect("a device").to_string_lossy().into_owned();
        Self { name, mount: None, device }
    }

    /// A device with a file system that does nothing by itself once it is mounted.
    pub(crate) fn formatted(bytes: u64, kind: Kind) -> Self {
        let mut disk = Self::new(bytes);
        let mut mkfs = Command::new(format!("mkfs.{}", kind.name()));
        match kind {
            Kind::Xfs => mkfs.arg("-q"),
            _ => mkfs.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
        };
        run(mkfs.arg(&disk.device.path));
        let place = disk.device.storage.path().join("mounted");
        fs::create_dir(&place).expect("a directory");
        run(Command::new("mount").args(["-t", kind.name()]).arg(&disk.device.path).arg(&place));
        disk.mount = Some(place);
        disk
    }

    /// Changes a setting of its queue; returns whether this kernel has the setting.
    pub(crate) fn set(&self, setting: &str, value: &str) -> bool {
        fs::write(format!("/sys/block/{}/queue/{setting}", self.name), value).is_ok()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.device.path
    }

    /// The mount point of its file system.
    pub(crate) fn mounted(&self) -> &Path {
        self.mount.as_deref().expect("it is formatted")
    }

    pub(crate) fn statistics(&self) -> DiskStats {
        DiskStats::of(&self.name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A loop device keeps its settings for the next test that uses it.
        for (setting, value) in [("scheduler", "none"), ("iostats", "1")] {
            self.set(setting, value);
        }
        if let Some(place) = &self.mount {
            // Lazily, because a failed test may have left programs running there.
            clean_up(Command::new("umount").arg("--lazy").arg(place));
        }
    }
}

impl DiskStats {
    pub(crate) fn of(disk: &str) -> Self {
        let text = fs::read_to_string("/proc/diskstats").expect("diskstats");
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(disk));
        let line = line.unwrap_or_else(|| panic!("no {disk} in {text}"));
        let numbers: Vec<u64> =
            line.split_whitespace().skip(3).map(|number| number.parse().expect("a number")).collect();
        Self {
            reads: numbers[0],
            sectors_read: numbers[2],
            read_ms: numbers[3],
            writes: numbers[4],
            sectors_written: numbers[6],
            write_ms: numbers[7],
            in_flight: numbers[8],
            discards: numbers[11],
            sectors_discarded: numbers[13],
            discard_ms: numbers[14],
        }
    }

    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            sectors_read: self.sectors_read - earlier.sectors_read,
            read_ms: self.read_ms - earlier.read_ms,
            writes: self.writes - earlier.writes,
            sectors_written: self.sectors_written - earlier.sectors_written,
            write_ms: self.write_ms - earlier.write_ms,
            in_flight: self.in_flight,
            discards: self.discards - earlier.discards,
            sectors_discarded: self.sectors_discarded - earlier.sectors_discarded,
            discard_ms: self.discard_ms - earlier.discard_ms,
        }
    }
}
