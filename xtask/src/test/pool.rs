//! Runs test programs, one or several at a time. Each program's output is shown as one block when it has
//! ended.

use std::panic::resume_unwind;
use std::process::Command;
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result};

use super::outcome;
use crate::build::test_programs::Program;
use crate::results::Results;
use crate::{cmd, say};

/// The programs that take longest. They start first, so that none of them runs alone at the end.
const LONGEST: [&str; 6] = ["rxpath", "port", "cgroup", "threads", "vfs_limit", "restarts"];

/// Runs all programs; `prepare` gets each command before it starts. An error means that one did not start.
pub(super) fn run(
    programs: Vec<Program>,
    at_once: usize,
    prepare: impl Fn(&mut Command) + Sync,
) -> Result<Results> {
    let queue = Mutex::new(ordered(programs).into_iter());
    let take = || queue.lock().expect("no worker panics while it takes one").next();
    let work = || {
        let mut results = Results::default();
        while let Some(program) = take() {
            results.add(run_one(&program, &prepare)?);
        }
        Ok(results)
    };
    let each: Vec<Result<Results>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(ScopedJoinHandle::join);
        joined.map(|results| results.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut all = Results::default();
    for results in each {
        all.add(results?);
    }
    Ok(all)
}

/// Orders the longest programs first; the others keep their order.
fn ordered(mut programs: Vec<Program>) -> Vec<Program> {
    programs.sort_by_key(|program| {
        let place = LONGEST.iter().position(|target| program.is_integration() && program.target == *target);
        place.unwrap_or(LONGEST.len())
    });
    programs
}

fn run_one(program: &Program, prepare: impl Fn(&mut Command)) -> Result<Results> {
    say::step(format_args!("Running {}.", program.source));
    let (mut command, start) = (program.command(), Instant::now());
    prepare(&mut command);
    let (lines, succeeded) = cmd::collect(command).with_context(|| format!("running {}", program.source))?;
    let title = format!("     Running {} ({:.0} s)", program.source, start.elapsed().as_secs_f64());
    say::block([title].iter().chain(&lines));
    Ok(outcome::results(&program.source, &program.selection, &lines, succeeded))
}
