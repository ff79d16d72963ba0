//! Compiling the agent for one kind of processor on a machine of another: C compiler, C library and Rust's
//! standard library.
//!
//! Rust's is used where the compiler has it for that target (`rustup target add`). Rustup's server may be out
//! of reach; then it is compiled by the compiler of the eBPF programs, which has the source at hand.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::arch::Arch;
use crate::{apt, cmd, paths, say, toolchain};

/// What compiles for one kind of processor.
pub(crate) struct Compiler {
    /// Cargo with its command and the target's name.
    pub(crate) cargo: Command,
    /// Where the standard library's source is, if that is compiled too.
    pub(crate) source: Option<PathBuf>,
}

/// Finds or installs what cargo's `build` or `test` for `arch` takes.
pub(crate) fn compiler(arch: Arch, command: &str) -> Result<Compiler> {
    if arch == Arch::HOST {
        return Ok(Compiler { cargo: with_target(cmd::cargo(), arch, command), source: None });
    }
    apt::ensure(
        &arch.packages(),
        &format!("Programs for {} take its C compiler and C library", arch.name()),
    )?;
    let mut compiler = if has_library(arch) {
        Compiler { cargo: with_target(cmd::cargo(), arch, command), source: None }
    } else {
        let why = format!("This compiler has no standard library for {}", arch.target());
        say::step(format_args!("{why}: another one compiles it from source."));
        with_source(&toolchain::ensure()?.compiler.sysroot, arch, command)
    };
    let target = arch.target().replace('-', "_");
    compiler.cargo.env(format!("CC_{target}"), arch.compiler());
    compiler.cargo.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase()), arch.compiler());
    Ok(compiler)
}

fn with_target(mut cargo: Command, arch: Arch, command: &str) -> Command {
    cargo.args([command, "--locked", "--target", arch.target()]);
    cargo
}

/// By the compiler in `sysroot`. Tests want the standard library's part for them, programs leave it out.
fn with_source(sysroot: &Path, arch: Arch, command: &str) -> Compiler {
    let mut cargo = with_target(cmd::tool(sysroot.join("bin/cargo")), arch, command);
    cargo.args(["-Z", "build-std=std,panic_abort,test", "--target-dir"]).arg(paths::target());
    cargo.env("RUSTC", sysroot.join("bin/rustc"));
    // `-Z` flags are for nightly compilers; any other one obeys them under this name.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    Compiler { cargo, source: Some(sysroot.join("lib/rustlib/src/rust")) }
}

/// Whether the compiler beside the cargo that started us has the target's standard library.
fn has_library(arch: Arch) -> bool {
    let compiler = env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc"));
    let compiler = compiler.unwrap_or_else(|| "rustc".into());
    let place =
        cmd::capture(cmd::tool(compiler).args(["--print", "target-libdir", "--target", arch.target()]));
    place.is_some_and(|place| Path::new(place.trim()).is_dir())
}
