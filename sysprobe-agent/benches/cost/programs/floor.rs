//! Empty programs at the hooks that the agent's default uses here, for as long as this program runs: for
//! `cargo xtask bench overhead --floor`.

use std::thread;

use anyhow::{Context, Result};
use sysprobe_agent::bpf::Loader;
use sysprobe_agent::config::Config;
use sysprobe_agent::host::Facts;
use sysprobe_agent::plan::Plan;
use sysprobe_agent::probe::{Hook, PROBES, Program};

use super::cast::Running;
use super::empty::Empties;

/// Says `ready` when all of them are attached. The kernel detaches them when this program is ended.
pub(crate) fn hold() -> Result<()> {
    let config = Config::default();
    let facts = Facts::collect(&config);
    let plan = Plan::new(&facts, &config);
    let loader = Loader::new(&facts.btf_path);
    let mut programs: Vec<&'static Program> = Vec::new();
    for probe in PROBES {
        for program in in_use(&loader, &plan, probe.domain) {
            if !programs.iter().any(|other| other.hook == program.hook) {
                programs.push(program);
            }
        }
    }
    let _attached = Empties::start(&loader, programs).context("attaching empty programs")?;
    println!("ready");
    loop {
        thread::park();
    }
}

/// The programs of a domain that events run. The domain is started to see which, and stopped again.
fn in_use(loader: &Loader, plan: &Plan, domain: &'static str) -> Vec<&'static Program> {
    loader.share_nothing();
    let Some((set, running)) = Running::start_first(loader, plan, domain) else { return Vec::new() };
    let names: Vec<&str> = running.loaded().programs().map(|program| program.name).collect();
    let programs = set.programs.iter().filter(|program| names.contains(&program.name));
    programs.filter(|program| by_event(program.hook)).collect()
}

fn by_event(hook: Hook) -> bool {
    match hook {
        Hook::TpBtf(_)
        | Hook::Fentry(_)
        | Hook::Fexit(_)
        | Hook::Kprobe(_)
        | Hook::Kretprobe(_)
        | Hook::RawTp(_) => true,
        Hook::OnDemand
        | Hook::TaskIterator
        | Hook::TaskScan
        | Hook::FileIterator
        | Hook::FileScan
        | Hook::SocketIterator(_) => false,
    }
}
