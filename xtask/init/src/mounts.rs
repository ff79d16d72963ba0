//! File systems of the guest: the host's root with a layer of memory over it, then what every node has
//! mounted.

use std::fs;
use std::os::unix::fs::chroot;
use std::path::Path;

use anyhow::{Context, Result};

use crate::sys;

/// Kind, target. `/tmp` is not among them: the layer over the host's root is memory already, and what the
/// host has there, such as a build directory, stays visible.
const NODE: [(&str, &str); 7] = [
    ("tmpfs", "/run"),
    ("tmpfs", "/dev/shm"),
    ("devpts", "/dev/pts"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
    ("securityfs", "/sys/kernel/security"),
    ("bpf", "/sys/fs/bpf"),
];

/// Hierarchies of a hybrid host.
const CONTROLLERS: [&str; 5] = ["cpu,cpuacct", "memory", "blkio", "pids", "cpuset"];

const CGROUP: &str = "/sys/fs/cgroup";

/// What the first process needs to see anything at all.
pub(crate) fn early() -> Result<()> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, kind, target, 0, "")?;
    }
    Ok(())
}

/// Makes the host's root, shared under a tag, this process' root, with another share over it. Nothing that is
/// written reaches the host.
pub(crate) fn root(tag: &str, over: Option<&str>) -> Result<()> {
    mount("virtiofs", tag, "/lower", libc::MS_RDONLY, "")?;
    let mut lower = "/lower".to_owned();
    if let Some(over) = over {
        mount("virtiofs", over, "/over", libc::MS_RDONLY, "")?;
        lower.insert_str(0, "/over:");
    }
    mount("tmpfs", "layer", "/layer", 0, "size=75%")?;
    fs::create_dir_all("/layer/upper")?;
    fs::create_dir_all("/layer/work")?;
    let layers = format!("lowerdir={lower},upperdir=/layer/upper,workdir=/layer/work");
    mount("overlay", "root", "/root", 0, &layers)?;
    for name in ["proc", "sys", "dev"] {
        mount("", &format!("/{name}"), &format!("/root/{name}"), libc::MS_MOVE, "")?;
    }
    // As `switch_root` does, so that the kernel finds the host's modprobe.
    std::env::set_current_dir("/root")?;
    mount("", ".", "/", libc::MS_MOVE, "")?;
    chroot(".").context("changing the root directory")?;
    std::env::set_current_dir("/").context("entering the root directory")
}

pub(crate) fn node() -> Result<()> {
    NODE.iter().try_for_each(|(kind, target)| mount(kind, kind, target, 0, ""))
}

/// Version 2 with every controller on for children of the root.
pub(crate) fn unified(target: &str) -> Result<()> {
    mount("cgroup2", "cgroup2", target, 0, "")?;
    let controllers = fs::read_to_string(Path::new(target).join("cgroup.controllers"))?;
    for controller in controllers.split_whitespace() {
        let path = Path::new(target).join("cgroup.subtree_control");
        fs::write(path, format!("+{controller}"))
            .with_context(|| format!("turning the {controller} controller on"))?;
    }
    Ok(())
}

pub(crate) fn cgroups(hybrid: bool) -> Result<()> {
    if !hybrid {
        return unified(CGROUP);
    }
    mount("tmpfs", "cgroup", CGROUP, 0, "mode=755")?;
    for controller in CONTROLLERS {
        // A kernel may be without version 1 of one; the test that needs it says so.
        if let Err(error) = mount("cgroup", "cgroup", &format!("{CGROUP}/{controller}"), 0, controller) {
            fs::write("/dev/kmsg", format!("init: {error:#}"))?;
        }
    }
    unified(&format!("{CGROUP}/unified"))
}

/// Puts the kernel's own modules where modprobe looks for them.
pub(crate) fn modules(tree: &str) -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    mount("", &format!("{tree}/{release}"), &format!("/lib/modules/{release}"), libc::MS_BIND, "")
}

fn mount(kind: &str, source: &str, target: &str, flags: libc::c_ulong, data: &str) -> Result<()> {
    if !Path::new(target).exists() {
        fs::create_dir_all(target).with_context(|| format!("creating {target}"))?;
    }
    sys::mount(kind, source, target, flags, data)
        .with_context(|| format!("mounting {kind} {source} on {target} with `{data}`"))
}
