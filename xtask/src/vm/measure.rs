//! Runs one program in guests whose clock counts instructions, and returns the rows of data that it prints.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle, available_parallelism};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use xtask_init::Job;

use super::libtest::Verdict;
use super::progress::MEASUREMENT;
use super::qemu::Processor;
use super::tree::Kernel;
use super::{initramfs, kernels, prepare, run, tree};
use crate::build::Arch;
use crate::say;

/// A measurement prints nothing while it loads programs, which takes seconds in emulation, or while it
/// compares calls with and without all programs of an attach mode, which takes minutes.
const SILENCE: Duration = Duration::from_secs(420);
/// A measurement takes a quarter of an hour on an otherwise idle machine.
const LIMIT: Duration = Duration::from_secs(2400);

/// Kernels on disk, and the init program that boots with them.
pub(crate) struct Laboratory {
    kernels: Vec<Kernel>,
    init: PathBuf,
}

/// The rows of each boot of one kernel.
pub(crate) type Told = (&'static str, Vec<Vec<String>>);

impl Laboratory {
    /// Opens the named kernels, or all of them if none is named.
    pub(crate) fn open(labels: &[String]) -> Result<Self> {
        let chosen = kernels::select(labels, labels.is_empty())?;
        prepare(Arch::HOST)?;
        let kernels =
            chosen.iter().map(|series| tree::ensure(series, Arch::HOST, false)).collect::<Result<_>>()?;
        Ok(Self { kernels, init: initramfs::init(Arch::HOST)? })
    }

    /// Boots each kernel `boots` times and runs the program there. Boots run in parallel: other load on the
    /// host does not change instruction counts.
    pub(crate) fn boot_all(&self, boots: u32, program: &Path, arguments: &[String]) -> Result<Vec<Told>> {
        let orders: Vec<_> =
            self.kernels.iter().flat_map(|kernel| (0..boots).map(move |boot| (kernel, boot))).collect();
        let next = AtomicUsize::new(0);
        let boot_some = || {
            let take = || orders.get(next.fetch_add(1, Ordering::Relaxed));
            let boot = |(kernel, boot): &(&Kernel, u32)| {
                (kernel.label, *boot, self.boot(kernel, *boot, program, arguments))
            };
            std::iter::from_fn(take).map(boot).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..processors()).map(|_| scope.spawn(boot_some)).collect();
            let each = workers.into_iter().map(ScopedJoinHandle::join);
            each.flat_map(|told| told.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        all.sort_by_key(|(_, boot, _)| *boot);
        let mut told: Vec<Told> = self.kernels.iter().map(|kernel| (kernel.label, Vec::new())).collect();
        for (label, _, rows) in all {
            let of_kernel = told.iter_mut().filter(|(other, _)| *other == label);
            let rows = rows?;
            of_kernel.for_each(|(_, boots)| boots.push(rows.clone()));
        }
        Ok(told)
    }

    fn boot(&self, kernel: &Kernel, boot: u32, program: &Path, arguments: &[String]) -> Result<Vec<String>> {
        let mut kernel = kernel.clone();
        // Tests and other boots may run on the same kernel at the same time, so each boot has its own
        // directory.
        kernel.directory.push(format!("cost-{boot}"));
        fs::create_dir_all(&kernel.directory)
            .with_context(|| format!("creating {}", kernel.directory.display()))?;
        say::step(format_args!("Booting {} to count instructions.", kernel.version));
        let ran = run::run(&kernel, &self.init, &[job(program, arguments)], settings())?;
        let failed = ran.outcomes.iter().any(|outcome| outcome.verdict == Verdict::Failed);
        if !ran.complete || failed {
            bail!("the measurement on kernel {} did not get to the end, see above", kernel.label);
        }
        Ok(ran.rows)
    }
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Runs the program from a copy in memory: waiting for a page from the host executes no instructions but
/// takes an unpredictable time in the guest.
fn job(program: &Path, arguments: &[String]) -> Job {
    const COPY: &str = "/dev/shm/measurement";
    let line = format!("cp '{}' {COPY} && exec {COPY} {}", program.display(), arguments.join(" "));
    Job {
        name: MEASUREMENT.to_owned(),
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), line],
    }
}

const fn settings() -> run::Settings<'static> {
    run::Settings {
        processor: Processor::Counting,
        cpus: 1,
        programs: None,
        hybrid: false,
        append: "",
        console: false,
        silence: SILENCE,
        limit: LIMIT,
    }
}
