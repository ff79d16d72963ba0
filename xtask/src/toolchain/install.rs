//! Carries out the toolchain plan step by step, and announces each step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::facts::{self, Compiler, Facts};
use super::plan::{self, LINKER_PACKAGES, LinkerStep, Plan, RUST_PACKAGES, Way};
use super::{LINKER_VERSION, LLVM, Toolchain};
use crate::{apt, cmd, say};

/// Rustup's `rust-src` is a few megabytes: a download that takes longer is stuck.
const RUSTUP_LIMIT: Duration = Duration::from_secs(60);

/// Installs what the plan says and returns the complete toolchain.
pub(crate) fn carry_out(plan: &Plan) -> Result<Toolchain> {
    let nothing_to_do = matches!((&plan.compiler[..], &plan.linker), ([Way::Ready(_)], LinkerStep::Ready(_)));
    if !nothing_to_do {
        plan.notes.iter().for_each(say::step);
    }
    Ok(Toolchain { compiler: compiler(&plan.compiler)?, linker: linker(&plan.linker)? })
}

fn compiler(ways: &[Way]) -> Result<Compiler> {
    for way in ways {
        match way {
            Way::Ready(compiler) => return Ok(compiler.clone()),
            Way::AddSource { toolchain, compiler } => {
                if let Some(compiler) = add_source(toolchain, compiler) {
                    return Ok(compiler);
                }
            }
            Way::Packages => return packages(),
        }
    }
    bail!("{}", plan::no_compiler(&Facts { apt: apt::available(), ..Facts::default() }))
}

/// Asks rustup for the library source. A failure is not an error: there may be another way.
fn add_source(toolchain: &str, compiler: &Compiler) -> Option<Compiler> {
    say::step(format_args!(
        "The BPF target needs the library source of rustc: asking rustup to add it to {toolchain}."
    ));
    let mut rustup = cmd::tool("rustup");
    rustup.args(["component", "add", "rust-src", "--toolchain", toolchain]);
    // With this variable, rustup prints a page of stack for a failed download.
    rustup.env_remove("RUST_BACKTRACE");
    if let Err(error) = cmd::run_within(&mut rustup, RUSTUP_LIMIT) {
        say::step(format_args!("Rustup could not add it: {error}."));
        return None;
    }
    facts::compiler(compiler.origin.clone(), compiler.sysroot.clone()).filter(|compiler| compiler.source)
}

fn packages() -> Result<Compiler> {
    apt::install(&RUST_PACKAGES, "A rustc with its library source, which the BPF target needs")?;
    let compiler =
        facts::distribution_compiler().filter(|compiler| compiler.source && compiler.llvm.0 <= LLVM);
    let names = RUST_PACKAGES.join(" ");
    compiler.with_context(|| {
        format!(
            "the packages {names} are installed but do not give a rustc of LLVM {LLVM} or older with its \
                 source"
        )
    })
}

fn linker(step: &LinkerStep) -> Result<PathBuf> {
    match step {
        LinkerStep::Ready(path) => Ok(path.clone()),
        LinkerStep::Build(llvm) => build_linker(llvm),
        LinkerStep::PackagesAndBuild => {
            apt::install(&LINKER_PACKAGES, "LLVM, which bpf-linker is built against")?;
            build_linker(Path::new(&format!("/usr/lib/llvm-{LLVM}")))
        }
    }
}

fn build_linker(llvm: &Path) -> Result<PathBuf> {
    say::step(format_args!(
        "rustc cannot link for BPF by itself: building bpf-linker {LINKER_VERSION} against LLVM {LLVM} (a \
         minute)."
    ));
    let mut install = cmd::tool("cargo");
    install.env("LLVM_PREFIX", llvm).args(["install", "bpf-linker", "--version", LINKER_VERSION, "--locked"]);
    // The plan found no usable linker, so an existing one of this name may be replaced.
    install.args(["--force", "--no-default-features", "--features", &format!("llvm-{LLVM}")]);
    cmd::run(&mut install)?;
    let installed = facts::collect().linkers.into_iter().find(|linker| linker.version == LINKER_VERSION);
    let installed = installed.with_context(|| {
        format!(
            "bpf-linker {LINKER_VERSION} was installed but is not found: add cargo's bin directory to PATH"
        )
    })?;
    Ok(installed.path)
}
