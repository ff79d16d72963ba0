//! Loads that this program runs itself: a byte goes to another process and back, or a process forks.
//!
//! They run in a process of their own, which is this program started again (`cargo xtask bench worker`). It
//! reads a number of seconds for each part and reports when the part is over, so that the same process runs
//! the parts with and without the agent.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::super::figures::Measured;
use super::super::process::{Process, stop_if_interrupted};
use super::{Bench, Load, Rig};
use crate::{cmd, say};

/// What the worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Work {
    PingPong,
    Fork,
}

/// The worker's line as soon as the time is over, before it spends CPU time on its figures.
const OVER: &str = "over";

/// The worker's figures of a part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Report {
    requests: usize,
    seconds: f64,
    median_ns: u64,
    p99_ns: u64,
}

struct Worker {
    // The worker ends when its input ends, at the latest.
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    process: Process,
    rig: Rig,
}

pub(super) fn open(bench: &Bench, work: Work) -> Result<Box<dyn Load>> {
    let rig = bench.rig(None)?;
    let word = match work {
        Work::PingPong => "ping-pong",
        Work::Fork => "fork",
    };
    // This program's file, even if a build has replaced it meanwhile.
    let mut command = cmd::tool("/proc/self/exe");
    command.args(["bench", "worker", word]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::start(&mut command, rig.server())?;
    let input = process.child.stdin.take().context("the worker has no input")?;
    let output = process.child.stdout.take().context("the worker has no output")?;
    Ok(Box::new(Worker { input, output: BufReader::new(output), process, rig }))
}

impl Load for Worker {
    fn run(&mut self, seconds: u32) -> Result<Measured> {
        let before = self.rig.server.usage_ns()?;
        writeln!(self.input, "{seconds}").context("telling the worker")?;
        let over = self.line()?;
        let used = self.rig.server.usage_ns()? - before;
        let text = self.line()?;
        stop_if_interrupted()?;
        self.process.still_runs()?;
        if over != OVER {
            bail!("the worker said {over:?} at the end of a part");
        }
        let report: Report = serde_json::from_str(&text).with_context(|| format!("not figures: {text:?}"))?;
        let requests = report.requests as f64;
        Ok(Measured {
            requests,
            cpu_ns: used / requests,
            rate: requests / report.seconds,
            median_ns: report.median_ns as f64,
            p99_ns: report.p99_ns as f64,
        })
    }
}

impl Worker {
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("hearing the worker")?;
        Ok(line.trim_end().to_owned())
    }
}

/// Runs in the worker, until its input ends.
pub(crate) fn work(work: Work) -> Result<()> {
    let mut partner = match work {
        Work::PingPong => Some(Partner::start()?),
        Work::Fork => None,
    };
    let mut times = Vec::new();
    for line in io::stdin().lines() {
        let time = Duration::from_secs(line?.parse().context("a number of seconds is expected")?);
        times.clear();
        let start = Instant::now();
        while start.elapsed() < time {
            let before = Instant::now();
            match &mut partner {
                Some(partner) => partner.round()?,
                None => fork()?,
            }
            times.push(u64::try_from(before.elapsed().as_nanos())?);
        }
        let seconds = start.elapsed().as_secs_f64();
        say::output(OVER);
        say::output(&serde_json::to_string(&report(&mut times, seconds)?)?);
    }
    Ok(())
}

fn report(times: &mut [u64], seconds: f64) -> Result<Report> {
    times.sort_unstable();
    let at = |percent: usize| times.get((times.len().saturating_sub(1)) * percent / 100).copied();
    let (median_ns, p99_ns) = at(50).zip(at(99)).context("the time was too short for anything")?;
    Ok(Report { requests: times.len(), seconds, median_ns, p99_ns })
}

/// The other process of the ping-pong, which sends back each byte; it ends when this one does.
struct Partner {
    out: io::PipeWriter,
    back: io::PipeReader,
}

impl Partner {
    fn start() -> Result<Self> {
        take_turns()?;
        let (mut theirs, out) = io::pipe()?;
        let (back, mut answer) = io::pipe()?;
        // SAFETY: this process has one thread, so the child may do whatever its parent may.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()).context("starting the other process"),
            0 => {
                // With its copies of the parent's pipe ends, it would never see them close.
                drop((out, back));
                let mut byte = [0];
                while matches!(theirs.read(&mut byte), Ok(1)) && answer.write_all(&byte).is_ok() {}
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(0) }
            }
            _ => Ok(Self { out, back }),
        }
    }

    fn round(&mut self) -> io::Result<()> {
        self.out.write_all(&[1])?;
        self.back.read_exact(&mut [0])
    }
}

/// Makes this process and its children wait for their turn when they wake another process. Otherwise the two
/// settle into one of several preemption patterns with different costs.
fn take_turns() -> Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one live value.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } < 0 {
        return Err(io::Error::last_os_error()).context("asking for the batch policy");
    }
    Ok(())
}

/// Forks a child that exits at once, and reaps it.
fn fork() -> io::Result<()> {
    // SAFETY: the child calls nothing but `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the kernel writes one number.
    if child < 0 || unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_median_and_its_99_percent() {
        let mut times: Vec<u64> = (1..=101).rev().collect();
        let wanted = Report { requests: 101, seconds: 2.0, median_ns: 51, p99_ns: 100 };
        assert_eq!(report(&mut times, 2.0).unwrap(), wanted);
        assert!(report(&mut [], 2.0).is_err());
    }

    #[test]
    fn a_child_is_born_and_reaped() {
        fork().unwrap();
    }
}
