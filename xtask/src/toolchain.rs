//! The eBPF toolchain: a rustc with its library source, and `bpf-linker`.
//!
//! The BPF target has no prebuilt `core`, so cargo builds it (`-Z build-std`) from the library source of
//! exactly that compiler. `bpf-linker` reads the bitcode that rustc wrote, so its LLVM must be at least as
//! new as rustc's.
//!
//! [`facts`] inspects the machine, [`plan`] decides without side effects, [`install`] carries out the plan.

mod facts;
mod install;
mod plan;

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::say;

/// The `bpf-linker` version that is tested with the pinned versions of aya.
pub(crate) const LINKER_VERSION: &str = "0.13.0";

/// The LLVM that `bpf-linker` is built against.
pub(crate) const LLVM: u32 = 22;

/// What the eBPF build needs, found and complete.
pub(crate) struct Toolchain {
    pub(crate) compiler: facts::Compiler,
    pub(crate) linker: PathBuf,
}

/// `cargo xtask setup`.
pub(crate) fn setup() -> Result<()> {
    ensure().map(drop)
}

/// Finds the toolchain and installs what is missing.
pub(crate) fn ensure() -> Result<Toolchain> {
    let facts = facts::collect();
    let plan = plan::plan(&facts)?;
    let toolchain = install::carry_out(&plan).context("the eBPF toolchain is incomplete")?;
    let compiler = &toolchain.compiler;
    say::step(format_args!(
        "eBPF toolchain: rustc {} from {} (LLVM {}), {}.",
        compiler.version,
        compiler.origin,
        compiler.llvm,
        toolchain.linker.display()
    ));
    Ok(toolchain)
}
