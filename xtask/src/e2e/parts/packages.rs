//! containerd, runc, the CNI plugins, Prometheus and a static busybox: the distribution's packages, unpacked
//! below `target/e2e` and not installed. A containerd of the machine's own is neither used nor replaced.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{complete, is_complete};
use crate::e2e::places;
use crate::{apt, cmd, say};

const PACKAGES: [&str; 5] =
    ["busybox-static", "containerd", "containernetworking-plugins", "prometheus", "runc"];

pub(super) fn directory() -> PathBuf {
    places::laboratory().join("packages")
}

pub(super) fn ensure() -> Result<()> {
    let directory = directory();
    let names = PACKAGES.join(" ");
    if is_complete(&directory, &names) {
        return Ok(());
    }
    if !apt::available() {
        bail!(
            "unpack {names} below {}, as Debian has them, and write `{names}` into the file `complete` there",
            directory.display()
        );
    }
    apt::update()?;
    say::step(format_args!("A node needs a container runtime: unpacking {names}."));
    let archives = directory.join("archives");
    fs::create_dir_all(&archives).with_context(|| format!("creating {}", archives.display()))?;
    cmd::run(cmd::tool("apt-get").args(["--quiet", "download"]).args(PACKAGES).current_dir(&archives))?;
    for archive in fs::read_dir(&archives)? {
        cmd::run(cmd::tool("dpkg").arg("--extract").arg(archive?.path()).arg(&directory))?;
    }
    fs::remove_dir_all(&archives)?;
    complete(&directory, &names)
}
