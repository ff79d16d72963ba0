//! The guest's initramfs: our own init program, its orders, and the modules it loads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xtask_init::{MODULES, ORDERS, Orders};

use super::cpio::Archive;
use super::modules::Module;
use crate::build::{Arch, cross};
use crate::{cmd, paths};

/// Mount points for the init program before it has the host's root.
const DIRECTORIES: [&str; 6] = ["dev", "proc", "sys", "lower", "layer", "root"];

/// Builds the guest's init program. It is linked statically and needs no other file.
pub(super) fn init(arch: Arch) -> Result<PathBuf> {
    let mut cargo = cross::compiler(arch, "build")?.cargo;
    cargo.args(["--quiet", "--release", "--package", "xtask-init"]);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    cmd::run(&mut cargo)?;
    Ok(paths::target().join(arch.target()).join("release/xtask-init"))
}

/// Writes the archive.
pub(super) fn write(file: &Path, init: &Path, modules: &[Module], orders: &Orders) -> Result<()> {
    let program = fs::read(init).with_context(|| format!("reading {}", init.display()))?;
    let mut archive = Archive::default();
    for name in DIRECTORIES {
        archive.directory(name);
    }
    // Rust's start-up code opens descriptors 0 to 2, before anything is mounted.
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    archive.file("init", &program);
    archive.file(ORDERS.trim_start_matches('/'), orders.to_text().as_bytes());
    let below = MODULES.trim_start_matches('/');
    archive.directory(below);
    for module in modules {
        archive.file(&format!("{below}/{}", module.name), &module.image);
    }
    fs::write(file, archive.finish()).with_context(|| format!("writing {}", file.display()))
}
