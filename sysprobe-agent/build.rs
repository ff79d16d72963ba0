//! Finds the eBPF objects that `cargo xtask build` made, so that `include_bytes!` can embed them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let objects = manifest.join("../target").join(directory());
    for name in names(&manifest.join("../sysprobe-ebpf/src/bin")) {
        let object = objects.join(name).with_extension("o");
        println!("cargo::rerun-if-changed={}", object.display());
        if !object.exists() {
            println!("cargo::error={} is missing: run `cargo xtask build`, which makes it", object.display());
        }
    }
    println!("cargo::rustc-env=SYSPROBE_EBPF={}", objects.display());
}

/// The names of the objects: each has a file, or a directory with `main.rs`.
fn names(sources: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(sources).expect("the sources of the objects can be listed");
    let paths = entries.map(|entry| entry.expect("the sources of the objects can be listed").path());
    let is_program =
        |path: &PathBuf| path.extension() == Some(OsStr::new("rs")) || path.join("main.rs").exists();
    paths.filter(is_program).filter_map(|path| path.file_stem().map(OsStr::to_owned)).collect()
}

/// Kprobes read registers, so the objects for another kind of processor than this machine's lie beside its
/// own.
fn directory() -> String {
    let (host, machine) = (env::var("HOST"), env::var("CARGO_CFG_TARGET_ARCH"));
    match (host, machine) {
        (Ok(host), Ok(machine)) if !host.starts_with(&machine) => format!("ebpf-{machine}"),
        _ => "ebpf".to_owned(),
    }
}
