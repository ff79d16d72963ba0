//! Decides how this machine gets its eBPF toolchain, as a pure function of the facts.
//!
//! For the compiler, in this order: one that is complete (nothing to install), library source through rustup,
//! the distribution's packages. Rustup's server may be out of reach; if that step fails, the next one is
//! tried.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::facts::{Compiler, Facts, Linker, Origin, Version};
use super::{LINKER_VERSION, LLVM};

/// Compiler, cargo and library source of one version, as Debian names them.
pub(crate) const RUST_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// What `bpf-linker` needs to be built against the pinned LLVM, as Debian names it.
pub(crate) const LINKER_PACKAGES: [&str; 3] = ["llvm-22-dev", "libpolly-22-dev", "clang-22"];

/// What has to be done, and why.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Ways to a compiler, the preferred one first.
    pub(crate) compiler: Vec<Way>,
    pub(crate) linker: LinkerStep,
    /// Reasons why an installed component is not used.
    pub(crate) notes: Vec<String>,
}

/// One way to a compiler with its library source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Ready(Compiler),
    AddSource { toolchain: String, compiler: Compiler },
    Packages,
}

/// How to get `bpf-linker`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkerStep {
    Ready(PathBuf),
    /// Build it against the LLVM at this prefix.
    Build(PathBuf),
    /// Install LLVM first, then build.
    PackagesAndBuild,
}

/// Makes the plan; the error tells the user why this machine cannot build eBPF programs.
pub(crate) fn plan(facts: &Facts) -> Result<Plan> {
    let mut notes = Vec::new();
    let compiler = ways(facts, &mut notes);
    if compiler.is_empty() {
        bail!("{}", no_compiler(facts));
    }
    Ok(Plan { compiler, linker: linker_step(facts, &mut notes)?, notes })
}

/// What the user can do about a missing compiler or library source.
pub(crate) fn no_compiler(facts: &Facts) -> String {
    let packages = RUST_PACKAGES.join(" ");
    let oldest = oldest_compiler();
    let with = if facts.apt {
        format!("run `apt-get install {packages}` as root")
    } else {
        format!(
            "install a rustc from {oldest} on with LLVM {LLVM} or older and its library source (`rust-src`)"
        )
    };
    format!("no usable rustc has its library source, which the BPF target needs: {with}, then run this again")
}

fn ways(facts: &Facts, notes: &mut Vec<String>) -> Vec<Way> {
    let mut usable: Vec<&Compiler> = Vec::new();
    for compiler in &facts.compilers {
        match unusable(compiler) {
            Some(reason) => notes.push(reason),
            None => usable.push(compiler),
        }
    }
    usable.sort_by_key(|compiler| preference(compiler));
    if let Some(ready) = usable.iter().find(|compiler| compiler.source) {
        return vec![Way::Ready((*ready).clone())];
    }
    let add_source = usable.iter().find_map(|compiler| match &compiler.origin {
        Origin::Rustup(name) => {
            Some(Way::AddSource { toolchain: name.clone(), compiler: (*compiler).clone() })
        }
        Origin::Distribution => None,
    });
    add_source.into_iter().chain(can_install(facts).then_some(Way::Packages)).collect()
}

/// The reason why a compiler cannot be used at all, with or without library source.
fn unusable(compiler: &Compiler) -> Option<String> {
    let Compiler { origin, version, llvm, .. } = compiler;
    if llvm.0 > LLVM {
        let why = format!("its LLVM {llvm} is newer than bpf-linker's LLVM {LLVM}");
        return Some(format!("Not using rustc {version} from {origin}: {why}."));
    }
    let oldest = oldest_compiler();
    let why = format!("this workspace needs {oldest} or newer");
    (*version < oldest).then(|| format!("Not using rustc {version} from {origin}: {why}."))
}

/// Nightly first: `-Z build-std` is made for it. Any other compiler is told to behave like one.
fn preference(compiler: &Compiler) -> u32 {
    match &compiler.origin {
        Origin::Rustup(name) if name.starts_with("nightly") => 0,
        Origin::Rustup(_) => 1,
        Origin::Distribution => 2,
    }
}

fn linker_step(facts: &Facts, notes: &mut Vec<String>) -> Result<LinkerStep> {
    for linker in &facts.linkers {
        match unfit(linker) {
            Some(reason) => notes.push(reason),
            None => return Ok(LinkerStep::Ready(linker.path.clone())),
        }
    }
    let complete = LINKER_PACKAGES.iter().all(|package| facts.packages.contains(package));
    match &facts.llvm {
        // Without apt the packages are unknown: an LLVM that answers is assumed to be complete.
        Some(prefix) if complete || !facts.apt => Ok(LinkerStep::Build(prefix.clone())),
        _ if can_install(facts) => Ok(LinkerStep::PackagesAndBuild),
        _ => bail!("{}", no_llvm(facts)),
    }
}

fn unfit(linker: &Linker) -> Option<String> {
    let Linker { path, version, llvm } = linker;
    let path = path.display();
    if version != LINKER_VERSION {
        return Some(format!("Not using {path}: it is version {version}, {LINKER_VERSION} was tested."));
    }
    let llvm = llvm.filter(|llvm| *llvm < LLVM)?;
    Some(format!("Not using {path}: it is built on LLVM {llvm}, which is older than {LLVM}."))
}

fn no_llvm(facts: &Facts) -> String {
    let how = if facts.apt {
        format!("run `apt-get install {}` as root", LINKER_PACKAGES.join(" "))
    } else {
        format!("install LLVM {LLVM} with its headers and set LLVM_PREFIX to its directory")
    };
    format!("bpf-linker {LINKER_VERSION} has to be built and needs LLVM {LLVM}: {how}, then run this again")
}

fn can_install(facts: &Facts) -> bool {
    facts.apt && facts.root
}

fn oldest_compiler() -> Version {
    Version::parse(env!("CARGO_PKG_RUST_VERSION")).expect("the workspace states a rust-version")
}
