//! Cross-compiling the agent: C compiler, C library and Rust's standard library for another architecture.
//!
//! A prebuilt standard library is used if the compiler has one for the target (`rustup target add`). If
//! rustup's server is out of reach, the compiler of the eBPF programs, which has the source, builds it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::arch::Arch;
use crate::{apt, cmd, paths, say, toolchain};

/// The cross compiler for one architecture.
pub(crate) struct Compiler {
    /// Cargo with the subcommand and the target already set.
    pub(crate) cargo: Command,
    /// The standard library's source, if it is compiled too.
    pub(crate) source: Option<PathBuf>,
}

/// Finds or installs what cargo's `build` or `test` needs for `arch`.
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

/// Builds with the compiler in `sysroot`. Tests need the `test` crate too; programs ignore it.
fn with_source(sysroot: &Path, arch: Arch, command: &str) -> Compiler {
    let mut cargo = with_target(cmd::tool(sysroot.join("bin/cargo")), arch, command);
    cargo.args(["-Z", "build-std=std,panic_abort,test", "--target-dir"]).arg(paths::target());
    cargo.env("RUSTC", sysroot.join("bin/rustc"));
    // `-Z` flags need a nightly compiler; with this variable, every compiler accepts them.
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
