//! What a wakeup and a switch cost, by the kernel's own statistics of each program.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use aya::sys::{Stats, enable_stats};
use sysprobe_agent::bpf::ProgramStatistics;

use crate::figures::Figures;
use crate::ring::Ring;
use crate::variants::{Bench, EMPTY, Running, VARIANTS, Variant};

const SETTLE: Duration = Duration::from_millis(60);
const MEASURE: Duration = Duration::from_millis(240);

/// One variant's nanoseconds under one load, each the mean of a run and net of the empty program of that run.
#[derive(Clone, Default)]
struct Cost {
    wakeup: Figures,
    switch: Figures,
    both: Figures,
}

/// Mean nanoseconds per run, by the hook that the program's name tells.
#[derive(Clone, Copy, Default)]
struct Means {
    wakeup: Option<f64>,
    switch: Option<f64>,
}

pub(crate) fn report(bench: &Bench, rounds: usize) -> Result<String> {
    let root = bench.plan.hierarchy.as_ref().context("no cgroup hierarchy")?.key.root();
    let _statistics = enable_stats(Stats::RunTime)?;
    let (pair, pair_empty) = measure(bench, &mut Ring::pair()?, rounds)?;
    let (ring, ring_empty) = measure(bench, &mut Ring::of_cgroups(root)?, rounds)?;
    let mut out = format!(
        "## One wakeup and one switch\n\n\
         Nanoseconds per run by the kernel's program statistics, net of the empty program on the same hook \
         in the same run ({pair_empty} and {ring_empty} at the switch): median (quartiles) of {rounds} \
         interleaved runs of {} ms.\n\n\
         | | pair: wakeup | switch | both | 20 processes, 10 cgroups: wakeup | switch | both |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
        MEASURE.as_millis(),
    );
    for ((variant, pair), ring) in VARIANTS.iter().zip(&pair).zip(&ring) {
        writeln!(out, "| {} | {} | {} |", variant.title, cells(pair), cells(ring))?;
    }
    Ok(out)
}

fn cells(cost: &Cost) -> String {
    let wakeup = cost.wakeup.median();
    let wakeup = if wakeup == 0.0 { "-".to_owned() } else { format!("{wakeup:.1}") };
    format!("{wakeup} | {:.1} | {}", cost.switch.median(), cost.both)
}

fn measure(bench: &Bench, ring: &mut Ring, rounds: usize) -> Result<(Vec<Cost>, Figures)> {
    let mut costs = vec![Cost::default(); VARIANTS.len()];
    let mut empties = Figures::default();
    for round in 0..rounds {
        // There and back, so that a drift meets all alike.
        let mut order: Vec<usize> = (0..VARIANTS.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let (empty, variant) = measure_once(bench, ring, &VARIANTS[index])?;
            empties.push(empty.switch.context("the empty program did not run")?);
            costs[index].push(empty, variant);
        }
    }
    Ok((costs, empties))
}

fn measure_once(bench: &Bench, ring: &mut Ring, variant: &Variant) -> Result<(Means, Means)> {
    let empty = Running::Bench(Box::new(bench.bench(&EMPTY)?));
    let running = bench.start(variant)?;
    ring.run(SETTLE)?;
    let before = (empty.programs(), running.programs());
    ring.run(MEASURE)?;
    Ok((means(&before.0, &empty.programs()), means(&before.1, &running.programs())))
}

/// All programs at and around a switch make one figure: what they took together, for each run of the most
/// frequent one.
fn means(before: &[ProgramStatistics], after: &[ProgramStatistics]) -> Means {
    let mut means = Means::default();
    let (mut switches, mut switching_ns) = (0, 0);
    for (before, after) in before.iter().zip(after) {
        let (runs, run_ns) = (after.runs - before.runs, after.run_ns - before.run_ns);
        if after.name.ends_with("_wk") {
            means.wakeup = (runs > 0).then(|| run_ns as f64 / runs as f64);
        } else if !after.name.ends_with("_new") && after.name != "sched_newtask" {
            switches = switches.max(runs);
            switching_ns += run_ns;
        }
    }
    means.switch = (switches > 0).then(|| switching_ns as f64 / switches as f64);
    means
}

impl Cost {
    fn push(&mut self, empty: Means, variant: Means) {
        let net = |empty: Option<f64>, variant: Option<f64>| Some(variant? - empty?);
        let wakeup = net(empty.wakeup, variant.wakeup).unwrap_or(0.0);
        let switch = net(empty.switch, variant.switch).unwrap_or(0.0);
        self.wakeup.push(wakeup);
        self.switch.push(switch);
        self.both.push(wakeup + switch);
    }
}
