//! Five hundred pods at a time that live for fifteen seconds each: afterwards the agent exports as few series
//! as before, and its memory does not grow over time. A kubelet on a small machine cannot start that many.
//! The rig therefore makes their cgroups where a kubelet would have put them, starts a process in each, and
//! reports them to the API server as a kubelet would.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context, Result, anyhow, bail};

use crate::e2e::agent::{self, Agent};
use crate::e2e::container::Reported;
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::samples::{Sample, Workload};
use crate::e2e::{kube, samples, wait};
use crate::{cmd, say};

const NAME: &str = "churn";
const NAMESPACE: &str = "e2e-churn";
const PODS: u32 = 500;
/// The lifetime of a pod, and the time between two scrapes.
const LIFE: Duration = Duration::from_secs(15);
/// How long the agent keeps series of a pod that has gone, by its default configuration, plus some time for
/// the scrapes on a busy machine.
const GRACE: Duration = Duration::from_secs(120);

/// Moves itself into the cgroups that accept processes (`cpuset` of v1 does not yet), and works briefly in
/// each of fifteen seconds.
const WORK: &str = "for f in \"$@\"; do { echo $$ > \"$f\"; } 2>/dev/null; done; n=0; while [ $n -lt 15 ]; \
                    do sleep 1; n=$((n+1)); done";

/// How many more series there may be at the end: those of `other`, which takes the workloads beyond the
/// limit, and those of first activities of the machine's services and the agent.
const NEW: usize = 500;

/// How much more memory the last third of the run may take than the second: heap sizes vary a little.
const FLAT: f64 = 1.1;
/// In a shorter run, the agent has hardly forgotten the first pods.
const JUDGED: Duration = Duration::from_secs(300);
const MIB: f64 = 1024.0 * 1024.0;

/// The numbers of one scrape.
#[derive(Clone, Copy, Debug)]
struct Moment {
    after: Duration,
    series: usize,
    /// The length of the whole text, and the time that the agent took for it.
    bytes: usize,
    seconds: f64,
    /// Our pods that have series.
    pods: usize,
    /// Workloads named by an id or a path that only a pod has: the agent did not learn the name in time.
    nameless: usize,
    memory: f64,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, series, bytes, seconds, pods, nameless, memory } = self;
        let (after, text, memory) = (after.as_secs(), *bytes as f64 / MIB, memory / MIB);
        write!(
            f,
            "After {after} s: {pods} pods and {nameless} without name, {series} series, {text:.1} MiB of \
             text in {seconds:.2} s; {memory:.1} MiB in memory."
        )
    }
}

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    kube::namespace(NAMESPACE)?;
    // A kubelet would kill pods that it has not started.
    rig.cluster.stop_kubelet()?;
    let agent = Agent::start(&rig.access, agent::AUTO)?;
    let start = Instant::now();
    let before = look(&agent, start)?;
    let (made, moments) = churn(&agent, rig.churn)?;
    let left = wait::until_within(GRACE, "the series of pods that have gone have gone", || {
        let now = look(&agent, start)?;
        Ok((now.pods == 0 && now.nameless <= before.nameless).then_some(now))
    });
    let most = |of: fn(&Moment) -> usize| moments.iter().map(of).max().unwrap_or_default();
    let (pods, series) = (most(|moment| moment.pods), most(|moment| moment.series));
    // On a machine that keeps up, each thread makes a pod every fifteen seconds and a little.
    let wanted = f64::from(PODS) * rig.churn.as_secs_f64() / LIFE.as_secs_f64() / 2.0;
    let seen = format!("{made} pods, up to {pods} at a time, those that have just gone included");
    report.check(
        NAME,
        "the pods have series",
        if pods >= PODS as usize && f64::from(made) >= wanted { Ok(seen) } else { Err(anyhow!(seen)) },
    );
    let judge = |after: Moment| {
        let seen = format!("{} series before, up to {series}, {} after", before.series, after.series);
        if after.series > before.series + NEW { Err(anyhow!("{seen}: {}", most_series()?)) } else { Ok(seen) }
    };
    report.check(NAME, "no series of any pod is left after the grace", left.and_then(judge));
    let (what, seen) = ("memory is flat", memory(&before, &moments, rig.churn));
    if rig.churn < JUDGED {
        say::step(format_args!("Left out, because it takes {} s: {what}.", JUDGED.as_secs()));
    } else {
        report.check(NAME, what, seen);
    }
    agent.stop()?;
    rig.cluster.start_kubelet()
}

