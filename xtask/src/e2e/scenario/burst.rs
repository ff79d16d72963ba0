//! Two hundred pods that live for a fifth of a second each, ten a second. A kubelet on a small machine cannot
//! start that many, so runc starts their containers where a kubelet would have put them, and the rig reports
//! them to the API server as a kubelet would.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::labels;
use crate::e2e::agent::{self, Agent};
use crate::e2e::container::{Bundle, CONTAINER, Short};
use crate::e2e::report::{self, Report};
use crate::e2e::rig::Rig;
use crate::e2e::samples::Workload;
use crate::e2e::scraper::Scraper;
use crate::e2e::{kube, truth, wait};

const NAME: &str = "burst";
const NAMESPACE: &str = "e2e-burst";
const PODS: u32 = 200;
const EVERY: Duration = Duration::from_millis(100);

/// Enough for that rate if each pod takes two seconds from creation to removal, most of which is runc's work.
/// The limit makes a slower machine run fewer pods instead of all at once.
const AT_A_TIME: u32 = 20;

/// The share of the pods' CPU time that must be charged to them.
const SHARE: f64 = 0.999;

/// The excess in seconds that one pod may be charged: a rounding error for each of its tasks.
const EXCESS: f64 = 1e-3;

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    kube::namespace(NAMESPACE)?;
    // A kubelet would kill pods that it has not started.
    rig.cluster.stop_kubelet()?;
    let agent = Agent::start(&rig.access, agent::AUTO)?;
    let scraper = Scraper::start(labels::SCRAPE_PAUSE);
    let before = unattributed()?;
    let bursted = burst(rig)?;
    wait_for_scrapes(&scraper)?;
    let ours = scraper.seen().on_cpu;
    let what = "the CPU time of 200 short pods is theirs, to 99.9 %";
    report.check(NAME, what, judge(&bursted, &by_pod(&ours)).map(|seen| bursted.describe(&seen)));
    let what = "it bears the name of their container, to 99.9 %";
    report.check(NAME, what, judge(&bursted, &ours));
    let unattributed = unattributed()? - before;
    report.check(
        NAME,
        "the rest is counted",
        Ok(format!("{unattributed:.4} s became unattributed meanwhile")),
    );
    report.check(NAME, "no counter went backwards, no scrape failed", labels::course(&scraper));
    drop(scraper);
    agent.stop()?;
    rig.cluster.start_kubelet()
}

/// The kernel's numbers for all pods.
struct Burst {
    /// The CPU time that each one's cgroup has used, in seconds.
    used: BTreeMap<Workload, f64>,
    /// From the first one's start to the last one's end.
    took: Duration,
}

fn burst(rig: &mut Rig) -> Result<Burst> {
    let bundle = Bundle::make(&rig.cluster.parts)?;
    let start = Instant::now();
    let (next, used) = (AtomicU32::new(0), Mutex::new(BTreeMap::new()));
    let run_some = || -> Result<Duration> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= PODS {
                return Ok(start.elapsed());
            }
            thread::sleep((EVERY * number).saturating_sub(start.elapsed()));
            let short = Short { namespace: NAMESPACE, name: format!("short-{number}") };
            let time = short.run(&bundle).with_context(|| short.name.clone())?;
            used.lock().unwrap_or_else(PoisonError::into_inner).insert(short.workload(), time);
        }
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let runners: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(run_some)).collect();
        runners.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut took = Duration::ZERO;
    for runner in ended {
        let Ok(runner) = runner else { bail!("a thread ended early") };
        took = took.max(runner?);
    }
    Ok(Burst { used: used.into_inner().unwrap_or_else(PoisonError::into_inner), took })
}

impl Burst {
    fn describe(&self, seen: &str) -> String {
        let rate = self.used.len() as f64 / self.took.as_secs_f64();
        format!("{seen}, of {} pods run by runc at {rate:.1} a second", self.used.len())
    }
}

/// Two more scrapes: the first may have begun before the last pod ended.
fn wait_for_scrapes(scraper: &Scraper) -> Result<()> {
    let done = scraper.seen().scrapes + 2;
    wait::until("another scrape", || Ok((scraper.seen().scrapes >= done).then_some(())))
}

/// Charges all of a pod's time to its container.
fn by_pod(ours: &BTreeMap<Workload, f64>) -> BTreeMap<Workload, f64> {
    let mut found = BTreeMap::new();
    for (workload, time) in ours {
        *found.entry(Workload::new(&workload.namespace, &workload.pod, CONTAINER)).or_insert(0.0) += time;
    }
    found
}

fn judge(burst: &Burst, ours: &BTreeMap<Workload, f64>) -> Result<String> {
    let (mut all, mut landed, mut faults) = (0.0, 0.0, Vec::new());
    for (workload, used) in &burst.used {
        let ours = ours.get(workload).copied().unwrap_or_default();
        if ours > used + EXCESS {
            faults.push(format!("{workload} used {used:.4} s and is charged {ours:.4} s"));
        }
        all += used;
        landed += ours.min(*used);
    }
    report::none_of(&faults, String::new())?;
    let text = format!("{:.3} % of {all:.3} s", landed / all * 100.0);
    if landed / all < SHARE {
        bail!("{text}");
    }
    Ok(text)
}

/// The seconds that the agent reports as unattributed or charges to `unknown`.
fn unattributed() -> Result<f64> {
    let samples = agent::scrape()?;
    let counted = samples.iter().filter(|sample| sample.name == "sysprobe_agent_unattributed_seconds_total");
    let counted: f64 = counted.map(|sample| sample.value).sum();
    Ok(counted.max(truth::unknown_time(&samples)))
}
