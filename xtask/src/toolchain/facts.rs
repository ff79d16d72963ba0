//! What this machine offers for building eBPF programs. This module only looks; it changes and decides
//! nothing.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::LLVM;
use super::plan::{LINKER_PACKAGES, RUST_PACKAGES};
use crate::{apt, cmd, paths};

/// Everything the plan depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) compilers: Vec<Compiler>,
    pub(crate) linkers: Vec<Linker>,
    /// An LLVM of the pinned version with headers and `llvm-config`.
    pub(crate) llvm: Option<PathBuf>,
    /// Packages of the two lists in `plan` that are installed.
    pub(crate) packages: Vec<&'static str>,
    pub(crate) apt: bool,
    pub(crate) root: bool,
}

/// One installed rustc with its cargo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiler {
    pub(crate) origin: Origin,
    /// Holds `bin/rustc` and `bin/cargo`. They are called directly, so rustup's proxies cannot choose another
    /// toolchain.
    pub(crate) sysroot: PathBuf,
    pub(crate) version: Version,
    pub(crate) llvm: Version,
    /// Whether the library source is there.
    pub(crate) source: bool,
}

/// How a compiler was installed, and therefore how to add its library source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Rustup(String),
    Distribution,
}

/// One installed `bpf-linker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Linker {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
    /// The LLVM that it is linked with; unknown if LLVM is linked statically.
    pub(crate) llvm: Option<u32>,
}

/// The first three numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

/// Inspects this machine.
pub(crate) fn collect() -> Facts {
    let known = RUST_PACKAGES.iter().chain(&LINKER_PACKAGES).copied();
    Facts {
        compilers: rustup_compilers().into_iter().chain(distribution_compiler()).collect(),
        linkers: paths::find_programs("bpf-linker").into_iter().filter_map(linker).collect(),
        llvm: llvm(),
        packages: known.filter(|package| apt::installed(package)).collect(),
        apt: apt::available(),
        root: apt::root(),
    }
}

/// The compilers that came with the distribution, which live in `/usr`.
pub(crate) fn distribution_compiler() -> Option<Compiler> {
    compiler(Origin::Distribution, PathBuf::from("/usr"))
}

/// The compiler in `sysroot`, if there is one with a cargo beside it.
pub(crate) fn compiler(origin: Origin, sysroot: PathBuf) -> Option<Compiler> {
    let verbose = cmd::capture(cmd::tool(sysroot.join("bin/rustc")).arg("-vV"))?;
    let field =
        |name: &str| verbose.lines().find_map(|line| line.strip_prefix(name)).and_then(Version::parse);
    let library = sysroot.join("lib/rustlib/src/rust/library/core");
    sysroot.join("bin/cargo").exists().then_some(Compiler {
        origin,
        version: field("release: ")?,
        llvm: field("LLVM version: ")?,
        source: library.exists(),
        sysroot,
    })
}

fn rustup_compilers() -> Vec<Compiler> {
    let list = cmd::capture(cmd::tool("rustup").args(["toolchain", "list"])).unwrap_or_default();
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.filter_map(|name| compiler(Origin::Rustup(name.to_owned()), rustup_sysroot(name)?)).collect()
}

/// Asks the compiler itself: `rustup run` never downloads a toolchain that is merely named.
fn rustup_sysroot(name: &str) -> Option<PathBuf> {
    let sysroot = cmd::capture(cmd::tool("rustup").args(["run", name, "rustc", "--print", "sysroot"]))?;
    Some(PathBuf::from(sysroot.trim_end()))
}

fn linker(path: PathBuf) -> Option<Linker> {
    let version = cmd::capture(cmd::tool(&path).arg("--version"))?;
    let version = version.trim().strip_prefix("bpf-linker ")?.to_owned();
    let libraries = cmd::capture(cmd::tool("ldd").arg(&path)).unwrap_or_default();
    Some(Linker { llvm: linked_llvm(&libraries), path, version })
}

/// Finds the LLVM version among the shared libraries: `libLLVM.so.22.1` or, before LLVM 18,
/// `libLLVM-17.so.1`.
fn linked_llvm(libraries: &str) -> Option<u32> {
    let name = libraries.lines().find_map(|line| line.trim().strip_prefix("libLLVM"))?;
    let digits = name.trim_start_matches(".so").trim_start_matches(['.', '-']);
    digits.split(['.', ' ']).next()?.parse().ok()
}

fn llvm() -> Option<PathBuf> {
    let chosen = env::var_os("LLVM_PREFIX").map(PathBuf::from);
    let packaged = PathBuf::from(format!("/usr/lib/llvm-{LLVM}"));
    chosen.into_iter().chain([packaged]).find(|prefix| is_pinned_llvm(prefix))
}

fn is_pinned_llvm(prefix: &Path) -> bool {
    let version = cmd::capture(Command::new(prefix.join("bin/llvm-config")).arg("--version"));
    version.as_deref().and_then(Version::parse).is_some_and(|version| version.0 == LLVM)
}

// === impl Version ===

impl Version {
    /// Parses `1.97.0-nightly` as 1.97.0; missing parts are zero.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let plain = text.trim().split(['-', '+', ' ']).next()?;
        let mut parts = plain.split('.').map(|part| part.parse().ok());
        Some(Self(parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

// === impl Origin ===

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rustup(name) => write!(f, "rustup's {name}"),
            Self::Distribution => f.write_str("the distribution's packages"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_rustc_writes_them() {
        assert_eq!(Version::parse("1.97.0-nightly"), Some(Version(1, 97, 0)));
        assert_eq!(Version::parse("22.1.8"), Some(Version(22, 1, 8)));
        assert_eq!(Version::parse("22.1\n"), Some(Version(22, 1, 0)));
        assert_eq!(Version::parse("unknown"), None);
        assert!(Version(1, 9, 0) < Version(1, 88, 0));
    }

    #[test]
    fn the_linkers_llvm_is_read_from_its_libraries() {
        assert_eq!(
            linked_llvm("\tlibLLVM.so.22.1 => /usr/lib/llvm-22/lib/libLLVM.so.22.1 (0x7fb0)\n"),
            Some(22)
        );
        assert_eq!(linked_llvm("\tlibLLVM-17.so.1 => /usr/lib/libLLVM-17.so.1 (0x7fb0)\n"), Some(17));
        assert_eq!(linked_llvm("\tlibc.so.6 => /lib/libc.so.6 (0x7fb0)\n"), None);
    }
}
