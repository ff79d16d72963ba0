//! A kernel on disk: its image and all of its modules, unpacked from packages and kept under `target/vm`.
//!
//! Fetched packages are used until `--refresh`, so a run needs no network.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::kernels::{self, Series};
use super::mirror::Suite;
use crate::build::Arch;
use crate::{cmd, say};

/// Written when a tree is complete, with the names of its packages.
const COMPLETE: &str = "packages";

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) label: &'static str,
    pub(super) arch: Arch,
    pub(super) version: String,
    pub(super) image: PathBuf,
    /// `lib/modules` of the unpacked packages.
    pub(super) modules: PathBuf,
    /// Directory for the files of a run.
    pub(super) directory: PathBuf,
}

/// The directory with all files of the test kernels.
pub(super) fn laboratory(arch: Arch) -> PathBuf {
    arch.beside("target/vm")
}

/// Finds the kernel on disk, or fetches it.
pub(super) fn ensure(series: &Series, arch: Arch, refresh: bool) -> Result<Kernel> {
    let directory = laboratory(arch).join(series.label);
    let complete = directory.join(COMPLETE);
    let have = fs::read_to_string(&complete).ok();
    if have.is_none() || refresh {
        let (suite, packages) = newest(series, arch)?;
        if have != Some(packages.join("\n")) {
            fetch(&suite, &packages, &directory)?;
            fs::write(&complete, packages.join("\n"))?;
        }
    }
    open(series.label, arch, &directory)
}

/// The newest kernel of the series, from the first suite that has one.
fn newest(series: &Series, arch: Arch) -> Result<(Suite, Vec<String>)> {
    for name in series.suites {
        let suite = Suite::open(name, arch, &laboratory(arch))?;
        let names = suite.kernels()?;
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        if let Some(packages) = kernels::newest(arch, series.label, &names) {
            return Ok((suite, packages));
        }
    }
    bail!("there is no package of kernel {} in {}", series.label, series.suites.join(", "))
}

fn fetch(suite: &Suite, packages: &[String], directory: &Path) -> Result<()> {
    let (archives, tree) = (directory.join("archives"), directory.join("tree"));
    for old in [&archives, &tree] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("removing {}", old.display()))?;
        }
        fs::create_dir_all(old).with_context(|| format!("creating {}", old.display()))?;
    }
    suite.download(packages, &archives)?;
    for entry in fs::read_dir(&archives)? {
        cmd::run(cmd::tool("dpkg-deb").arg("--extract").arg(entry?.path()).arg(&tree))?;
    }
    fs::remove_dir_all(&archives)?;
    // Newer packages have it below `usr`; depmod looks here.
    if !tree.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", tree.join("lib"))?;
    }
    let version = only_entry(&tree.join("lib/modules"))?;
    say::step(format_args!("Listing the modules of {version}."));
    cmd::run(cmd::tool("/sbin/depmod").arg("--basedir").arg(&tree).arg(&version))
}

fn open(label: &'static str, arch: Arch, directory: &Path) -> Result<Kernel> {
    let tree = directory.join("tree");
    let modules = tree.join("lib/modules");
    let version = only_entry(&modules)?;
    let beside = modules.join(&version);
    let places = [
        tree.join("boot").join(format!("vmlinuz-{version}")),
        beside.join("vmlinuz"),
        beside.join("vmlinuz.unsigned"),
    ];
    let image = places.iter().find(|place| place.exists());
    let image = image.with_context(|| format!("the packages of {version} have no kernel image"))?.clone();
    Ok(Kernel { label, arch, version, image, modules, directory: directory.to_owned() })
}

fn only_entry(directory: &Path) -> Result<String> {
    let entries = fs::read_dir(directory).with_context(|| format!("listing {}", directory.display()))?;
    let names: Vec<_> =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
    match &*names {
        [name] => Ok(name.to_string_lossy().into_owned()),
        _ => bail!("{} holds {} kernels instead of one", directory.display(), names.len()),
    }
}
