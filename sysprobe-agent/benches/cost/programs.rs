//! What each program of the probe table costs per run, and what a switch costs with all programs of an attach
//! mode on: for `cargo xtask cost`, as lines of JSON. Where a clock's nanosecond is an instruction, these
//! are instructions.
//!
//! A program's cost is its time by the kernel's statistics, less that of an empty program on the same hook
//! over the same scripted work. The kernel's own way to a program is not in it: that shows in the round
//! trips.

mod acts;
mod call;
mod cast;
mod disk;
mod empty;
pub(crate) mod floor;
mod forked;
mod limits;
mod meter;
mod network;
pub(crate) mod report;
mod request;
mod round_trip;
mod scripts;
mod storage;

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use sysprobe_agent::bpf::{Loader, measure_programs};
use sysprobe_agent::cgroup::mounts::KeyHierarchy;
use sysprobe_agent::config::Config;
use sysprobe_agent::host::Facts;
use sysprobe_agent::plan::{Candidate, Decision, Plan};
use sysprobe_agent::probe::{self, AttachMode, MapSpec, PROBES, ProgramSet};
use sysprobe_common::slot;

use crate::system;
use cast::{Cast, Running};
use meter::Meter;
use report::{Host, Line, Program, Refused};
use scripts::{Dose, Scene, Script};

/// The kernel frees and patches later what was attached or ended, and nothing tells when it has.
const SETTLE: Duration = Duration::from_millis(300);

/// What starting an attach mode's programs takes.
pub(crate) struct Stage {
    loader: Loader,
    facts: Facts,
    plan: Plan,
    mode: AttachMode,
    cpu: u32,
    /// How often what is cheap is repeated; once will do where the clock is exact.
    times: u32,
}

/// Measures everything and says it line by line; what calls take longer only if asked to, which takes most of
/// the time.
pub(crate) fn main(times: u32, with_calls: bool) -> Result<()> {
    let mut stage = Stage::open(times)?;
    for mode in AttachMode::value_variants() {
        stage.turn_to(*mode);
        let mut taken = Vec::new();
        for probe in PROBES {
            if stage.measure(probe.domain)? {
                taken.push(probe.domain);
            }
        }
        if let Some(trip) = round_trip::measure(&stage, &taken)? {
            say(&Line::RoundTrip(trip))?;
        }
        if with_calls {
            call::of_mode(&stage, &taken)?;
        }
    }
    if with_calls {
        request::of_all_modes(&stage)?;
        call::of_tools(times)
    } else {
        request::of_default(&stage)
    }
}

/// Measures what requests take longer only.
pub(crate) fn requests(times: u32) -> Result<()> {
    request::of_all_modes(&Stage::open(times)?)
}

impl Stage {
    /// On the last CPU of this host, which is said.
    fn open(times: u32) -> Result<Self> {
        let facts = Facts::collect(&Config::default());
        let cpu = *facts.cpus.online.last().context("no CPU is online")?;
        system::pin(cpu).context("pinning to one CPU")?;
        system::batch().context("asking for the batch policy")?;
        say(&Line::Host(Host { release: facts.kernel.clone(), cpus: facts.cpus.possible }))?;
        let (loader, plan) = (Loader::new(&facts.btf_path), Plan::new(&facts, &Config::default()));
        Ok(Self { loader, plan, facts, mode: AttachMode::TpBtf, cpu, times })
    }

    fn turn_to(&mut self, mode: AttachMode) {
        let config = Config { attach: Some(mode), ..Config::default() };
        self.plan = Plan::new(&self.facts, &config);
        self.mode = mode;
    }

    /// The domain's programs and what they are to be loaded with, or why there are none.
    fn candidate(&self, domain: &str) -> Result<(&'static ProgramSet, &Candidate), String> {
        let set = probe::program_set(domain, self.mode).ok_or("the domain has no such attach mode")?;
        match self.plan.decision(domain) {
            Some(Decision::On(candidates)) => {
                Ok((set, candidates.first().ok_or("the plan has no candidate")?))
            }
            Some(Decision::Off(reason)) => Err(reason.clone()),
            None => Err("the plan has no such domain".to_owned()),
        }
    }

    /// By itself: no other domain's maps are shared with it.
    fn start(&self, domain: &'static str) -> Result<Running, String> {
        self.loader.share_nothing();
        self.start_with(domain, &self.plan)
    }

