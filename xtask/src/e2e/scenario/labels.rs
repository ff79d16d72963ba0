//! Every series of every container carries its namespace, its pod's name and its own name; no other series
//! does.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::e2e::agent::{self, Agent};
use crate::e2e::pods::{CRASHING, HOME};
use crate::e2e::report::{self, Report};
use crate::e2e::rig::Rig;
use crate::e2e::samples::{Workload, by_workload};
use crate::e2e::scraper::Scraper;
use crate::e2e::truth::Ids;
use crate::e2e::window::{self, Window};
use crate::e2e::{truth, wait};

const NAME: &str = "labels";

/// The shortest interval at which Prometheus is likely to scrape.
pub(super) const SCRAPE_PAUSE: Duration = Duration::from_millis(500);

/// How long an agent may take to learn the pods that existed before it.
const SETTLE_LIMIT: Duration = Duration::from_secs(20);

/// How many scrapes in a row have to be right.
const STEADY: u32 = 5;

/// Long enough for each container's work to be measurable.
const WINDOW: Duration = Duration::from_secs(5);

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    let agent = Agent::start(&rig.access, agent::KUBERNETES)?;
    let scraper = Scraper::start(SCRAPE_PAUSE);
    report.check(NAME, "every running container has its series, no series is wrong", settle(rig, Ids::Never));
    report.check(NAME, "cpu_usage of each grows as the kernel's file of its cgroup", usage(rig));
    report.check(NAME, "on_cpu of each is what its cgroup used", on_cpu(rig));
    report.check(NAME, "a container that crashes over and over is one series", crashes(rig, &scraper));
    report.check(NAME, "no counter went backwards, no scrape failed", course(&scraper));
    drop(scraper);
    agent.stop()
}

/// Waits until a scrape is right, and checks that the following ones are too.
pub(super) fn settle(rig: &mut Rig, ids: Ids) -> Result<String> {
    let mut faults = Vec::new();
    let right = wait::until_within(SETTLE_LIMIT, "a scrape is right", || {
        faults = look(rig, ids)?.0;
        Ok(faults.is_empty().then_some(()))
    });
    if let Err(error) = right {
        // The faults say more than the timeout.
        return report::none_of(&faults, String::new()).and(Err(error));
    }
    steady(rig, ids)
}

/// Checks that several scrapes in a row are right.
pub(super) fn steady(rig: &mut Rig, ids: Ids) -> Result<String> {
    let (mut series, mut containers) = (0, BTreeSet::new());
    for _ in 0..STEADY {
        let (faults, found) = look(rig, ids)?;
        report::none_of(&faults, String::new())?;
        series = series.max(found.series);
        containers.extend(found.containers);
    }
    let unknown = truth::unknown_share(&agent::scrape()?) * 100.0;
    Ok(format!(
        "{} containers, {series} series of pods in each of {STEADY} scrapes, {unknown:.3} % of the time \
         unknown",
        containers.len()
    ))
}

struct Found {
    containers: BTreeSet<Workload>,
    series: usize,
}

/// One scrape between two queries of the runtime.
fn look(rig: &mut Rig, ids: Ids) -> Result<(Vec<String>, Found)> {
    let before = rig.look()?;
    let samples = agent::scrape()?;
    let containers = before.throughout(&rig.look()?);
    let series = samples.iter().filter(|sample| truth::is_of_pod(sample)).count();
    Ok((rig.history.faults(&samples, &containers, ids), Found { containers, series }))
}

/// Compares the increase of the agent's counter with that of the kernel's file: the counter's baseline is the
/// file's value when the agent started.
fn usage(rig: &mut Rig) -> Result<String> {
    const ROUNDING: f64 = 2e-6;
    let containers = window::lasting(rig)?;
    let first = Told::now(&containers)?;
    thread::sleep(WINDOW);
    let last = Told::now(&containers)?;
    let mut faults = Vec::new();
    for workload in containers.keys() {
        let ours = last.ours(workload) - first.ours(workload);
        let least = last.before[workload] - first.after[workload];
        let most = last.after[workload] - first.before[workload];
        if ours < least - ROUNDING || ours > most + ROUNDING {
            faults.push(format!("{workload} has {ours} s more, the kernel {least} to {most} s"));
        }
    }
    report::none_of(&faults, format!("{} containers, to the microsecond", containers.len()))
}

/// A scrape between two reads of the kernel's files.
struct Told {
    before: BTreeMap<Workload, f64>,
    ours: BTreeMap<Workload, f64>,
    after: BTreeMap<Workload, f64>,
}

impl Told {
    fn now(containers: &BTreeMap<Workload, u32>) -> Result<Self> {
        let before = window::kernel_times(containers)?;
        let ours = by_workload(&agent::scrape()?, "sysprobe_cpu_usage_seconds_total");
        Ok(Self { before, ours, after: window::kernel_times(containers)? })
    }

    fn ours(&self, workload: &Workload) -> f64 {
        self.ours.get(workload).copied().unwrap_or_default()
    }
}

fn on_cpu(rig: &mut Rig) -> Result<String> {
    let window = Window::open(rig)?;
    thread::sleep(WINDOW);
    window.close()
}

/// Waits until the crashing container has been restarted a few times.
pub(super) fn crashes(rig: &mut Rig, scraper: &Scraper) -> Result<String> {
    const ENOUGH: usize = 3;
    let begin = time_of_crashing(scraper);
    let mut ids = BTreeSet::new();
    wait::until("the crashing container has been started again", || {
        let now = rig.look()?;
        let running = now.containers.iter().filter(|container| container.pid.is_some());
        let crashing = running.filter(|container| container.pod == CRASHING && container.name.is_some());
        ids.extend(crashing.map(|container| container.id.clone()));
        Ok((ids.len() > ENOUGH).then_some(()))
    })?;
    // A container that died before the source reported it waits for its name, for longer than a few crashes
    // take.
    let end = wait::until("the time of the crashing container grows", || {
        Ok(Some(time_of_crashing(scraper)).filter(|end| *end > begin))
    })?;
    Ok(format!("{} containers, from {begin:.3} to {end:.3} s", ids.len()))
}

/// The on-CPU time of all its containers together.
fn time_of_crashing(scraper: &Scraper) -> f64 {
    let seen = scraper.seen();
    let ours = |workload: &Workload| {
        workload.namespace == HOME && workload.pod == CRASHING && workload.container != truth::SANDBOX
    };
    seen.on_cpu.iter().filter(|(workload, _)| ours(workload)).fold(0.0, |sum, (_, time)| sum + time)
}

pub(super) fn course(scraper: &Scraper) -> Result<String> {
    let seen = scraper.seen();
    report::none_of(&seen.faults(), format!("{} scrapes", seen.scrapes))
}
