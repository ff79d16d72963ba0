//! From the kernel's statistics before and after each batch of scripted work to what a program's run costs.

use std::thread;
use std::time::{Duration, Instant};

use sysprobe_agent::bpf::ProgramStatistics;
use sysprobe_agent::probe::{AttachMode, Hook, ProgramSet, Target};

use super::cast::Cast;
use super::report::{Cost, Program};
use super::scripts::Script;
use crate::figures::Figures;

/// How long the kernel may take to run what an action leads to: it frees a task after a grace period.
const LATE: Duration = Duration::from_secs(2);

/// What all batches told of an attach mode's programs, in the table's order.
pub(crate) struct Meter {
    set: &'static ProgramSet,
    found: Vec<Found>,
}

#[derive(Clone, Default)]
struct Found {
    net: Figures,
    empty: Figures,
    runs: Figures,
    obstacle: Option<String>,
}

/// The statistics at one moment: of the attach mode's programs, and of the empty ones beside them.
pub(crate) struct Reading(Vec<(Count, Count)>);

#[derive(Clone, Copy, Default)]
struct Count {
    runs: u64,
    ns: u64,
}

impl Meter {
    pub(crate) fn new(set: &'static ProgramSet) -> Self {
        Self { set, found: vec![Found::default(); set.programs.len()] }
    }

    pub(crate) fn read(cast: &Cast) -> Reading {
        let pairs = cast.statistics().into_iter();
        Reading(pairs.map(|(product, empty)| (Count::of(&product), Count::of(&empty))).collect())
    }

    /// Waits until every program of the script has run as often as something was done; not for ever, since it
    /// may be that one never does.
    pub(crate) fn wait_for(&self, script: Script, actions: u32, before: &Reading, cast: &Cast) {
        let start = Instant::now();
        let complete = || {
            let after = Self::read(cast);
            let mut runs = self.of(script).map(|index| before.until(&after, index).0.runs);
            runs.all(|runs| runs >= u64::from(actions))
        };
        while !complete() && start.elapsed() < LATE {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes in what a batch did to the script's programs. One that did not run in it says nothing.
    pub(crate) fn add(&mut self, script: Script, actions: u32, before: &Reading, after: &Reading) {
        for index in self.of(script).collect::<Vec<_>>() {
            let (product, empty) = before.until(after, index);
            let (Some(gross), Some(idle)) = (product.mean(), empty.mean()) else { continue };
            let found = &mut self.found[index];
            found.net.push(gross - idle);
            found.empty.push(idle);
            found.runs.push(product.runs as f64 / f64::from(actions));
        }
    }

    /// Why the script cannot be played here.
    pub(crate) fn cannot(&mut self, script: Script, reason: &str) {
        for index in self.of(script).collect::<Vec<_>>() {
            self.found[index].obstacle = Some(reason.to_owned());
        }
    }

    pub(crate) fn rows(&self, domain: &str, mode: AttachMode, cast: &Cast) -> Vec<Program> {
        let rows = self.set.programs.iter().zip(&self.found).zip(cast.statistics());
        rows.map(|((program, found), (statistics, _))| Program {
            domain: domain.to_owned(),
            mode: mode.name().to_owned(),
            name: program.name.to_owned(),
            hook: hook_name(program.hook).to_owned(),
            verified: Some(statistics.verified_instructions).filter(|count| *count > 0),
            cost: found.cost(Script::of_hook(program.hook)),
        })
        .collect()
    }

    fn of(&self, script: Script) -> impl Iterator<Item = usize> {
        let programs = self.set.programs.iter().enumerate();
        programs
            .filter(move |(_, program)| Script::of_hook(program.hook) == Some(script))
            .map(|(index, _)| index)
    }
}

impl Found {
    fn cost(&self, script: Option<Script>) -> Result<Cost, String> {
        if let Some(obstacle) = &self.obstacle {
            return Err(obstacle.clone());
        }
        let script = script.ok_or("no script drives this hook")?;
        if self.net.is_empty() {
            return Err("it did not run".to_owned());
        }
        let (net, empty, runs) = (self.net.spread(), self.empty.median(), self.runs.median());
        let steady = if script.allocates() { self.net.least() } else { net.median };
        Ok(Cost { net, steady, empty, runs })
    }
}

impl Reading {
    fn until(&self, after: &Self, index: usize) -> (Count, Count) {
        let ((product, empty), (product_after, empty_after)) = (self.0[index], after.0[index]);
        (product.until(product_after), empty.until(empty_after))
    }
}

impl Count {
    const fn of(statistics: &ProgramStatistics) -> Self {
        Self { runs: statistics.runs, ns: statistics.run_ns }
    }

    const fn until(self, after: Self) -> Self {
        Self { runs: after.runs - self.runs, ns: after.ns - self.ns }
    }

    fn mean(self) -> Option<f64> {
        (self.runs > 0).then(|| self.ns as f64 / self.runs as f64)
    }
}

fn hook_name(hook: Hook) -> &'static str {
    match hook {
        Hook::OnDemand => "on demand",
        Hook::TaskIterator | Hook::TaskScan => "task iterator",
        Hook::FileIterator | Hook::FileScan => "iterator over open files",
        Hook::SocketIterator(_) => "iterator over sockets",
        _ => hook.target().map_or("", Target::name),
    }
}
