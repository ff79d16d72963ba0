//! What it costs to count all threads, beside what hooks at every wakeup and switch would: with the threads
//! that this machine has, and with many more that sleep.

use std::fmt::Write;
use std::sync::{Arc, Barrier};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aya::sys::{Stats, enable_stats};
use sysprobe_agent::bpf::{ProgramStatistics, Running as _};
use sysprobe_agent::domain::sched::Sched;

use crate::figures::Figures;
use crate::system::cpu_us;
use crate::variants::Bench;

/// How many sleep in addition.
const SLEEPERS: [usize; 3] = [0, 2_000, 10_000];
const REPEATS: usize = 50;
/// How long a pass may take; it never does.
const AT_MOST: Duration = Duration::from_secs(60);
/// Kernel and library want no more of a thread that only sleeps.
const STACK: usize = 64 << 10;

pub(crate) fn report(bench: &Bench) -> Result<String> {
    let mut sched = bench.product(&bench.plan)?;
    let mut out = format!(
        "## Counting all threads once\n\nMedian (quartiles) of {REPEATS}. The program's time is by the \
         kernel's statistics, with their own clock in it; the others are without statistics.\n\n\
         | sleeping besides | threads | program, ns a thread | whole pass, us of CPU | us of time | ns of \
         CPU a thread |\n\
         |---:|---:|---:|---:|---:|---:|\n"
    );
    for sleepers in SLEEPERS {
        let (threads, program) = with_sleepers(sleepers, || in_program(&mut sched))??;
        let (cpu, time) = with_sleepers(sleepers, || passes(&mut sched))??;
        let each = cpu.median() * 1e3 / threads as f64;
        writeln!(out, "| {sleepers} | {threads} | {program:.0} | {cpu:.0} | {time:.0} | {each:.0} |")?;
    }
    Ok(out)
}

/// How many threads a pass meets, and what the program takes for each.
fn in_program(sched: &mut Sched) -> Result<(u64, Figures)> {
    let _statistics = enable_stats(Stats::RunTime)?;
    let (mut threads, mut figures) = (0, Figures::default());
    pass(sched)?;
    for _ in 0..REPEATS {
        let before = statistics(sched)?;
        pass(sched)?;
        let after = statistics(sched)?;
        threads = after.runs - before.runs;
        figures.push((after.run_ns - before.run_ns) as f64 / threads as f64);
    }
    Ok((threads, figures))
}

fn passes(sched: &mut Sched) -> Result<(Figures, Figures)> {
    let (mut cpu, mut time) = (Figures::default(), Figures::default());
    pass(sched)?;
    for _ in 0..REPEATS {
        let (start, used) = (Instant::now(), cpu_us());
        pass(sched)?;
        cpu.push(cpu_us() - used);
        time.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok((cpu, time))
}

/// All that the agent does for one, but for finding out whose the cgroups are.
fn pass(sched: &mut Sched) -> Result<()> {
    sched.begin_task_scan().context("the kernel refuses the scan")?.run(AT_MOST)?;
    sched.threads()?;
    Ok(())
}

fn statistics(sched: &Sched) -> Result<ProgramStatistics> {
    sched.loaded().programs().find(|program| program.name == "sched_scan").context("there is no scan")
}

fn with_sleepers<T>(count: usize, act: impl FnOnce() -> T) -> Result<T> {
    let (begin, end) = (Arc::new(Barrier::new(count + 1)), Arc::new(Barrier::new(count + 1)));
    let sleepers: Vec<_> = (0..count)
        .map(|_| {
            let (begin, end) = (Arc::clone(&begin), Arc::clone(&end));
            Builder::new().stack_size(STACK).spawn(move || {
                begin.wait();
                end.wait();
            })
        })
        .collect::<Result<_, _>>()
        .context("starting threads that sleep")?;
    begin.wait();
    let done = act();
    end.wait();
    sleepers.into_iter().try_for_each(thread::JoinHandle::join).ok().context("a thread that slept failed")?;
    Ok(done)
}
