//! Typical machines, and the plan for each.

use std::path::Path;

use super::*;

fn rustup(name: &str, llvm: u32, source: bool) -> Compiler {
    Compiler {
        origin: Origin::Rustup(name.to_owned()),
        sysroot: Path::new("/rustup").join(name),
        version: Version(1, 95, 0),
        llvm: Version(llvm, 1, 2),
        source,
    }
}

fn debian(source: bool) -> Compiler {
    let (version, llvm) = (Version(1, 96, 0), Version(22, 1, 8));
    Compiler { origin: Origin::Distribution, sysroot: "/usr".into(), version, llvm, source }
}

fn linker(version: &str, llvm: Option<u32>) -> Linker {
    Linker { path: "/cargo/bin/bpf-linker".into(), version: version.to_owned(), llvm }
}

/// Root on Debian with a rustup that lacks the library source: a typical new user's machine.
fn fresh() -> Facts {
    Facts { compilers: vec![rustup("stable", 22, false)], apt: true, root: true, ..Facts::default() }
}

/// The same machine with everything installed.
fn complete() -> Facts {
    Facts {
        compilers: vec![rustup("stable", 22, false), debian(true)],
        linkers: vec![linker(LINKER_VERSION, Some(LLVM))],
        llvm: Some("/usr/lib/llvm-22".into()),
        packages: RUST_PACKAGES.iter().chain(&LINKER_PACKAGES).copied().collect(),
        ..fresh()
    }
}

fn refusal(facts: &Facts) -> String {
    let error = plan(facts).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.ends_with("then run this again"), "{error}");
    error
}

#[test]
fn a_fresh_machine_tries_rustup_then_packages() {
    let plan = plan(&fresh()).unwrap();
    let [Way::AddSource { toolchain, .. }, Way::Packages] = plan.compiler.as_slice() else {
        panic!("{:?}", plan.compiler);
    };
    assert_eq!(toolchain, "stable");
    assert_eq!(plan.linker, LinkerStep::PackagesAndBuild);
    assert!(plan.notes.is_empty());
}

#[test]
fn without_any_rustc_the_packages_bring_one() {
    let plan = plan(&Facts { compilers: vec![], ..fresh() }).unwrap();
    assert_eq!(plan.compiler, [Way::Packages]);
}

#[test]
fn a_complete_machine_installs_nothing() {
    let plan = plan(&complete()).unwrap();
    assert_eq!(plan.compiler, [Way::Ready(debian(true))]);
    assert_eq!(plan.linker, LinkerStep::Ready("/cargo/bin/bpf-linker".into()));
}

#[test]
fn rustups_source_is_preferred_and_nightlys_first() {
    let compilers = vec![debian(true), rustup("stable", 22, true), rustup("nightly-x", 22, true)];
    let plan = plan(&Facts { compilers, ..complete() }).unwrap();
    assert_eq!(plan.compiler, [Way::Ready(rustup("nightly-x", 22, true))]);
}

#[test]
fn installed_packages_are_preferred_to_a_download_by_rustup() {
    let compilers = vec![rustup("nightly", 22, false), debian(true)];
    let plan = plan(&Facts { compilers, ..complete() }).unwrap();
    assert_eq!(plan.compiler, [Way::Ready(debian(true))]);
}

#[test]
fn a_newer_llvm_is_skipped_with_a_reason() {
    let compilers = vec![rustup("nightly", LLVM + 1, true), rustup("stable", LLVM, false)];
    let plan = plan(&Facts { compilers, ..fresh() }).unwrap();
    assert!(matches!(&plan.compiler[0], Way::AddSource { toolchain, .. } if toolchain == "stable"));
    let reason =
        "Not using rustc 1.95.0 from rustup's nightly: its LLVM 23.1.2 is newer than bpf-linker's LLVM 22.";
    assert_eq!(plan.notes, [reason]);
}

#[test]
fn an_old_rustc_of_the_distribution_is_replaced() {
    let old = Compiler { version: Version(1, 63, 0), llvm: Version(14, 0, 6), ..debian(false) };
    let plan = plan(&Facts { compilers: vec![old], ..fresh() }).unwrap();
    assert_eq!(plan.compiler, [Way::Packages]);
    assert!(plan.notes[0].contains("rustc 1.63.0") && plan.notes[0].contains("or newer"), "{:?}", plan.notes);
}

#[test]
fn a_user_who_is_not_root_is_told_the_packages() {
    let nobody = Facts { compilers: vec![], root: false, ..fresh() };
    assert!(refusal(&nobody).contains("`apt-get install rustc-web cargo-web rust-web-src` as root"));
    let with_rustup = Facts { root: false, ..fresh() };
    assert!(refusal(&with_rustup).contains("`apt-get install llvm-22-dev libpolly-22-dev clang-22` as root"));
}

#[test]
fn a_user_who_is_not_root_can_use_what_is_there() {
    let plan = plan(&Facts { root: false, ..complete() }).unwrap();
    assert!(matches!(plan.compiler[..], [Way::Ready(_)]));
    let plan = super::plan(&Facts { root: false, linkers: vec![], ..complete() }).unwrap();
    assert_eq!(plan.linker, LinkerStep::Build("/usr/lib/llvm-22".into()));
}

#[test]
fn without_apt_the_requirements_are_named() {
    let none = Facts { compilers: vec![], apt: false, ..fresh() };
    assert!(refusal(&none).contains("install a rustc from 1."));
    let no_llvm = Facts { compilers: vec![rustup("stable", 22, true)], apt: false, ..fresh() };
    assert!(refusal(&no_llvm).contains("set LLVM_PREFIX"));
    let own_llvm = Facts { llvm: Some("/opt/llvm".into()), ..no_llvm };
    assert_eq!(plan(&own_llvm).unwrap().linker, LinkerStep::Build("/opt/llvm".into()));
}

#[test]
fn another_linker_is_not_used() {
    for (wrong, reason) in [
        (linker("0.12.0", Some(LLVM)), "it is version 0.12.0"),
        (linker(LINKER_VERSION, Some(LLVM - 1)), "it is built on LLVM 21"),
    ] {
        let plan = plan(&Facts { linkers: vec![wrong], ..complete() }).unwrap();
        assert_eq!(plan.linker, LinkerStep::Build("/usr/lib/llvm-22".into()));
        assert!(plan.notes[0].contains(reason), "{:?}", plan.notes);
    }
}

#[test]
fn the_right_linker_is_found_behind_a_wrong_one() {
    let right = Linker { path: "/right".into(), ..linker(LINKER_VERSION, None) };
    let linkers = vec![linker("0.9.1", None), right];
    let plan = plan(&Facts { linkers, ..complete() }).unwrap();
    assert_eq!(plan.linker, LinkerStep::Ready("/right".into()));
}

#[test]
fn half_installed_packages_are_completed() {
    let packages = vec!["llvm-22-dev"];
    let plan = plan(&Facts { linkers: vec![], packages, ..complete() }).unwrap();
    assert_eq!(plan.linker, LinkerStep::PackagesAndBuild);
}