    /// Several that know of each other.
    fn start_all(&self, domains: &[&'static str]) -> Result<Vec<Running>> {
        self.loader.share_nothing();
        let all: Result<_, String> =
            domains.iter().map(|domain| self.start_with(domain, &self.plan)).collect();
        all.map_err(anyhow::Error::msg)
    }

    fn start_with(&self, domain: &'static str, plan: &Plan) -> Result<Running, String> {
        let (set, candidate) = self.candidate(domain)?;
        let started = Running::start(&self.loader, domain, set, candidate, plan);
        started.map_err(|error| error.to_string())
    }

    /// Whether this kernel takes the domain's attach mode; if so, all of its programs are measured.
    fn measure(&self, domain: &'static str) -> Result<bool> {
        let Some(set) = probe::program_set(domain, self.mode) else { return Ok(false) };
        let _statistics = measure_programs()?;
        let running = match self.start(domain) {
            Ok(running) => running,
            Err(reason) => {
                say(&Line::Refused(self.refused(domain, &reason)))?;
                return Ok(false);
            }
        };
        for row in self.rows(domain, set, running, |_| true)? {
            say(&Line::Program(row))?;
        }
        self.measure_without(domain, set)?;
        Ok(true)
    }

    /// What programs cost where slots or storage are used up. Each case has rows of its own.
    fn measure_without(&self, domain: &'static str, set: &'static ProgramSet) -> Result<()> {
        let scripts: &[Script] = match domain {
            "sched" => &[Script::Switch],
            "vfs" => &[Script::Read],
            "tcp" => &[Script::Connection, Script::Echo],
            _ => return Ok(()),
        };
        let mut used_up = Vec::new();
        // The programs of connections look for a slot too rarely to be worth the time that this takes.
        if !scripts.contains(&Script::Connection) {
            used_up.push(("a slot", Plan { slots: slot::FIRST_FREE, ..self.plan.clone() }));
        }
        if set.maps().any(MapSpec::is_storage) {
            let mut plan = self.plan.clone();
            plan.storage.most_bytes = 0;
            used_up.push(("storage", plan));
        }
        for (what, plan) in used_up {
            let running = self.start_with(domain, &plan).map_err(anyhow::Error::msg)?;
            for row in self.rows(domain, set, running, |script| scripts.contains(&script))? {
                if row.cost.is_ok() {
                    let name = format!("{} without {what}", row.name);
                    say(&Line::Program(Program { name, ..row }))?;
                }
            }
        }
        Ok(())
    }

    /// What each program tells of those scripts that are played.
    fn rows(
        &self,
        domain: &'static str,
        set: &'static ProgramSet,
        running: Running,
        plays: impl Fn(Script) -> bool,
    ) -> Result<Vec<Program>> {
        let mut cast = Cast::new(&self.loader, set, running)?;
        let mut meter = Meter::new(set);
        for script in Script::of(set).filter(|script| plays(*script)) {
            self.play(script, &mut meter, &mut cast)?;
        }
        Ok(meter.rows(domain, self.mode, &cast))
    }

    fn refused(&self, domain: &str, reason: &str) -> Refused {
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        Refused { domain: domain.to_owned(), mode: self.mode.name().to_owned(), reason }
    }

    fn play(&self, script: Script, meter: &mut Meter, cast: &mut Cast) -> Result<()> {
        let scene = Scene { root: self.root()?, has_v1: self.has_v1(), cpu: self.cpu, cast };
        let mut act = match script.open(&scene) {
            Ok(act) => act,
            Err(error) => {
                meter.cannot(script, &format!("{error:#}"));
                return Ok(());
            }
        };
        settle();
        let Dose { actions, warm_up, batches } = script.dose(self.times);
        for batch in 0..warm_up + batches {
            let before = Meter::read(cast);
            for _ in 0..actions {
                act.act(cast).with_context(|| format!("playing {script:?}"))?;
            }
            if script.is_late() {
                meter.wait_for(script, actions, &before, cast);
            }
            if batch >= warm_up {
                meter.add(script, actions, &before, &Meter::read(cast));
            }
            cast.drain();
        }
        Ok(())
    }

    fn has_v1(&self) -> bool {
        self.plan.hierarchy.as_ref().is_some_and(|hierarchy| matches!(hierarchy.key, KeyHierarchy::V1 { .. }))
    }

    fn root(&self) -> Result<&std::path::Path> {
        let hierarchy = self.plan.hierarchy.as_ref().context("no cgroup hierarchy")?;
        Ok(hierarchy.key.root())
    }
}

fn settle() {
    thread::sleep(SETTLE);
}

fn say(line: &Line) -> Result<()> {
    println!("{}", serde_json::to_string(line)?);
    Ok(())
}
