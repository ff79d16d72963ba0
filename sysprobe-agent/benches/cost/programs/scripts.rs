//! The work that makes programs run: for each hook one script, whatever the domain. A domain with other hooks adds a row
//! to [`Script::of_hook`] and, where none fits, a script.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result};
use sysprobe_agent::probe::{Hook, TierSet};

use super::empty::Empties;
use super::forked::Forked;
use super::running::Running;
use crate::ring::Ring;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// All tasks are gone over, which are known already.
    Iterate,
    /// A byte goes to another process on the same CPU and back.
    Switch,
    /// A thread begins, ends and is freed.
    Thread,
    /// A sleeping process is moved to another cgroup.
    Move,
    /// In turns, a cgroup is made and removed.
    Cgroup,
    /// A cgroup is renamed.
    Rename,
    /// A process other than the agent runs what is run on demand, on its own CPU.
    Demand,
}

/// How much of a script is one batch, and how many batches are played; the first ones are not measured.
#[derive(Clone, Copy)]
pub(crate) struct Dose {
    pub(crate) actions: u32,
    pub(crate) warm_up: u32,
    pub(crate) batches: u32,
}

/// What a script may need.
pub(crate) struct Scene<'a> {
    /// The key hierarchy's root.
    pub(crate) root: &'a Path,
    pub(crate) has_v1: bool,
    pub(crate) cpu: u32,
    pub(crate) set: &'static TierSet,
    pub(crate) running: &'a Running,
    pub(crate) empties: &'a Empties,
}

/// A script that is being played.
pub(crate) trait Act {
    fn act(&mut self) -> Result<()>;
}

impl Script {
    const PLAYED: [Self; 6] =
        [Self::Switch, Self::Thread, Self::Move, Self::Cgroup, Self::Rename, Self::Demand];

    /// What makes a hook's programs run.
    pub(crate) fn of_hook(hook: Hook) -> Option<Self> {
        let name = match hook {
            Hook::OnDemand => return Some(Self::Demand),
            Hook::TaskIterator => return Some(Self::Iterate),
            Hook::TpBtf(name) | Hook::Fentry(name) | Hook::Kprobe(name) | Hook::RawTp(name) => name,
        };
        Some(match name {
            "sched_switch" | "rcu_note_context_switch" => Self::Switch,
            "task_newtask" | "wake_up_new_task" | "sched_process_free" | "free_task" => Self::Thread,
            "cgroup_attach_task" => Self::Move,
            "cgroup_mkdir" | "kernfs_activate" | "cgroup_rmdir" | "kernfs_remove" => Self::Cgroup,
            "cgroup_rename" => Self::Rename,
            _ => return None,
        })
    }

    /// The scripts that a tier's programs want, beside its start.
    pub(crate) fn of(set: &TierSet) -> impl Iterator<Item = Self> {
        let wanted =
            |script: &Self| set.programs.iter().any(|program| Self::of_hook(program.hook) == Some(*script));
        Self::PLAYED.into_iter().filter(wanted)
    }

    /// Whether programs may run after the action that leads to it.
    pub(crate) const fn is_late(self) -> bool {
        matches!(self, Self::Thread)
    }

    /// What runs often is cheap and drowns in a busy machine's noise: `times` as many batches of it.
    pub(crate) const fn dose(self, times: u32) -> Dose {
        match self {
            Self::Switch => Dose { actions: 100, warm_up: 10, batches: 20 * times },
            Self::Demand => Dose { actions: 50, warm_up: 3, batches: 20 * times },
            // The kernel takes memory now from one place and now from another, for many batches on end.
            Self::Thread => Dose { actions: 10, warm_up: 3, batches: 40 },
            // Single runs of programs that interrupts do not spare, which a median passes over.
            Self::Iterate | Self::Move | Self::Cgroup | Self::Rename => {
                Dose { actions: 1, warm_up: 6, batches: 40 }
            }
        }
    }

    pub(crate) fn open(self, scene: &Scene<'_>) -> Result<Box<dyn Act>> {
        Ok(match self {
            Self::Iterate | Self::Switch => Box::new(Ring::pair()?),
            Self::Thread => Box::new(Threads),
            Self::Move => Box::new(Mover::new(scene.root)?),
            Self::Cgroup => Box::new(Maker(Directory::named(scene.root, "made"))),
            Self::Rename => Box::new(Renamer::new(scene)?),
            Self::Demand => Box::new(on_demand(scene)?),
        })
    }
}

impl Act for Ring {
    fn act(&mut self) -> Result<()> {
        Ok(self.round()?)
    }
}

impl Act for Forked {
    fn act(&mut self) -> Result<()> {
        self.tell()
    }
}

struct Threads;

impl Act for Threads {
    fn act(&mut self) -> Result<()> {
        thread::spawn(|| ()).join().map_err(|_| anyhow::anyhow!("an empty thread panicked"))
    }
}

/// A process of our own, asleep, and two cgroups that it is moved between.
struct Mover {
    process: Forked,
    cgroups: [Directory; 2],
}

impl Mover {
    fn new(root: &Path) -> Result<Self> {
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
    fn act(&mut self) -> Result<()> {
        self.cgroups.swap(0, 1);
        let file = self.cgroups[0].0.join("cgroup.procs");
        fs::write(&file, self.process.pid().to_string())
            .with_context(|| format!("writing {}", file.display()))
    }
}

/// Fields are dropped in their order: the process goes before its cgroups can.
impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}

/// A cgroup of ours, if it is there.
struct Directory(PathBuf);

impl Directory {
    fn named(root: &Path, name: &str) -> Self {
        Self(root.join(format!("sysprobe-cost-{}-{name}", std::process::id())))
    }

    fn make(&self) -> Result<()> {
        fs::create_dir(&self.0).with_context(|| format!("creating {}", self.0.display()))
    }
}

struct Maker(Directory);

impl Act for Maker {
    fn act(&mut self) -> Result<()> {
        if !self.0.0.exists() {
            return self.0.make();
        }
        fs::remove_dir(&self.0.0).context("removing a cgroup")
    }
}

/// Only hierarchies of version 1 have renames. Where the key is not one of them, a hierarchy is mounted for us alone: the
/// program passes its renames over, as it would on such a host.
struct Renamer {
    cgroups: [Directory; 2],
    _mount: Option<Mount>,
}

impl Renamer {
    fn new(scene: &Scene<'_>) -> Result<Self> {
        let mount = if scene.has_v1 { None } else { Some(Mount::new()?) };
        let root = mount.as_ref().map_or(scene.root, |mount| &mount.0);
        let cgroups = ["one", "other"].map(|name| Directory::named(root, name));
        cgroups[0].make()?;
        Ok(Self { cgroups, _mount: mount })
    }
}

impl Act for Renamer {
    fn act(&mut self) -> Result<()> {
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
        let path = std::ffi::CString::new(mount.0.as_os_str().as_bytes())?;
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
        if let Ok(path) = std::ffi::CString::new(self.0.as_os_str().as_bytes()) {
            // SAFETY: a string that lives until the call returns.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
        drop(fs::remove_dir(&self.0));
    }
}

/// The agent itself is passed over by what it runs, so somebody else has to.
fn on_demand(scene: &Scene<'_>) -> Result<Forked> {
    let names: Vec<_> = scene.set.programs.iter().filter(|program| program.hook == Hook::OnDemand).collect();
    // After a fork the descriptors are the child's as well.
    let (running, empties, cpu) = (scene.running, scene.empties, scene.cpu);
    Forked::start(move || {
        for program in &names {
            running.loaded().run_on(program.name, &[cpu])?;
        }
        empties.run_on(cpu)
    })
}
