//! `cargo xtask build`: the eBPF objects, then the agent that embeds them.
//!
//! Every program of `sysprobe-ebpf/src/bin` (a file, or a folder with `main.rs`) becomes one object in
//! `target/ebpf`, without debug information. An object is replaced only when its content has changed, since
//! the agent is rebuilt whenever one is newer.

mod arch;
pub(crate) mod cross;
mod strip;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::toolchain::Toolchain;
use crate::{cmd, paths, say, test, toolchain};
pub(crate) use arch::Arch;

/// The flags of the eBPF build. BTF comes from debug information. All kernels from 5.10 on know the third
/// version of the instruction set, whose 32-bit registers and jumps make smaller programs that are verified
/// faster.
const RUSTFLAGS: [&str; 3] = ["-Cdebuginfo=2", "-Clink-arg=--btf", "-Ctarget-cpu=v3"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build the agent optimised, as target/release/sysprobe
    #[arg(long)]
    release: bool,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    objects()?;
    let profile = if args.release { "release" } else { "debug" };
    say::step(format_args!("The program is {}.", agent(profile)?.display()));
    Ok(())
}

/// Builds objects and optimised agent; returns the program.
pub(crate) fn release() -> Result<PathBuf> {
    objects()?;
    agent("release")
}

/// Builds objects and the agent as it is shipped; returns the program.
pub(crate) fn dist() -> Result<PathBuf> {
    objects()?;
    agent("dist")
}

/// Builds objects and the agent as tests run it; returns the program.
///
/// Cargo chooses the features of all crates by what it is asked for. Asked for a file of tests, the smallest,
/// it builds the agent that all of them use, and what they have built is not built again.
pub(crate) fn debug() -> Result<PathBuf> {
    objects()?;
    say::step("Building the agent (debug).");
    cmd::run(test::cargo_test().args(["--no-run", "--test", "completion"]))?;
    Ok(paths::agent("debug"))
}

/// Builds the eBPF objects for this machine.
pub(crate) fn objects() -> Result<()> {
    objects_for(Arch::HOST)
}

/// Builds the eBPF objects for kernels of one kind of processor.
pub(crate) fn objects_for(arch: Arch) -> Result<()> {
    let toolchain = toolchain::ensure()?;
    let names = bins(&paths::ebpf_bins())?;
    say::step(format_args!("Building the eBPF objects for {}: {}.", arch.name(), names.join(", ")));
    cmd::run(&mut ebpf_cargo(&toolchain, arch))?;
    let built = paths::ebpf_build(arch).join(paths::BPF_TARGET).join("dist");
    let objects = names.into_iter().map(|name| Ok((stripped(&built.join(&name))?, name)));
    publish(&paths::objects(arch), &objects.collect::<Result<Vec<_>>>()?)
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

/// Builds the agent by one of the optimising profiles as a program that needs no other file, and without
/// names and paths of this machine.
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

/// Flags that keep this machine's paths out of what is built: those of the repository, of dependencies, and
/// of the source of the standard library where that is built, too.
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
    // Relative, so that the linker finds the lines of source that the verifier prints.
    flags.extend(remaps(".", Some(&source)));
    let mut cargo = cmd::tool(bin.join("cargo"));
    cargo.env("RUSTC", bin.join("rustc"));
    // `-Z` flags are for nightly compilers; any other one obeys them under this name.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    if arch != Arch::HOST {
        // aya takes the registers that arguments are in for those of the machine that compiles.
        cargo.env("AYA_BPF_TARGET_ARCH", arch.machine());
    }
    cargo.args(["build", "--profile", "dist", "--locked", "--package", "sysprobe-ebpf", "--bins"]);
    cargo
        .args(["-Z", "build-std=core", "--target", paths::BPF_TARGET, "--target-dir"])
        .arg(paths::ebpf_build(arch));
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

/// What the linker wrote, without debug information.
fn stripped(path: &Path) -> Result<Vec<u8>> {
    let object = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    strip::strip(&object).with_context(|| format!("taking the debug information out of {}", path.display()))
}

/// Writes what has changed to `directory`, and removes objects that have no program any more.
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
