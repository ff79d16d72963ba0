//! One kernel's run: boots it with its orders and follows its output until it is off or no longer
//! trustworthy.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use xtask_init::{Job, Orders};

use super::progress::{Progress, seconds};
use super::qemu::{CPUS, Machine, Processor};
use super::summary::Outcome;
use super::tail::Tail;
use super::tree::Kernel;
use super::{initramfs, jobs, modules};
use crate::results::Failure;
use crate::{paths, say};

/// How often the serial ports are read.
const POLL: Duration = Duration::from_millis(50);
/// How long a kernel in trouble may go on writing to its console.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long the machine may take to turn itself off.
const OFF: Duration = Duration::from_secs(10);

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'a> {
    pub(super) processor: Processor,
    pub(super) cpus: u32,
    /// Programs of the guest's architecture, if it cannot run this machine's.
    pub(super) programs: Option<&'a Path>,
    pub(super) hybrid: bool,
    /// Extra words for the kernel's command line.
    pub(super) append: &'a str,
    /// Show the console as it comes.
    pub(super) console: bool,
    /// A run is aborted after `silence` without output, and after `limit` in any case.
    pub(super) silence: Duration,
    pub(super) limit: Duration,
}

/// The outcome of a run.
pub(super) struct Ran {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) failures: Vec<Failure>,
    /// What a measurement has printed.
    pub(super) rows: Vec<String>,
    pub(super) complete: bool,
}

impl Settings<'_> {
    /// The flags of `cargo xtask vm` for a machine like this, each after a space.
    fn flags(&self) -> String {
        let cpus = (self.cpus != CPUS).then(|| format!(" --cpus {}", self.cpus));
        let cgroup = self.hybrid.then(|| " --cgroup v1".to_owned());
        let append = (!self.append.is_empty()).then(|| format!(" --append '{}'", self.append));
        [cpus, cgroup, append].into_iter().flatten().collect()
    }
}

/// Runs the jobs on one kernel.
pub(super) fn run(kernel: &Kernel, init: &Path, jobs: &[Job], settings: Settings<'_>) -> Result<Ran> {
    let start = Instant::now();
    let initramfs = kernel.directory.join("initramfs");
    let modules = modules::boot(&kernel.modules.join(&kernel.version))?;
    let orders = Orders {
        hybrid: settings.hybrid,
        foreign: settings.programs.is_some(),
        modules: modules.iter().map(|module| module.name.clone()).collect(),
        tree: kernel.modules.display().to_string(),
        directory: paths::root().join("sysprobe-agent").display().to_string(),
        path: jobs::search_path(kernel.arch),
        environment: jobs::environment(kernel.arch),
        jobs: jobs.to_vec(),
    };
    initramfs::write(&initramfs, init, &modules, &orders)?;
    let mut machine = Machine::start(kernel, &initramfs, settings)?;
    let mut progress = Progress::new(kernel.label, settings.flags());
    let fault = listen(&mut machine, &mut progress, settings)?;
    if let Some(fault) = &fault {
        progress.broke_off().iter().for_each(|line| say::output(line));
        mourn(kernel, &progress, &machine, fault);
    }
    say::step(format_args!("Kernel {} took {}.", kernel.version, seconds(start.elapsed())));
    let mut failures = progress.failures();
    if let Some(fault) = fault.as_ref().filter(|_| failures.is_empty()) {
        failures.push(super::failure_of_kernel(kernel.label, [fault.clone()]));
    } else if let (Some(fault), Some(last)) = (&fault, failures.last_mut()) {
        last.report.push(fault.clone());
    }
    Ok(Ran { failures, outcomes: progress.outcomes, rows: progress.rows, complete: fault.is_none() })
}

/// Follows the serial ports to the end; returns the machine's fault, if there is one.
fn listen(machine: &mut Machine, progress: &mut Progress, settings: Settings<'_>) -> Result<Option<String>> {
    let (mut console, mut reports) = (Tail::open(&machine.console)?, Tail::open(&machine.reports)?);
    let start = Instant::now();
    let mut heard = start;
    let mut until = start + settings.limit;
    loop {
        // Checked before reading, so that output written before the end is not missed.
        let ended = machine.ended()?.is_some();
        for line in console.lines()? {
            if settings.console {
                say::step(&line);
            }
            let calm = progress.alarm.is_none();
            progress.console(&line);
            if calm && progress.alarm.is_some() {
                until = until.min(Instant::now() + LAST_WORDS);
            }
        }
        for line in reports.lines()? {
            heard = Instant::now();
            progress.report(&line).iter().for_each(|line| say::output(line));
            if progress.done {
                until = until.min(heard + OFF);
            }
        }
        if ended || Instant::now() > until || heard.elapsed() > settings.silence {
            // A running test's name is on an incomplete line, because the verdict follows it.
            progress.report(&reports.rest());
            return Ok(fault(progress, ended, heard.elapsed() > settings.silence));
        }
        thread::sleep(POLL);
    }
}

/// The reason for an abnormal end, if any.
fn fault(progress: &Progress, ended: bool, silent: bool) -> Option<String> {
    let wrong = progress.error.clone().or_else(|| progress.alarm.clone());
    match (progress.done, ended) {
        _ if wrong.is_some() => wrong,
        (true, true) => None,
        (true, false) => Some("the machine did not turn itself off".to_owned()),
        (false, true) => Some("the machine went off before its work was done".to_owned()),
        (false, false) if silent => Some("not a line for a long time: something hangs".to_owned()),
        (false, false) => Some("the run took too long".to_owned()),
    }
}

fn mourn(kernel: &Kernel, progress: &Progress, machine: &Machine, fault: &str) {
    say::step(format_args!("Kernel {} broke off: {fault}. The last lines of its console:", kernel.version));
    progress.last_of_console().for_each(|line| say::step(format_args!("  {line}")));
    let complaints = machine.complaints();
    complaints.lines().for_each(|line| say::step(format_args!("  QEMU: {line}")));
    say::step(format_args!("All of what it and its file server wrote is in {}.", kernel.directory.display()));
}
