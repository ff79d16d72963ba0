//! `sysprobe check`: the facts and the plan, for people or as JSON. Loads nothing and changes nothing.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::cgroup::mounts::KeyHierarchy;
use crate::config::Config;
use crate::host::Facts;
use crate::plan::{Decision, Plan};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    Table,
    Json,
}

#[derive(Serialize)]
struct Report<'a> {
    facts: &'a Facts,
    plan: &'a Plan,
}

pub fn run(config: &Config, output: Output) -> anyhow::Result<()> {
    let facts = Facts::collect(config);
    let plan = Plan::new(&facts, config);
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &Report { facts: &facts, plan: &plan })?;
            writeln!(out)?;
        }
        Output::Table => {
            write_facts(&mut out, &facts)?;
            write_plan(&mut out, &plan)?;
        }
    }
    Ok(())
}

fn write_facts(out: &mut impl Write, facts: &Facts) -> io::Result<()> {
    writeln!(out, "Host")?;
    let mut line = |name: &str, value: &str| writeln!(out, "  {name:<14}{value}");
    line("kernel", &facts.kernel)?;
    line("cpus", &format!("{} online, {} possible", facts.cpus.online.len(), facts.cpus.possible))?;
    let missing = facts.privilege.missing();
    let privileges =
        if missing.is_empty() { "sufficient".into() } else { format!("lacks {}", missing.join(", ")) };
    line("privileges", &privileges)?;
    match &facts.layout {
        Ok(_) => line("btf", &facts.btf_path.display().to_string())?,
        Err(reason) => line("btf", reason)?,
    }
    match &facts.hierarchy {
        Ok(hierarchy) => line("cgroups", &cgroups(&hierarchy.key))?,
        Err(reason) => line("cgroups", reason)?,
    }
    line(
        "processes",
        if facts.sees_all_processes { "all of the host" } else { "only those of a PID namespace" },
    )
}

fn write_plan(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(out, "Plan")?;
    for domain in &plan.domains {
        match &domain.decision {
            Decision::On(candidates) if candidates.is_empty() => writeln!(out, "  {:<14}on", domain.name)?,
            Decision::On(candidates) => {
                let tiers: Vec<_> = candidates.iter().map(|candidate| candidate.tier.name()).collect();
                writeln!(
                    out,
                    "  {:<14}on, by the first that the kernel takes: {}",
                    domain.name,
                    tiers.join(", ")
                )?;
            }
            Decision::Off(reason) => writeln!(out, "  {:<14}off: {reason}", domain.name)?,
        }
        for reason in &domain.passed_over {
            writeln!(out, "  {:<14}not by {reason}", "")?;
        }
    }
    writeln!(out, "Kernel memory of the maps")?;
    for map in &plan.maps {
        writeln!(
            out,
            "  {:<14}{:>10} KiB  {} entries",
            map.map.to_lowercase(),
            map.bytes.div_ceil(1024),
            map.entries
        )?;
    }
    writeln!(out, "  {:<14}{:>10} KiB", "total", plan.map_bytes().div_ceil(1024))?;
    for warning in &plan.warnings {
        writeln!(out, "Warning: {warning}")?;
    }
    Ok(())
}

fn cgroups(key: &KeyHierarchy) -> String {
    match key {
        KeyHierarchy::V2 { root } => format!("v2 at {}", root.display()),
        KeyHierarchy::V1 { root, .. } => format!("v1, cpu controller at {}", root.display()),
    }
}
