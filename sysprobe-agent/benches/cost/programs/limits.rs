//! Work that runs into the limits of its cgroup.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::acts::{Act, Directory};
use super::cast::Cast;
use super::forked::Forked;
use super::scripts::Scene;

/// A child that may have a tenth of a CPU, a millisecond at a time.
pub(crate) struct Throttled {
    /// Ends before its cgroup is removed: members are dropped in this order.
    process: Forked,
    _cgroup: Directory,
}

/// What it runs for each time: it is throttled twice meanwhile.
const RUN: Duration = Duration::from_micros(2500);

impl Throttled {
    pub(crate) fn new(scene: &Scene<'_>) -> Result<Self> {
        let cgroup = Directory::named(scene.root, "throttled");
        cgroup.make()?;
        let quota: &[(&str, &str)] = if scene.has_v1 {
            &[("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "1000")]
        } else {
            &[("cpu.max", "1000 10000")]
        };
        for (file, text) in quota {
            set(&cgroup.0.join(file), text)?;
        }
        let process = Forked::start(|| {
            let begin = own_cpu();
            while own_cpu() < begin + RUN {}
            Ok(())
        })?;
        set(&cgroup.0.join("cgroup.procs"), &process.pid().to_string())?;
        Ok(Self { process, _cgroup: cgroup })
    }
}

impl Act for Throttled {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.process.tell()
    }
}

/// The CPU time of the calling thread.
fn own_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the address is of a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A cgroup whose memory we want back: the kernel looks for some, as it does at a limit.
pub(crate) struct Reclaimed(Directory);

impl Reclaimed {
    /// Only the default hierarchy can be asked, from 5.19 on.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let cgroup = Directory::named(root, "reclaimed");
        cgroup.make()?;
        let file = cgroup.0.join("memory.reclaim");
        anyhow::ensure!(file.exists(), "a cgroup here has no {}", file.display());
        Ok(Self(cgroup))
    }
}

impl Act for Reclaimed {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        // There is nothing to be freed, which is an error; the kernel has looked for it all the same.
        drop(fs::write(self.0.0.join("memory.reclaim"), "4096"));
        Ok(())
    }
}

fn set(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}
