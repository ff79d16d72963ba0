//! `cargo xtask build`: the eBPF objects, then the agent that embeds them.
//!
//! Every program of `sysprobe-ebpf/src/bin` (a file, or a folder with `main.rs`) becomes one object in
//! `target/ebpf`, without debug information. An object is replaced only when its content has changed: the
//! agent is rebuilt whenever an object is newer.

mod arch;
pub(crate) mod cross;
mod strip;
pub(crate) mod test_programs;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::toolchain::Toolchain;
use crate::{cmd, paths, say, toolchain};
pub(crate) use arch::Arch;

/// The flags of the eBPF build. The linker makes BTF from debug information. All kernels from 5.10 on support
/// version 3 of the instruction set; its 32-bit registers and jumps make programs smaller and faster to
/// verify.
const RUSTFLAGS: [&str; 4] = [
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    // Otherwise `memset` and `memmove` are calls of functions that go byte by byte, even for a few words.
    "-Clink-arg=--disable-expand-memcpy-in-order",
    "-Ctarget-cpu=v3",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build the agent optimised, as target/release/sysprobe
    #[arg(long)]
    release: bool,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let program = if args.release { release()? } else { plain()? };
    say::step(format_args!("The program is {}.", program.display()));
    Ok(())
}

/// Builds the objects and the agent without optimisation; returns the agent's path.
pub(crate) fn plain() -> Result<PathBuf> {
    objects()?;
    agent("debug")
}

/// Builds the objects and the optimised agent; returns the agent's path.
pub(crate) fn release() -> Result<PathBuf> {
    objects()?;
    agent("release")
}

/// Builds the objects and the agent as it is shipped; returns the agent's path.
pub(crate) fn dist() -> Result<PathBuf> {
    objects()?;
    agent("dist")
}

/// Builds the objects and the agent as tests run it; returns the agent's path.
///
/// Cargo selects crate features from what it is asked to build. Building the smallest test file selects the
/// features that all tests use, so nothing is built twice.
pub(crate) fn debug() -> Result<PathBuf> {
    objects()?;
    say::step("Building the agent (debug).");
    cmd::run(test_programs::cargo_test().args(["--no-run", "--test", "completion"]))?;
    Ok(paths::agent("debug"))
}

/// Builds the eBPF objects for this machine.
pub(crate) fn objects() -> Result<()> {
    objects_for(Arch::HOST)
}

/// Builds the eBPF objects for kernels of one architecture.
pub(crate) fn objects_for(arch: Arch) -> Result<()> {
    let toolchain = toolchain::ensure()?;
    let names = bins(&paths::ebpf_bins())?;
    say::step(format_args!("Building the eBPF objects for {}: {}.", arch.name(), names.join(", ")));
    cmd::run(&mut ebpf_cargo(&toolchain, arch))?;
    let built = arch.ebpf_build().join(paths::BPF_TARGET).join("dist");
    let objects = names.into_iter().map(|name| Ok((stripped(&built.join(&name))?, name)));
    publish(&arch.objects(), &objects.collect::<Result<Vec<_>>>()?)
}

fn agent(profile: &str) -> Result<PathBuf> {
    say::step(format_args!("Building the agent ({profile})."));
    let mut cargo = cmd::cargo();
    cargo.args(["build", "--locked", "--package", "sysprobe-agent"]);
    if profile != "debug" {
        cargo.args(["--profile", profile]);
    }
    cmd::run(&mut cargo)?;
    Ok(paths::agent(profile))
}

/// Builds the agent with one of the optimising profiles, statically linked and without names or paths of this
/// machine.
pub(crate) fn static_agent(arch: Arch, profile: &str) -> Result<PathBuf> {
    say::step(format_args!("Building the agent for {} ({profile}, static).", arch.name()));
    let cross::Compiler { mut cargo, source } = cross::compiler(arch, "build")?;
    cargo.args(["--profile", profile, "--package", "sysprobe-agent"]);
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned(), "-Cstrip=symbols".to_owned()];
    flags.extend(remaps("/sysprobe", source.as_deref()));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    cmd::run(&mut cargo)?;
    Ok(arch.static_agent(profile))
}

/// Flags that keep this machine's paths out of the build output: the paths of the repository, of the
/// dependencies, and of the standard library's source if that is built too.
fn remaps(root: &str, source: Option<&Path>) -> Vec<String> {
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags = vec![remap(paths::root(), root)];
    flags.extend(paths::cargo_home().map(|home| remap(&home, "/cargo")));
    flags.extend(source.map(|source| remap(source, "/rustc")));
    flags
}

fn ebpf_cargo(toolchain: &Toolchain, arch: Arch) -> Command {
    let bin = toolchain.compiler.sysroot.join("bin");
    let source = toolchain.compiler.sysroot.join("lib/rustlib/src/rust");
    let mut flags: Vec<String> = RUSTFLAGS.into_iter().map(str::to_owned).collect();
    flags.push(format!("-Clinker={}", toolchain.linker.display()));
    // Relative, so that the linker finds the source lines that the verifier prints.
    flags.extend(remaps(".", Some(&source)));
    let mut cargo = cmd::tool(bin.join("cargo"));
    cargo.env("RUSTC", bin.join("rustc"));
    // `-Z` flags need a nightly compiler; with this variable, every compiler accepts them.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    if arch != Arch::HOST {
        // By default, aya takes the argument registers of the machine that compiles.
        cargo.env("AYA_BPF_TARGET_ARCH", arch.machine());
    }
    cargo.args(["build", "--profile", "dist", "--locked", "--package", "sysprobe-ebpf", "--bins"]);
    cargo
        .args(["-Z", "build-std=core", "--target", paths::BPF_TARGET, "--target-dir"])
        .arg(arch.ebpf_build());
    cargo
}

/// The names of the programs in `dir`, sorted.
fn bins(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("rs")) || path.join("main.rs").exists() {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// The linker's output without debug information.
fn stripped(path: &Path) -> Result<Vec<u8>> {
    let object = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    strip::strip(&object).with_context(|| format!("taking the debug information out of {}", path.display()))
}

/// Writes the objects that have changed to `directory`, and removes objects whose program is gone.
fn publish(directory: &Path, objects: &[(Vec<u8>, String)]) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    for (object, name) in objects {
        let target = directory.join(format!("{name}.o"));
        if fs::read(&target).ok().as_ref() != Some(object) {
            fs::write(&target, object).with_context(|| format!("writing {}", target.display()))?;
        }
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let known =
            path.file_stem().is_some_and(|stem| objects.iter().any(|(_, name)| stem == name.as_str()));
        if !known {
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_objects_keep_their_time_and_old_ones_go() {
        let dir = std::env::temp_dir().join(format!("xtask-publish-{}", std::process::id()));
        let sched = |content: &str| [(content.as_bytes().to_vec(), "sched".to_owned())];
        publish(&dir, &sched("one")).unwrap();
        fs::write(dir.join("gone.o"), "").unwrap();
        let before = fs::metadata(dir.join("sched.o")).unwrap().modified().unwrap();

        publish(&dir, &sched("one")).unwrap();
        assert_eq!(fs::metadata(dir.join("sched.o")).unwrap().modified().unwrap(), before);
        assert!(!dir.join("gone.o").exists());

        publish(&dir, &sched("two")).unwrap();
        assert_eq!(fs::read(dir.join("sched.o")).unwrap(), b"two");
        fs::remove_dir_all(&dir).unwrap();
    }
}
