//! Plans for hosts that offer everything, and for hosts that lack one thing.

use std::collections::BTreeSet;

use super::fixture::{cpus, facts, layout, v1, v2};
use super::*;
use crate::config::Domains;
use crate::host::{Layout, Offers, Pressure};
use crate::probe::{self, Target};

fn reason(facts: &Facts, config: &Config, domain: &str) -> String {
    match Plan::new(facts, config).decision(domain) {
        Some(Decision::Off(reason)) => reason.clone(),
        other => panic!("{domain} should be off, but is {other:?}"),
    }
}

fn global(facts: &Facts, domain: &str, name: &str) -> u32 {
    global_by(&Config::default(), facts, domain, name)
}

fn global_by(config: &Config, facts: &Facts, domain: &str, name: &str) -> u32 {
    let plan = Plan::new(facts, config);
    let Some(Decision::On(candidates)) = plan.decision(domain) else { panic!("{domain} should be on") };
    candidates[0].globals.iter().find(|(global, _)| *global == name).expect("is set").1
}

#[test]
fn a_complete_host_has_every_domain() {
    let plan = Plan::new(&facts(), &Config::default());
    assert!(plan.domains.iter().all(DomainPlan::is_on), "{:?}", plan.domains);
    assert_eq!(plan.domains.len(), PROBES.len() + 3);
    assert!(plan.warnings.is_empty());
}

#[test]
fn the_default_hierarchy_is_reached_directly_and_v1_through_the_controller() {
    let mut facts = facts();
    let layout = layout();
    assert_eq!(global(&facts, "sched", "CFG_VIA_CONTROLLER"), 0);
    let direct = layout.get(CSS_SET_DEFAULT).expect("present");
    assert_eq!(global(&facts, "sched", "OFF_CSS_SET_LINK"), direct);

    facts.hierarchy = Ok(v1());
    let array = layout.get(CSS_SET_SUBSYS).expect("present");
    let controller = layout.get(CPU_CONTROLLER).expect("present");
    assert_eq!(global(&facts, "sched", "OFF_CSS_SET_LINK"), array + 8 * controller);
    assert_eq!(global(&facts, "sched", "CFG_VIA_CONTROLLER"), 1);
    assert_eq!(global(&facts, "cgroup", "CFG_VIA_CONTROLLER"), 1);
}

/// A program is left out if its condition is not [`ABSENT`].
#[test]
fn sctp_is_hooked_where_the_kernel_has_it() {
    let kprobes = Config { attach: Some(AttachMode::Kprobe), ..Config::default() };
    let condition = |has_sctp| global_by(&kprobes, &Facts { has_sctp, ..facts() }, "net", probe::NO_SCTP);
    assert_eq!([true, false].map(condition), [probe::ABSENT, 0]);
}

#[test]
fn a_missing_capability_is_named_and_files_are_read_all_the_same() {
    let mut facts = facts();
    facts.privilege.perfmon = false;
    let reason = reason(&facts, &Config::default(), "sched");
    assert!(reason.contains("CAP_PERFMON") && !reason.contains("CAP_BPF"), "{reason}");
    assert!(matches!(Plan::new(&facts, &Config::default()).decision("cpu"), Some(Decision::On(_))));
}

#[test]
fn a_missing_member_turns_off_the_domains_that_read_it() {
    let mut facts = facts();
    let without = probe::wanted().filter(|path| *path != "task_struct.sched_info.run_delay");
    facts.layout = Ok(Layout::from_pairs(without.map(|path| (path, 0))));
    assert_eq!(
        reason(&facts, &Config::default(), "sched"),
        "this kernel has no task_struct.sched_info.run_delay"
    );
    assert!(matches!(Plan::new(&facts, &Config::default()).decision("cgroup"), Some(Decision::On(_))));
}

#[test]
fn without_btf_the_reason_is_that_of_the_btf() {
    let mut facts = facts();
    facts.layout = Err("no BTF here".into());
    assert_eq!(reason(&facts, &Config::default(), "sched"), "no BTF here");
}

#[test]
fn without_cgroups_nothing_can_be_told_apart() {
    let mut facts = facts();
    facts.hierarchy = Err("no cgroups here".into());
    for domain in ["sched", "cgroup", "cpu", "memory", "pressure"] {
        assert_eq!(reason(&facts, &Config::default(), domain), "no cgroups here");
    }
}

#[test]
fn v1_has_memory_in_its_own_hierarchy_and_pressure_nowhere() {
    let v1 = Facts { hierarchy: Ok(v1()), ..facts() };
    assert!(matches!(Plan::new(&v1, &Config::default()).decision("memory"), Some(Decision::On(_))));
    assert!(reason(&v1, &Config::default(), "pressure").contains("only v2"));
    let mut without = v1;
    without.hierarchy.as_mut().expect("there is one").memory = false;
    assert!(reason(&without, &Config::default(), "memory").contains("the memory controller is not"));
    assert!(matches!(Plan::new(&without, &Config::default()).decision("cpu"), Some(Decision::On(_))));
}

