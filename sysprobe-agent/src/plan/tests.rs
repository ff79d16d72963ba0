//! Plans of hosts that have everything, or lack one thing.

use super::*;
use crate::host::{Cpus, Privilege};
use crate::probe;

fn layout() -> Layout {
    Layout::from_pairs(probe::wanted().zip((0..).step_by(8)))
}

fn facts() -> Facts {
    Facts {
        kernel: "6.12.0".into(),
        cpus: Cpus { possible: 2, online: vec![0, 1] },
        threads: 10_000,
        privilege: Privilege { bpf: true, perfmon: true, sys_admin: false },
        layout: Ok(layout()),
        btf_path: "/sys/kernel/btf/vmlinux".into(),
        hierarchy: Ok(Hierarchy { key: KeyHierarchy::V2 { root: "/sys/fs/cgroup".into() }, root_id: 1 }),
        sees_all_processes: true,
    }
}

fn reason(facts: &Facts, config: &Config, domain: &str) -> String {
    match Plan::new(facts, config).decision(domain) {
        Some(Decision::Off(reason)) => reason.clone(),
        other => panic!("{domain} should be off, but is {other:?}"),
    }
}

fn global(facts: &Facts, domain: &str, name: &str) -> u32 {
    let plan = Plan::new(facts, &Config::default());
    let Some(Decision::On(candidates)) = plan.decision(domain) else { panic!("{domain} should be on") };
    candidates[0].globals.iter().find(|(global, _)| *global == name).expect("is set").1
}

#[test]
fn a_complete_host_has_every_domain() {
    let plan = Plan::new(&facts(), &Config::default());
    assert!(plan.domains.iter().all(DomainPlan::is_on), "{:?}", plan.domains);
    assert_eq!(plan.domains.len(), PROBES.len() + 1);
    assert!(plan.warnings.is_empty());
}

#[test]
fn the_default_hierarchy_is_reached_directly_and_v1_through_the_controller() {
    let mut facts = facts();
    let layout = layout();
    assert_eq!(global(&facts, "sched", "CFG_VIA_CONTROLLER"), 0);
    let direct = layout.get(CSS_SET_DEFAULT).expect("present");
    assert_eq!(global(&facts, "sched", "OFF_CSS_SET_LINK"), direct);

    facts.hierarchy = Ok(Hierarchy {
        key: KeyHierarchy::V1 { root: "/sys/fs/cgroup/cpu".into(), cpuacct: None },
        root_id: 1,
    });
    let array = layout.get(CSS_SET_SUBSYS).expect("present");
    let controller = layout.get(CPU_CONTROLLER).expect("present");
    assert_eq!(global(&facts, "sched", "OFF_CSS_SET_LINK"), array + 8 * controller);
    assert_eq!(global(&facts, "sched", "CFG_VIA_CONTROLLER"), 1);
    assert_eq!(global(&facts, "cgroup", "CFG_VIA_CONTROLLER"), 1);
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
    for domain in ["sched", "cgroup", "cpu"] {
        assert_eq!(reason(&facts, &Config::default(), domain), "no cgroups here");
    }
}

#[test]
fn the_configuration_turns_domains_off() {
    let mut config = Config::default();
    config.domains.sched = false;
    config.domains.cpu = false;
    assert!(reason(&facts(), &config, "sched").contains("domains.sched"));
    assert!(reason(&facts(), &config, "cpu").contains("domains.cpu"));
}

#[test]
fn five_hundred_pods_on_sixty_four_cpus_fit_the_memory_limit() {
    let mut facts = facts();
    facts.cpus.possible = 64;
    let bytes = Plan::new(&facts, &Config::default()).map_bytes();
    // Ten thousand threads and two thousand cgroups leave the other domains 44 of the 64 MiB.
    assert!(bytes < 20 << 20, "{bytes} bytes leave too little of 64 MiB to the other domains");
}

#[test]
fn a_foreign_pid_namespace_is_warned_of() {
    let mut facts = facts();
    facts.sees_all_processes = false;
    assert_eq!(Plan::new(&facts, &Config::default()).warnings.len(), 1);
}

#[test]
fn tiers_are_tried_from_the_cheapest_on() {
    let plan = Plan::new(&facts(), &Config::default());
    let Some(Decision::On(candidates)) = plan.decision("sched") else { panic!("sched should be on") };
    let tiers: Vec<_> = candidates.iter().map(|candidate| candidate.tier).collect();
    assert_eq!(tiers, [Tier::TpBtf, Tier::Fentry, Tier::Kprobe, Tier::RawTp]);
}

#[test]
fn a_forced_tier_is_the_only_candidate() {
    let config = Config { attach: Some(Tier::Kprobe), ..Config::default() };
    let plan = Plan::new(&facts(), &config);
    for domain in ["cgroup", "sched"] {
        let Some(Decision::On(candidates)) = plan.decision(domain) else { panic!("{domain} should be on") };
        assert_eq!(candidates.len(), 1);
        assert_eq!(candidates[0].tier, Tier::Kprobe);
    }
    assert!(plan.maps.iter().any(|map| map.map == "SCHED_TASKS"), "the hash of tasks is accounted for");
}

#[test]
fn a_member_that_one_tier_needs_passes_over_that_tier() {
    let mut facts = facts();
    let without = probe::wanted().filter(|path| *path != "task_struct.start_time");
    facts.layout = Ok(Layout::from_pairs(without.map(|path| (path, 0))));
    let plan = Plan::new(&facts, &Config::default());
    let sched = plan.domains.iter().find(|domain| domain.name == "sched").expect("planned");
    assert!(sched.is_on());
    assert_eq!(
        sched.passed_over,
        [
            "kprobe: this kernel has no task_struct.start_time",
            "raw_tp: this kernel has no task_struct.start_time"
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
