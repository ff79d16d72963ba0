//! `cargo xtask image`: builds an image with nothing in it but one static program, its licences and its SBOM.
//! It needs no daemon, and the same commit makes the same bytes.
//!
//! The program is linked with glibc statically, not with musl: the agent tells glibc's allocator to use one
//! heap (`agent/heap.rs`), and every Rust toolchain has the target's standard library. Since 2.34, static
//! glibc resolves names from `/etc/hosts` and DNS by itself.

mod sbom;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::Object as _;
use serde_json::json;

use crate::build::Arch;
use crate::oci::{self, Image};
use crate::{build, cmd, paths, say};

/// Every byte is pulled by up to ten thousand nodes.
const SIZE_MAX: u64 = 20 << 20;
const DIRECTORY: &str = "target/image";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The image's name with its tag
    #[arg(long, default_value = concat!("sysprobe:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// The nodes' architecture (default: this machine's)
    #[arg(long, value_enum, default_value_t = Arch::HOST)]
    arch: Arch,
}

impl Args {
    /// This machine's image under its default name.
    pub(crate) fn usual() -> Self {
        Self { name: concat!("sysprobe:", env!("CARGO_PKG_VERSION")).to_owned(), arch: Arch::HOST }
    }
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let (archive, digest) = make_for(args.arch, &args.name)?;
    let (size, mebibytes) = (fs::metadata(&archive)?.len(), 1024.0 * 1024.0);
    say::step(format_args!(
        "The image {} for {} is {} ({:.1} MiB, digest {}).",
        args.name,
        args.arch.name(),
        archive.display(),
        size as f64 / mebibytes,
        digest
    ));
    ensure!(size <= SIZE_MAX, "the image is larger than {} MiB", SIZE_MAX >> 20);
    Ok(())
}

/// Builds the image for this machine.
pub(crate) fn make(name: &str) -> Result<(PathBuf, String)> {
    make_for(Arch::HOST, name)
}

/// Builds an archive that `ctr images import`, `skopeo copy oci-archive:` and `podman load` accept; returns
/// it and the image's digest.
fn make_for(arch: Arch, name: &str) -> Result<(PathBuf, String)> {
    build::objects_for(arch)?;
    let program = build::static_agent(arch, "dist")?;
    let bytes = fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
    ensure_static(&bytes)?;
    ensure_from_nowhere(&bytes)?;
    let root = arch.beside(DIRECTORY).join("root");
    fill(&root, &program)?;
    fs::write(root.join("sbom.cdx.json"), sbom::of_agent(arch)?)?;
    let image = Image {
        name,
        root: &root,
        config: json!({
            "Entrypoint": ["/sysprobe"],
            "Cmd": ["agent"],
            // So that `kubectl exec … -- sysprobe` finds it.
            "Env": ["PATH=/"],
            "ExposedPorts": { "9937/tcp": {} },
        }),
        labels: json!({
            "org.opencontainers.image.title": "sysprobe",
            "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            "org.opencontainers.image.revision": git(&["rev-parse", "HEAD"])?,
        }),
        time: git(&["log", "-1", "--format=%ct"])?.parse().context("the time of the last commit")?,
    };
    oci::archive_for(arch, &image, &arch.beside(DIRECTORY).join("archive"))
}

/// Fills the root file system.
fn fill(root: &Path, program: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::create_dir_all(root)?;
    fs::copy(program, root.join("sysprobe")).with_context(|| format!("copying {}", program.display()))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(paths::root().join(licence), root.join(licence))?;
    }
    Ok(())
}

/// Fails for a program that needs a dynamic loader: the image has none.
fn ensure_static(program: &[u8]) -> Result<()> {
    let file = object::File::parse(program).context("the program is no object file")?;
    let needs = file.imports().map(|imports| imports.len()).unwrap_or_default();
    ensure!(needs == 0, "the program imports {needs} symbols of shared libraries");
    Ok(())
}

/// Fails for a program that contains paths of this machine: another clone would build different bytes.
fn ensure_from_nowhere(program: &[u8]) -> Result<()> {
    let homes = [Some(paths::root().to_owned()), paths::cargo_home()];
    for path in homes.into_iter().flatten() {
        let place = path.as_os_str().as_encoded_bytes();
        let holds = program.windows(place.len()).any(|window| window == place);
        ensure!(!holds, "the program holds the path {}: no other clone builds the same one", path.display());
    }
    Ok(())
}

fn git(words: &[&str]) -> Result<String> {
    let printed = cmd::capture(cmd::tool("git").args(words)).context("`git` failed: is this a clone?")?;
    Ok(printed.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_this_machine_is_found_in_a_program() {
        let panics = format!("at {}/sysprobe-agent/src/main.rs", paths::root().display());
        assert!(ensure_from_nowhere(panics.as_bytes()).is_err());
        assert!(ensure_from_nowhere(b"at /sysprobe/sysprobe-agent/src/main.rs").is_ok());
    }
}