#[test]
fn what_the_kernel_was_started_without_is_named() {
    for (pressure, says) in [(Pressure::Off, "psi=1"), (Pressure::Absent, "CONFIG_PSI")] {
        let hierarchy = Hierarchy { memory: false, pressure, ..v2() };
        let facts = Facts { hierarchy: Ok(hierarchy), ..facts() };
        assert!(reason(&facts, &Config::default(), "pressure").contains(says));
        assert!(reason(&facts, &Config::default(), "memory").contains("CONFIG_MEMCG"));
    }
}

#[test]
fn the_configuration_turns_domains_off() {
    for name in Domains::names() {
        let config = Config { domains: Domains::without(&[name]), ..Config::default() };
        assert!(reason(&facts(), &config, name).contains(&format!("domains.{name}")));
    }
}

#[test]
fn five_hundred_pods_on_sixty_four_cpus_fit_the_memory_limit() {
    let mut facts = facts();
    // Task and socket storage has a separate budget.
    (facts.cpus, facts.threads, facts.sockets) = (cpus(64), 0, Some(0));
    let plan = Plan::new(&facts, &Config::default());
    let bytes = plan.map_bytes();
    assert!(plan.slots == 2048 && bytes <= 64 << 20, "{bytes} bytes: {:?}", plan.sizes);
}

#[test]
fn the_maps_are_those_of_the_attach_modes_that_the_kernel_takes() {
    let plan = Plan::new(&facts(), &Config::default());
    let tasks = |plan: &Plan| plan.maps.iter().find(|map| map.map == "SCHED_TASKS").map(|map| map.entries);
    assert_eq!(tasks(&plan), Some(10_000), "the threads that there are");
    let finalized = plan.clone().finalized(|domain| (domain == "sched").then_some(AttachMode::RawTp));
    assert_eq!(tasks(&finalized), Some(32_768), "the hash is sized by the configuration");
    assert!(finalized.maps.iter().all(|map| map.domain == "sched"), "the other domain is off");
}

#[test]
fn a_foreign_pid_namespace_is_warned_of() {
    let mut facts = facts();
    facts.sees_all_processes = false;
    assert_eq!(Plan::new(&facts, &Config::default()).warnings.len(), 1);
}

/// The candidates of a domain, and the reasons against its other attach modes.
fn modes(facts: &Facts, domain: &str) -> (Vec<AttachMode>, Vec<String>) {
    let plan = Plan::new(facts, &Config::default());
    let Some(Decision::On(candidates)) = plan.decision(domain) else { panic!("{domain} should be on") };
    let planned = plan.domains.iter().find(|planned| planned.name == domain).expect("planned");
    let modes = candidates.iter().map(|candidate| candidate.mode);
    (modes.collect(), planned.passed_over.iter().map(Reason::to_string).collect())
}

#[test]
fn attach_modes_are_tried_from_the_cheapest_on() {
    let all = [AttachMode::TpBtf, AttachMode::RawTp, AttachMode::Fentry, AttachMode::Kprobe];
    for domain in ["cgroup", "sched"] {
        assert_eq!(modes(&facts(), domain), (all.to_vec(), Vec::new()));
    }
}

#[test]
fn a_kernel_without_kprobes_or_trampolines_keeps_its_tracepoints() {
    let mut facts = facts();
    facts.offers.kprobes = Some(false);
    let (tried, against) = modes(&facts, "cgroup");
    assert_eq!(tried, [AttachMode::TpBtf, AttachMode::RawTp, AttachMode::Fentry]);
    assert_eq!(against, ["kprobe: this kernel has no kprobes (CONFIG_KPROBES)"]);
}

#[test]
fn who_may_not_open_counters_has_no_kprobes() {
    let mut facts = facts();
    facts.privilege.counters = false;
    let (tried, against) = modes(&facts, "cgroup");
    assert_eq!(tried, [AttachMode::TpBtf, AttachMode::RawTp, AttachMode::Fentry]);
    assert!(matches!(&*against, [said] if said.contains("perf_event_paranoid")), "{against:?}");
    assert!(Plan::new(&facts, &Config::default()).warnings.is_empty(), "nothing is worse for it");
}

#[test]
fn a_limit_on_locked_memory_is_warned_of() {
    let mut facts = facts();
    facts.privilege.locked_memory_bytes = Some(65_536);
    let warnings = Plan::new(&facts, &Config::default()).warnings;
    assert!(matches!(&*warnings, [said] if said.contains("CAP_SYS_RESOURCE")), "{warnings:?}");
}

