//! Programs for guests of another architecture, in place of this machine's: packages of the distribution,
//! unpacked into one directory that is laid over this machine's files. They are not configured; this
//! machine's own configuration applies.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::mirror::Suite;
use super::tree;
use crate::build::Arch;
use crate::{cmd, say};

/// Any release will do: the agent and its tests are statically linked.
const SUITE: &str = "bookworm";

/// The usual commands, then the programs that tests start.
const PACKAGES: [&str; 24] = [
    "bash",
    "coreutils",
    "dash",
    "findutils",
    "gawk",
    "grep",
    "kmod",
    "mount",
    "procps",
    "sed",
    "util-linux",
    "btrfs-progs",
    "curl",
    "dmsetup",
    "e2fsprogs",
    "ethtool",
    "fio",
    "iperf3",
    "iproute2",
    "iptables",
    "strace",
    "stress-ng",
    "tmux",
    "xfsprogs",
];

/// Directories that are links into `usr` on every current machine. A real directory in their place would hide
/// this machine's.
const MERGED: [&str; 3] = ["bin", "lib", "sbin"];

/// Written when everything is unpacked.
const COMPLETE: &str = "programs.packages";

/// Finds the root directory with the programs, or fetches them. This machine's own kind needs none.
pub(super) fn ensure(arch: Arch, refresh: bool) -> Result<Option<PathBuf>> {
    if arch == Arch::HOST {
        return Ok(None);
    }
    let laboratory = tree::laboratory(arch);
    let (root, complete) = (laboratory.join("programs"), laboratory.join(COMPLETE));
    let wanted = PACKAGES.join("\n");
    if refresh || fs::read_to_string(&complete).ok().as_ref() != Some(&wanted) {
        let archives = Suite::open(SUITE, arch, &laboratory)?.download_whole(&PACKAGES)?;
        unpack(&archives, &root)?;
        fs::write(&complete, wanted)?;
    }
    Ok(Some(root))
}

/// Unpacks all packages into an empty directory and deletes the archives.
fn unpack(archives: &Path, root: &Path) -> Result<()> {
    say::step(format_args!("Unpacking the packages into {}.", root.display()));
    if root.exists() {
        fs::remove_dir_all(root).with_context(|| format!("removing {}", root.display()))?;
    }
    for name in MERGED {
        fs::create_dir_all(root.join("usr").join(name))?;
        symlink(Path::new("usr").join(name), root.join(name))?;
    }
    for entry in fs::read_dir(archives)? {
        let package = entry?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            extract(&package, root)?;
            fs::remove_file(&package)?;
        }
    }
    Ok(())
}

/// `dpkg-deb --extract` would replace links to directories with directories.
fn extract(package: &Path, root: &Path) -> Result<()> {
    let mut unpacker = cmd::tool("dpkg-deb");
    let mut unpacker = unpacker.arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn()?;
    let archive = unpacker.stdout.take().context("the output was asked to be a pipe")?;
    let mut tar = cmd::tool("tar");
    tar.args(["--extract", "--keep-directory-symlink", "--directory"]).arg(root).stdin(archive);
    let extracted = cmd::run(&mut tar);
    ensure!(unpacker.wait()?.success(), "`dpkg-deb` cannot read {}", package.display());
    extracted
}
