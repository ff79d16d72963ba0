//! How each script is played.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result};

use super::cast::Cast;
use super::forked::Forked;
use super::scripts::Scene;
use crate::ring::Ring;

/// A script that is being played.
pub(crate) trait Act {
    fn act(&mut self, cast: &mut Cast) -> Result<()>;
}

impl Act for Ring {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        Ok(self.round()?)
    }
}

impl Act for Forked {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.tell()
    }
}

pub(crate) struct Threads;

impl Act for Threads {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        thread::spawn(|| ()).join().map_err(|_| anyhow::anyhow!("an empty thread panicked"))
    }
}

pub(crate) struct AllTasks;

impl Act for AllTasks {
    fn act(&mut self, cast: &mut Cast) -> Result<()> {
        cast.iterate()
    }
}

/// A process of our own, asleep, and two cgroups that it is moved between.
pub(crate) struct Mover {
    /// Ends before its cgroups are removed: members are dropped in this order.
    process: Forked,
    cgroups: [Directory; 2],
}

impl Mover {
    pub(crate) fn new(root: &Path) -> Result<Self> {
        let cgroups = ["here", "there"].map(|name| Directory::named(root, name));
        for cgroup in &cgroups {
            cgroup.make()?;
        }
        let mut process = Forked::start(|| Ok(()))?;
        // A task is known once it has left a CPU.
        process.tell()?;
        Ok(Self { process, cgroups })
    }
}

impl Act for Mover {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.cgroups.swap(0, 1);
        let file = self.cgroups[0].0.join("cgroup.procs");
        fs::write(&file, self.process.pid().to_string())
            .with_context(|| format!("writing {}", file.display()))
    }
}

/// A cgroup of ours, if it is there.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn named(root: &Path, name: &str) -> Self {
        Self(root.join(format!("sysprobe-cost-{}-{name}", std::process::id())))
    }

    pub(super) fn make(&self) -> Result<()> {
        fs::create_dir(&self.0).with_context(|| format!("creating {}", self.0.display()))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // It may not be there.
        drop(fs::remove_dir(&self.0));
    }
}

pub(crate) struct Maker(Directory);

impl Maker {
    pub(crate) fn new(root: &Path) -> Self {
        Self(Directory::named(root, "made"))
    }
}

impl Act for Maker {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        if !self.0.0.exists() {
            return self.0.make();
        }
        fs::remove_dir(&self.0.0).context("removing a cgroup")
    }
}

/// Only hierarchies of version 1 have renames. Where the key is not one of them, a hierarchy is mounted for
/// us alone: the program passes its renames over, as it would on such a host.
pub(crate) struct Renamer {
    cgroups: [Directory; 2],
    _mount: Option<Mount>,
}

impl Renamer {
    pub(crate) fn new(scene: &Scene<'_>) -> Result<Self> {
        let mount = if scene.has_v1 { None } else { Some(Mount::new()?) };
        let root = mount.as_ref().map_or(scene.root, |mount| &mount.0);
        let cgroups = ["one", "other"].map(|name| Directory::named(root, name));
        cgroups[0].make()?;
        Ok(Self { cgroups, _mount: mount })
    }
}

impl Act for Renamer {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        fs::rename(&self.cgroups[0].0, &self.cgroups[1].0).context("renaming a cgroup")?;
        self.cgroups.swap(0, 1);
        Ok(())
    }
}

/// A hierarchy without controllers.
struct Mount(PathBuf);

impl Mount {
    fn new() -> Result<Self> {
        let point = std::env::temp_dir().join(format!("sysprobe-cost-{}", std::process::id()));
        fs::create_dir(&point).with_context(|| format!("creating {}", point.display()))?;
        let mount = Self(point);
        let path = CString::new(mount.0.as_os_str().as_bytes())?;
        // SAFETY: strings that live until the call returns.
        let done = unsafe {
            libc::mount(
                c"cgroup".as_ptr(),
                path.as_ptr(),
                c"cgroup".as_ptr(),
                0,
                c"none,name=sysprobe-cost".as_ptr().cast(),
            )
        };
        if done != 0 {
            let error = io::Error::last_os_error();
            return Err(error).context("only hierarchies of version 1 have renames, and none can be mounted");
        }
        Ok(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Ok(path) = CString::new(self.0.as_os_str().as_bytes()) {
            // SAFETY: a string that lives until the call returns.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
        drop(fs::remove_dir(&self.0));
    }
}

/// What the agent runs passes over the agent itself, so another process runs it.
pub(crate) fn on_demand(scene: &Scene<'_>) -> Result<Forked> {
    // After a fork the descriptors are the child's as well.
    let (cast, cpu) = (scene.cast, scene.cpu);
    Forked::start(move || cast.run_on_demand(cpu))
}