/// Linux 5.10.
#[test]
fn without_task_storage_only_the_hash_is_left() {
    let mut facts = facts();
    facts.offers.task_storage = Some(false);
    let (tried, against) = modes(&facts, "sched");
    assert_eq!(tried, [AttachMode::RawTp, AttachMode::Kprobe]);
    assert_eq!(
        against,
        ["tp_btf", "fentry"]
            .map(|mode| format!("{mode}: this kernel has no task storage for tracing programs (Linux 5.13)"))
    );
    assert_eq!(modes(&facts, "cgroup").0.len(), 4, "it stores nothing with tasks");
    facts.offers.socket_storage = Some(false);
    let (tried, against) = modes(&facts, "tcp");
    assert_eq!(tried, [AttachMode::RawTp, AttachMode::Kprobe]);
    assert_eq!(against[0], "tp_btf: this kernel has no socket storage for tracing programs (Linux 5.11)");
}

#[test]
fn without_direct_calls_nothing_is_hooked_by_trampolines() {
    let mut facts = facts();
    facts.offers.trampolines = Some(false);
    let (tried, against) = modes(&facts, "vfs");
    assert_eq!(tried, [AttachMode::TpBtf, AttachMode::RawTp, AttachMode::Kprobe]);
    let reason = "fentry: this kernel has no ftrace direct calls for BPF trampolines (arm64: Linux 6.4)";
    assert_eq!(against, [reason]);
}

#[test]
fn a_function_that_was_inlined_cannot_be_hooked() {
    let mut facts = facts();
    let known = facts.offers.targets.as_mut().expect("known");
    assert!(known.remove(&Target::Function("kernfs_activate")), "it is hooked");
    let (tried, against) = modes(&facts, "cgroup");
    assert_eq!(tried, [AttachMode::TpBtf, AttachMode::RawTp]);
    assert_eq!(
        against,
        [
            "fentry: this kernel has no function kernfs_activate",
            "kprobe: this kernel has no function kernfs_activate"
        ]
    );
    assert_eq!(modes(&facts, "sched").0.len(), 4);
}

#[test]
fn a_missing_tracepoint_leaves_the_functions() {
    let mut facts = facts();
    let known = facts.offers.targets.as_mut().expect("known");
    assert!(known.remove(&Target::Tracepoint("sched_switch")), "it is hooked");
    let (tried, against) = modes(&facts, "sched");
    assert_eq!(tried, [AttachMode::Fentry, AttachMode::Kprobe]);
    assert_eq!(
        against,
        [
            "tp_btf: this kernel has no tracepoint sched_switch",
            "raw_tp: this kernel has no tracepoint sched_switch"
        ]
    );
}

/// The kernel exposes no BTF, so the offsets come from a file.
#[test]
fn what_is_unknown_is_tried() {
    let mut facts = facts();
    facts.offers = Offers::default();
    for domain in ["cgroup", "sched"] {
        let (tried, against) = modes(&facts, domain);
        assert_eq!((tried.len(), against), (4, Vec::new()));
    }
}

#[test]
fn a_kernel_that_lacks_what_every_attach_mode_needs_turns_the_domain_off_with_all_reasons() {
    let mut facts = facts();
    facts.offers.targets = Some(BTreeSet::from([Target::Tracepoint("sched_switch")]));
    facts.offers.kprobes = Some(false);
    assert_eq!(
        reason(&facts, &Config::default(), "cgroup"),
        "tp_btf: this kernel has no tracepoint cgroup_mkdir; raw_tp: this kernel has no tracepoint \
         cgroup_mkdir; fentry: this kernel has no function kernfs_activate; kprobe: this kernel has no \
         kprobes (CONFIG_KPROBES)"
    );
}

#[test]
fn a_forced_attach_mode_is_the_only_candidate() {
    let config = Config { attach: Some(AttachMode::Kprobe), ..Config::default() };
    let plan = Plan::new(&facts(), &config);
    for domain in ["cgroup", "sched"] {
        let Some(Decision::On(candidates)) = plan.decision(domain) else { panic!("{domain} should be on") };
        assert_eq!(candidates.len(), 1);
        assert_eq!(candidates[0].mode, AttachMode::Kprobe);
    }
    assert!(plan.maps.iter().any(|map| map.map == "SCHED_TASKS"), "the hash of tasks is accounted for");
}

#[test]
fn a_member_that_one_attach_mode_needs_passes_over_that_attach_mode() {
    let mut facts = facts();
    let without = probe::wanted().filter(|path| *path != "task_struct.start_time");
    facts.layout = Ok(Layout::from_pairs(without.map(|path| (path, 0))));
    let (tried, against) = modes(&facts, "sched");
    assert_eq!(tried, [AttachMode::TpBtf, AttachMode::Fentry]);
    assert_eq!(
        against,
        [
            "raw_tp: this kernel has no task_struct.start_time",
            "kprobe: this kernel has no task_struct.start_time"
        ]
    );
}

#[test]
fn a_member_is_found_under_its_older_name() {
    let mut facts = facts();
    let older = probe::wanted().filter(|path| *path != "kernfs_node.__parent").map(|path| (path, 4));
    facts.layout = Ok(Layout::from_pairs(older));
    assert_eq!(global(&facts, "cgroup", "OFF_KN_PARENT"), 4);
}
