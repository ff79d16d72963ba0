//! The table of probes: names that the kernel accepts, attach modes in order.

use std::collections::HashSet;

use super::*;

#[test]
fn the_kernel_keeps_fifteen_characters_of_a_name() {
    for set in PROBES.iter().flat_map(|probe| probe.tiers) {
        let mut seen = HashSet::new();
        for program in set.programs {
            assert!(program.name.len() <= 15, "{}", program.name);
            assert!(seen.insert(program.name), "{} twice in one tier", program.name);
        }
    }
}

#[test]
fn programs_are_named_after_their_domain() {
    for probe in PROBES {
        for program in probe.tiers.iter().flat_map(|set| set.programs) {
            assert!(program.name.starts_with(probe.domain), "{}", program.name);
        }
    }
}

#[test]
fn a_domain_has_every_tier_that_can_be_the_best_first() {
    for probe in PROBES {
        let tiers: Vec<_> = probe.tiers.iter().map(|set| set.tier).collect();
        // Domains with tracepoints of their own prefer them; for `vfs`, system calls only replace the
        // functions.
        let wanted: &[_] = match probe.domain {
            "vfs" => &[Tier::Fentry, Tier::TpBtf, Tier::RawTp, Tier::Kprobe],
            // The functions around their tracepoints are inlined, or have other callers, too.
            "block" | "reclaim" => &[Tier::TpBtf, Tier::RawTp],
            // Only typed programs can use socket storage.
            "tcp" | "net" | "rxpath" => &[Tier::TpBtf, Tier::Fentry, Tier::RawTp, Tier::Kprobe],
            _ => &[Tier::TpBtf, Tier::RawTp, Tier::Fentry, Tier::Kprobe],
        };
        assert_eq!(tiers, wanted, "{}", probe.domain);
    }
}

#[test]
fn no_beginning_is_hooked_before_its_end() {
    let ends = |hook| matches!(hook, Hook::Fexit(_) | Hook::Kretprobe(_));
    for set in PROBES.iter().flat_map(|probe| probe.tiers) {
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
fn what_a_tier_cannot_do_without_is_of_its_kind() {
    for set in PROBES.iter().flat_map(|probe| probe.tiers) {
        for program in set.programs.iter().filter(|program| program.required) {
            let kind = match program.hook {
                Hook::TpBtf(_) => Some(Tier::TpBtf),
                Hook::Fentry(_) | Hook::Fexit(_) => Some(Tier::Fentry),
                Hook::Kprobe(_) | Hook::Kretprobe(_) => Some(Tier::Kprobe),
                Hook::RawTp(_) => Some(Tier::RawTp),
                Hook::OnDemand
                | Hook::TaskIterator
                | Hook::TaskScan
                | Hook::FileIterator
                | Hook::FileScan
                | Hook::SocketIterator(_) => None,
            };
            assert!(kind.is_none_or(|kind| kind == set.tier), "{}", program.name);
        }
    }
}
