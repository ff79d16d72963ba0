//! Finds the eBPF objects that `cargo xtask build` made, so that `include_bytes!` can embed them.

use std::env;
use std::path::Path;

fn main() {
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(directory());
    // `include_bytes!` tracks each object.
    println!("cargo::rerun-if-changed=build.rs");
    if !objects.is_dir() {
        println!("cargo::error={} is missing: run `cargo xtask build`, which makes it", objects.display());
    }
    println!("cargo::rustc-env=SYSPROBE_EBPF={}", objects.display());
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
