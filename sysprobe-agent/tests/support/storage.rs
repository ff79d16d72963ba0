//! File systems of the test's own, mounted on a directory of its own and removed at the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread::panicking;

use tempfile::TempDir;

/// File systems that can be mounted wherever the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tmpfs,
    /// In a file on a loop device.
    Ext4,
    Xfs,
    Btrfs,
    /// Over two directories of an ext4.
    Overlay,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Tmpfs, Self::Ext4, Self::Xfs, Self::Btrfs, Self::Overlay];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Overlay => "overlay",
        }
    }
}

/// The mounted file systems; unmounted when it is dropped, the innermost first.
#[derive(Debug)]
pub(crate) struct Storage {
    kind: Kind,
    mounts: Vec<PathBuf>,
    directory: TempDir,
}

impl Storage {
    /// Creates one with room for this many bytes. File systems on a device have 320 MiB, which take no memory
    /// until they are written.
    pub(crate) fn of(kind: Kind, bytes: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut storage = Self { kind, mounts: Vec::new(), directory };
        match kind {
            Kind::Tmpfs => storage.tmpfs(bytes),
            Kind::Ext4 | Kind::Xfs | Kind::Btrfs => storage.on_device(kind),
            Kind::Overlay => storage.overlay(),
        }
        storage
    }

    /// Creates one on an existing device.
    pub(crate) fn upon(kind: Kind, device: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut storage = Self { kind, mounts: Vec::new(), directory };
        storage.make(kind, device, &[], "device");
        storage
    }

    /// An ext4 in a file of another ext4: while the lower one is frozen, no write here completes.
    pub(crate) fn stacked() -> Self {
        const BYTES: u64 = 64 << 20;
        let mut storage = Self::of(Kind::Ext4, BYTES);
        storage.on_image(Kind::Ext4, BYTES, "upper");
        storage
    }

    /// Freezes the file system below this one.
    pub(crate) fn freeze_below(&self) -> Frozen {
        Frozen::new(self.mounts.iter().rev().nth(1).expect("one on top of another"))
    }

    pub(crate) fn freeze(&self) -> Frozen {
        Frozen::new(self.path())
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The directory for files.
    pub(crate) fn path(&self) -> &Path {
        self.mounts.last().expect("something is mounted")
    }

    fn place(&mut self, name: &str) -> PathBuf {
        let place = self.directory.path().join(name);
        fs::create_dir(&place).expect("a directory");
        place
    }

    fn tmpfs(&mut self, bytes: u64) {
        let place = self.place("memory");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(&place));
        self.mounts.push(place);
    }

    fn on_device(&mut self, kind: Kind) {
        // `mkfs.xfs` needs at least 300 MiB.
        const BYTES: u64 = 320 << 20;
        // In a tmpfs: it is no slower than any other place if the test already runs in memory.
        self.tmpfs(BYTES + (64 << 20));
        self.on_image(kind, BYTES, "device");
    }

    /// Creates a file system in a file of the one that was mounted last.
    fn on_image(&mut self, kind: Kind, bytes: u64, name: &str) {
        let image = self.path().join("image");
        File::create(&image).and_then(|file| file.set_len(bytes)).expect("an image");
        self.make(kind, &image, &["-o", "loop"], name);
    }

    fn make(&mut self, kind: Kind, device: &Path, options: &[&str], name: &str) {
        let force = if kind == Kind::Ext4 { "-F" } else { "-qf" };
        run(Command::new(format!("mkfs.{}", kind.name())).arg(force).arg(device));
        let place = self.place(name);
        run(Command::new("mount").args(["-t", kind.name()]).args(options).arg(device).arg(&place));
        self.mounts.push(place);
    }

    fn overlay(&mut self) {
        self.on_device(Kind::Ext4);
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| self.path().join(name));
        for directory in [&lower, &upper, &work] {
            fs::create_dir(directory).expect("a directory");
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let place = self.place("merged");
        run(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]).arg(&place));
        self.mounts.push(place);
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        for place in self.mounts.iter().rev() {
            // Lazily, because a failed test may have left programs running there.
            clean_up(Command::new("umount").arg("--lazy").arg(place));
        }
    }
}

/// A frozen file system; it is thawed when this is dropped.
#[derive(Debug)]
pub(crate) struct Frozen {
    place: PathBuf,
}

impl Frozen {
    fn new(place: &Path) -> Self {
        run(Command::new("fsfreeze").arg("--freeze").arg(place));
        Self { place: place.to_owned() }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        clean_up(Command::new("fsfreeze").arg("--unfreeze").arg(&self.place));
    }
}

/// Runs a cleanup command. A failed test must not panic again here, which would abort.
pub(crate) fn clean_up(command: &mut Command) {
    let status = command.status();
    let succeeded = status.as_ref().is_ok_and(ExitStatus::success);
    assert!(succeeded || panicking(), "{command:?}: {status:?}");
}

/// Runs a command, which has to succeed; returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
