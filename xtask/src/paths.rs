//! Paths in this repository.
//!
//! Host builds follow `CARGO_TARGET_DIR`. The eBPF objects do not: the agent's build script looks for them
//! under the workspace's own `target`.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The target triple of the kernel side. Every host this agent supports is little-endian.
pub(crate) const BPF_TARGET: &str = "bpfel-unknown-none";

/// The directory with the workspace's `Cargo.toml`.
///
/// Cargo names our manifest when it starts us. The path that was compiled in is the fallback: if two
/// checkouts share a target directory, it may be the other checkout's.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let ours = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&ours).parent().expect("the manifest of xtask lies one below the root").to_owned()
    })
}

/// Sources of the eBPF programs: one file per object.
pub(crate) fn ebpf_bins() -> PathBuf {
    root().join("sysprobe-ebpf/src/bin")
}

/// Cargo's directory for host builds.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The agent's binary of one profile (`debug`, `release` or `dist`).
pub(crate) fn agent(profile: &str) -> PathBuf {
    target().join(profile).join("sysprobe")
}

/// Finds a program on `PATH`, then in cargo's directory for installed programs, which a fresh shell may lack.
pub(crate) fn find_programs(name: &str) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in env::split_paths(&path).chain(cargo_bin()) {
        let file = dir.join(name);
        if file.is_file() && !found.contains(&file) {
            found.push(file);
        }
    }
    found
}

/// Third-party programs that are built from source, once for all clones. `SYSPROBE_TOOLS` overrides the
/// place.
pub(crate) fn tools() -> PathBuf {
    // The XDG specification says to ignore a relative path.
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|cache| cache.is_absolute());
    let cache = cache.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    let usual = || cache.map_or_else(|| root().join("target/tools"), |cache| cache.join("sysprobe"));
    env::var_os("SYSPROBE_TOOLS").map_or_else(usual, PathBuf::from)
}

fn cargo_bin() -> Option<PathBuf> {
    cargo_home().map(|home| home.join("bin"))
}

/// Where cargo keeps what it has fetched.
pub(crate) fn cargo_home() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| env::home_dir().map(|dir| dir.join(".cargo")))
}
