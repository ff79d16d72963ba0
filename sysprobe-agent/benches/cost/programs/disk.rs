//! Work on a block device: a loop device over a file in memory, behind an I/O scheduler, so that each request
//! is queued, issued and done.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::acts::Act;
use super::cast::Cast;
use super::storage::MEMORY;

const BYTES: usize = 4096;
/// Every kernel's; without it a request goes to the driver at once, and is never seen in a queue.
const SCHEDULER: &str = "mq-deadline";

/// Memory that a device can read into.
#[repr(align(4096))]
struct Block([u8; BYTES]);

pub(crate) struct Disk {
    image: PathBuf,
    /// As `/dev/loop0`.
    path: String,
    file: File,
    block: Box<Block>,
}

impl Disk {
    pub(crate) fn new() -> Result<Self> {
        let image = PathBuf::from(MEMORY).join(format!("sysprobe-cost-{}-disk", std::process::id()));
        File::create(&image)?.set_len(1 << 20)?;
        let path = losetup(&["--find", "--show", &image.to_string_lossy()])?.trim().to_owned();
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path)?;
        let disk = Self { image, path, file, block: Box::new(Block([0; BYTES])) };
        let scheduler = format!("/sys/block/{}/queue/scheduler", disk.path.trim_start_matches("/dev/"));
        fs::write(&scheduler, SCHEDULER).with_context(|| format!("writing {SCHEDULER} to {scheduler}"))?;
        Ok(disk)
    }

    pub(crate) fn read_and_flush(&mut self) -> Result<()> {
        self.file.read_exact_at(&mut self.block.0, 0).context("reading a block")?;
        self.file.sync_data().context("flushing")
    }
}

impl Act for Disk {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.read_and_flush()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The next one gets another device if this one stays.
        drop(losetup(&["--detach", &self.path]));
        drop(fs::remove_file(&self.image));
    }
}

fn losetup(arguments: &[&str]) -> Result<String> {
    let output = Command::new("losetup").args(arguments).output().context("running losetup")?;
    ensure!(output.status.success(), "losetup {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