fn look(agent: &Agent, start: Instant) -> Result<Moment> {
    let asked = Instant::now();
    let text = agent::scrape_text()?;
    let seconds = asked.elapsed().as_secs_f64();
    let samples = samples::parse(&text)?;
    let ours =
        samples.iter().filter(|sample| sample.labels.get("namespace").is_some_and(|name| name == NAMESPACE));
    let pods: BTreeSet<_> = ours.filter_map(|sample| sample.labels.get("pod")).collect();
    let nameless: BTreeSet<_> = samples.iter().filter_map(nameless).collect();
    let memory = agent.memory().context("the agent has gone")?;
    Ok(Moment {
        after: start.elapsed(),
        series: samples.len(),
        bytes: text.len(),
        seconds,
        pods: pods.len(),
        nameless: nameless.len(),
        memory,
    })
}

/// The workload of a sample that is named by a container id or by the path of a pod's cgroup.
fn nameless(sample: &Sample) -> Option<Workload> {
    let workload = sample.workload()?;
    let is_id =
        workload.container.len() == 64 && workload.container.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_path = workload.container.contains("/kubepods/besteffort/pod");
    (workload.pod.is_empty() && (is_id || is_path)).then_some(workload)
}

/// The workloads with the most series, to show which are unexpected.
fn most_series() -> Result<String> {
    let mut counts: BTreeMap<Workload, usize> = BTreeMap::new();
    for workload in samples::parse(&agent::scrape_text()?)?.iter().filter_map(Sample::workload) {
        *counts.entry(workload).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let most = counts.iter().take(30).map(|(workload, count)| format!("{count} of {workload}"));
    Ok(most.collect::<Vec<_>>().join(", "))
}

/// Runs the pods; returns how many there were, and the scrapes meanwhile.
fn churn(agent: &Agent, time: Duration) -> Result<(u32, Vec<Moment>)> {
    let made = AtomicU32::new(0);
    let start = Instant::now();
    let one_after_the_other = |first: u32| -> Result<()> {
        thread::sleep(LIFE * first / PODS);
        while start.elapsed() < time {
            live(made.fetch_add(1, Ordering::Relaxed))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let places: Vec<_> = (0..PODS).map(|first| scope.spawn(move || one_after_the_other(first))).collect();
        let mut moments = Vec::new();
        while start.elapsed() < time {
            thread::sleep(LIFE);
            let moment = look(agent, start)?;
            say::step(moment);
            moments.push(moment);
        }
        for place in places {
            let Ok(ended) = place.join() else { bail!("a thread ended early") };
            ended?;
        }
        Ok((made.load(Ordering::Relaxed), moments))
    })
}

/// One pod from its creation to its removal.
fn live(number: u32) -> Result<()> {
    let pod = Reported::create(NAMESPACE, &format!("pod-{number}"))?;
    let cgroups: Vec<_> = pod.cgroups().collect();
    for cgroup in &cgroups {
        fs::create_dir_all(cgroup).with_context(|| format!("making {}", cgroup.display()))?;
    }
    let mut command = cmd::tool("sh");
    command.args(["-c", WORK, "sh"]).args(cgroups.iter().map(|cgroup| cgroup.join("cgroup.procs")));
    let mut process = command.stdin(Stdio::null()).spawn().context("starting a pod's process")?;
    pod.runs()?;
    process.wait()?;
    pod.remove_cgroups()?;
    pod.delete()
}

/// Compares the agent's highest memory in the last third of the run with that in the second.
fn memory(before: &Moment, moments: &[Moment], time: Duration) -> Result<String> {
    let most = |from: u32, to: u32| {
        let within = moments.iter().filter(|moment| (time * from / 3..time * to / 3).contains(&moment.after));
        within.map(|moment| moment.memory / MIB).fold(0.0, f64::max)
    };
    let (first, second, third) = (most(0, 1), most(1, 2), most(2, 4));
    let seen = format!(
        "{:.1} MiB before, then by thirds up to {first:.1}, {second:.1}, {third:.1}",
        before.memory / MIB
    );
    let is_flat = third <= second * FLAT;
    if !is_flat {
        bail!("{seen}");
    }
    Ok(seen)
}
