//! The table of probes: names that the kernel accepts, attach modes in order.

use std::collections::HashSet;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};

use super::*;

#[test]
fn the_kernel_keeps_fifteen_characters_of_a_name() {
    for set in PROBES.iter().flat_map(|probe| probe.sets) {
        let mut seen = HashSet::new();
        for program in set.programs {
            assert!(program.name.len() <= 15, "{}", program.name);
            assert!(seen.insert(program.name), "{} twice in one attach mode", program.name);
        }
    }
}

#[test]
fn programs_are_named_after_their_domain() {
    for probe in PROBES {
        for program in probe.sets.iter().flat_map(|set| set.programs) {
            assert!(program.name.starts_with(probe.domain), "{}", program.name);
        }
    }
}

#[test]
fn the_attach_modes_of_a_domain_are_in_the_order_of_their_cost() {
    use AttachMode::{Fentry, Kprobe, RawTp, TpBtf};
    for probe in PROBES {
        let modes: Vec<_> = probe.sets.iter().map(|set| set.mode).collect();
        let wanted: &[_] = match probe.domain {
            // System calls only replace the functions.
            "vfs" => &[Fentry, TpBtf, RawTp, Kprobe],
            // Only typed programs can use socket storage.
            "tcp" | "net" | "rxpath" => &[TpBtf, Fentry, RawTp, Kprobe],
            "cgroup" | "sched" => &[TpBtf, RawTp, Fentry, Kprobe],
            // The functions around the tracepoints of `block` and `reclaim` are inlined, or have other
            // callers, too.
            _ => &[TpBtf, RawTp],
        };
        assert_eq!(modes, wanted, "{}", probe.domain);
    }
}

#[test]
fn no_beginning_is_hooked_before_its_end() {
    let ends = |hook| matches!(hook, Hook::Fexit(_) | Hook::Kretprobe(_));
    for set in PROBES.iter().flat_map(|probe| probe.sets) {
        for (at, end) in set.programs.iter().enumerate().filter(|(_, program)| ends(program.hook)) {
            let is_its =
                |program: &&Program| program.hook.target() == end.hook.target() && !ends(program.hook);
            assert!(!set.programs[..at].iter().any(|program| is_its(&program)), "{}", end.name);
            // An exit program that needs nothing from the entry has no entry program.
            if let Some(begin) = set.programs.iter().find(is_its) {
                assert_eq!((begin.required, begin.older), (end.required, end.older), "{}", end.name);
            }
        }
    }
}

#[test]
fn what_an_attach_mode_cannot_do_without_is_of_its_kind() {
    for set in PROBES.iter().flat_map(|probe| probe.sets) {
        for program in set.programs.iter().filter(|program| program.required) {
            let kind = match program.hook {
                Hook::TpBtf(_) => Some(AttachMode::TpBtf),
                Hook::Fentry(_) | Hook::Fexit(_) => Some(AttachMode::Fentry),
                Hook::Kprobe(_) | Hook::Kretprobe(_) => Some(AttachMode::Kprobe),
                Hook::RawTp(_) => Some(AttachMode::RawTp),
                Hook::OnDemand
                | Hook::TaskIterator
                | Hook::TaskScan
                | Hook::FileIterator
                | Hook::FileScan
                | Hook::SocketIterator(_) => None,
            };
            assert!(kind.is_none_or(|kind| kind == set.mode), "{}", program.name);
        }
    }
}

/// These functions go byte by byte, at several instructions for each.
#[test]
fn no_program_calls_a_function_to_set_or_copy_memory() {
    for set in PROBES.iter().flat_map(|probe| probe.sets) {
        let object = object::File::parse(set.object.bytes).expect("an object");
        let targets = object.sections().flat_map(|section| section.relocations().collect::<Vec<_>>());
        let symbols = targets.filter_map(|(_, relocation)| match relocation.target() {
            RelocationTarget::Symbol(index) => object.symbol_by_index(index).ok()?.name().ok(),
            _ => None,
        });
        let called: Vec<_> = symbols.filter(|name| name.starts_with("mem") || *name == "bcmp").collect();
        assert!(called.is_empty(), "{}: {called:?}", set.object.file);
    }
}
