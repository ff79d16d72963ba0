//! The domains that read cgroup files, and whether this host has those files.

use super::{Decision, DomainPlan};
use crate::cgroup::mounts::KeyHierarchy;
use crate::config::{Config, FILE_DOMAINS};
use crate::host::{Facts, Hierarchy, Pressure};

pub(super) fn plan(facts: &Facts, config: &Config) -> impl Iterator<Item = DomainPlan> {
    FILE_DOMAINS.into_iter().map(|name| {
        let decision = match &facts.hierarchy {
            _ if !config.domains.wants(name) => Decision::Off(super::turned_off(name)),
            Err(reason) => Decision::Off(reason.clone()),
            Ok(hierarchy) => match meets(name, hierarchy) {
                Ok(()) => Decision::On(Vec::new()),
                Err(reason) => Decision::Off(reason.to_owned()),
            },
        };
        DomainPlan { name, decision, passed_over: Vec::new() }
    })
}

fn meets(domain: &str, hierarchy: &Hierarchy) -> Result<(), &'static str> {
    match domain {
        "memory" => requires_controller(hierarchy),
        "pressure" => requires_pressure(hierarchy),
        _ => Ok(()),
    }
}

fn requires_controller(hierarchy: &Hierarchy) -> Result<(), &'static str> {
    match hierarchy.key {
        _ if hierarchy.memory => Ok(()),
        KeyHierarchy::V1 { .. } => Err(
            "the cpu controller is on cgroup v1 and the memory controller is not: mount both on the same \
                 version",
        ),
        KeyHierarchy::V2 { .. } => {
            Err("this kernel has no memory controller (CONFIG_MEMCG, cgroup_disable=memory)")
        }
    }
}

fn requires_pressure(hierarchy: &Hierarchy) -> Result<(), &'static str> {
    match (&hierarchy.key, hierarchy.pressure) {
        (KeyHierarchy::V1 { .. }, _) => Err("cgroup v1 has no pressure stall information, only v2 has"),
        (_, Pressure::Kept) => Ok(()),
        (_, Pressure::Off) => Err("pressure stall information is turned off: start the kernel with psi=1"),
        (_, Pressure::Absent) => {
            Err("this kernel keeps no pressure stall information for cgroups (CONFIG_PSI, \
             cgroup_disable=pressure)")
        }
    }
}
