//! `cargo xtask vm`: runs the kernel tests on kernels other than this machine's.
//!
//! Each kernel is a distribution's own, booted in QEMU. An in-memory overlay covers this machine's root file
//! system, so binaries built here run there unchanged and leave nothing behind. For a guest of another
//! architecture, programs of its own cover this machine's. Emulation is the default because it works
//! everywhere; nested virtualisation does not.

mod board;
mod cpio;
mod initramfs;
mod jobs;
mod kernels;
mod libtest;
pub(crate) mod measure;
mod mirror;
mod modules;
mod programs;
mod progress;
mod qemu;
mod run;
mod summary;
mod tail;
mod tree;

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle, available_parallelism};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser as _;
use xtask_init::Job;

use crate::build::Arch;
use crate::results::{Failure, Report, Results};
use crate::{apt, build, say};
use libtest::Verdict;
use qemu::Processor;
use tree::Kernel;

/// Packages that the test setup needs.
const PACKAGES: [&str; 3] = ["debian-archive-keyring", "kmod", "xz-utils"];

/// Packages with the programs that guests use from this machine.
const PROGRAMS: [&str; 10] = [
    "btrfs-progs",
    "dmsetup",
    "fio",
    "iproute2",
    "procps",
    "prometheus",
    "strace",
    "stress-ng",
    "tmux",
    "xfsprogs",
];

/// A job, and the kernel it runs on (all of them without one).
struct Ordered {
    kernel: Option<&'static str>,
    job: Job,
}

/// The kernels that every change is tested on: the oldest and the newest.
const SMOKE_KERNELS: [&str; 2] = ["5.10", "7.3"];

/// Tests that need a machine of their own, as command lines of `cargo xtask vm`: a CPU that has never been
/// online, and more CPUs than a host has.
pub(crate) const SPECIAL: [&str; 2] =
    ["6.1 --append maxcpus=1 --test kernel_bugs", "6.12 --cpus 32 --test sizes --test shards --silence 500"];

/// Seconds.
const SILENCE: u64 = 180;
const LIMIT: u64 = 1200;

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Args {
    /// Kernels by series, such as 5.10 or 6.12 (default: the oldest, one in the middle and the newest)
    kernels: Vec<String>,
    /// The guests' architecture (default: this machine's)
    #[arg(long, value_enum, default_value_t = Arch::HOST)]
    arch: Arch,
    /// Run on every kernel there is
    #[arg(long, conflicts_with = "kernels")]
    all: bool,
    /// Use the processor's virtualisation, which is faster, instead of emulation
    #[arg(long)]
    kvm: bool,
    /// Run this file of tests only, such as sched, and all of it (may be given more than once)
    #[arg(long, value_name = "FILE")]
    test: Vec<String>,
    /// Run only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run a shell command line instead of tests
    #[arg(long, value_name = "LINE", conflicts_with_all = ["test", "filter"])]
    run: Option<String>,
    /// How many CPUs a guest has; emulated CPUs take turns, so many CPUs make everything slow
    #[arg(long, value_name = "NUMBER", default_value_t = qemu::CPUS,
          value_parser = clap::value_parser!(u32).range(1..=288))]
    cpus: u32,
    /// How the guest mounts its cgroup controllers
    #[arg(long, value_enum, default_value = "v2")]
    cgroup: Cgroup,
    /// Extra words for the kernel's command line, such as maxcpus=1
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// Show the kernel's console
    #[arg(long)]
    console: bool,
    /// Look for newer packages of the kernels
    #[arg(long)]
    refresh: bool,
    /// How many kernels to boot at the same time (default: the number of processors)
    #[arg(long, value_name = "NUMBER")]
    at_once: Option<usize>,
    /// Abort a run after this many seconds without output
    #[arg(long, value_name = "SECONDS", default_value_t = SILENCE)]
    silence: u64,
    /// Abort a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = LIMIT)]
    limit: u64,
    /// Run the parts of test files that `cargo xtask ci --full` has time for
    #[arg(long, conflicts_with_all = ["test", "filter", "run"])]
    short: bool,
    /// Run the parts of two test files that every change is tested with
    #[arg(long, conflicts_with_all = ["test", "filter", "run", "short"])]
    smoke: bool,
}

/// A command line of its own, without the name of a program.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Cgroup {
    /// Mount the controllers as cgroup v1, with v2 alongside
    V1,
    V2,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Guests { results, broken } = in_guests(args)?;
    let failed = results.failures.len();
    if !broken.is_empty() {
        bail!("kernel {} did not get to the end, {failed} tests failed", broken.join(", "));
    }
    if failed > 0 {
        bail!("{failed} tests failed");
    }
    Ok(())
}

/// The results of all guests.
pub(crate) struct Guests {
    pub(crate) results: Results,
    /// Kernels whose run did not finish.
    pub(crate) broken: Vec<&'static str>,
}

/// Runs the tests in guests. An error means that the preparation failed; failed tests are in the results.
pub(crate) fn in_guests(args: &Args) -> Result<Guests> {
    let chosen = kernels::select(&args.kernels, args.all)?;
    args.check()?;
    prepare(args.arch)?;
    let jobs = jobs(args)?;
    let init = initramfs::init(args.arch)?;
    let kernels: Vec<_> =
        chosen.iter().map(|series| tree::ensure(series, args.arch, args.refresh)).collect::<Result<_>>()?;
    let programs = programs::ensure(args.arch, args.refresh)?;
    let settings = run::Settings { programs: programs.as_deref(), ..args.settings() };

    let (mut outcomes, mut results, mut broken) = (Vec::new(), Results::default(), Vec::new());
    for (kernel, ran) in kernels.iter().zip(boot_all(&kernels, &init, &jobs, args.at_once, settings)) {
        match ran {
            Ok(ran) => {
                outcomes.extend(ran.outcomes);
                results.failures.extend(ran.failures);
                if !ran.complete {
                    broken.push(kernel.label);
                }
            }
            Err(error) => {
                results.failures.push(failure_of_kernel(kernel.label, [format!("{error:#}")]));
                broken.push(kernel.label);
            }
        }
    }
    let labels: Vec<&str> = kernels.iter().map(|kernel| kernel.label).collect();
    for line in summary::table(&labels, &outcomes) {
        say::output(&line);
    }
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count() as u64;
    (results.passed, results.ignored) = (count(Verdict::Ok), count(Verdict::Skipped));
    if outcomes.is_empty() && broken.is_empty() {
        bail!("no test was run");
    }
    Ok(Guests { results, broken })
}

/// A kernel whose run failed as a whole.
fn failure_of_kernel(label: &str, lines: impl IntoIterator<Item = String>) -> Failure {
    Failure {
        test: format!("Linux {label}"),
        report: Report::of(lines),
        alone: format!("cargo xtask vm {label} --console"),
    }
}

/// Runs every kernel, as many at a time as there are processors: an emulated machine keeps one busy.
fn boot_all(
    kernels: &[Kernel],
    init: &Path,
    jobs: &[Ordered],
    at_once: Option<usize>,
    settings: run::Settings<'_>,
) -> Vec<Result<run::Ran>> {
    let at_once = at_once.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let take = || kernels.get(next.fetch_add(1, Ordering::Relaxed));
    let boot_some = || {
        let mut ran = Vec::new();
        while let Some(kernel) = take() {
            say::step(format_args!("Booting {}.", kernel.version));
            let own = jobs.iter().filter(|ordered| ordered.kernel.is_none_or(|only| only == kernel.label));
            let own: Vec<Job> = own.map(|ordered| ordered.job.clone()).collect();
            ran.push((kernel.label, run::run(kernel, init, &own, settings)));
        }
        ran
    };
    let mut all: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once.max(1)).map(|_| scope.spawn(boot_some)).collect();
        let each = workers.into_iter().map(ScopedJoinHandle::join);
        each.flat_map(|ran| ran.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let place = |label: &str| kernels.iter().position(|kernel| kernel.label == label);
    all.sort_by_key(|(label, _)| place(label));
    all.into_iter().map(|(_, ran)| ran).collect()
}

/// Builds what the guests run.
fn jobs(args: &Args) -> Result<Vec<Ordered>> {
    if args.arch == Arch::HOST {
        build::release()?;
    } else {
        build::objects_for(args.arch)?;
        build::static_agent(args.arch, "release")?;
    }
    let everywhere = |job| Ordered { kernel: None, job };
    if let Some(line) = &args.run {
        return Ok(vec![everywhere(jobs::shell(line))]);
    }
    let parts = args.parts();
    let files = parts.iter().map(|part| part.file.to_owned()).chain(args.test.iter().cloned());
    let tests = jobs::build(args.arch, &files.collect::<Vec<_>>())?;
    if !parts.is_empty() {
        let parts = tests.iter().filter_map(|tests| Some((tests, jobs::part(parts, tests)?)));
        let ordered = |(tests, part): (&_, jobs::Part)| Ordered {
            kernel: part.kernel,
            job: jobs::job(tests, part.tests),
        };
        return Ok(parts.map(ordered).collect());
    }
    let filter: Vec<&str> = args.filter.as_deref().into_iter().collect();
    Ok(tests.iter().map(|tests| everywhere(jobs::job(tests, &filter))).collect())
}

/// Checks the prerequisites that cannot be installed, and installs the rest.
fn prepare(arch: Arch) -> Result<()> {
    if Arch::HOST != Arch::Amd64 {
        bail!("test kernels are booted from x86_64 only: this machine has {}", Arch::HOST.machine());
    }
    if !apt::root() {
        bail!("a test kernel sees all of this machine's files: run this as root");
    }
    let emulator = match arch {
        Arch::Amd64 => "qemu-system-x86",
        Arch::Arm64 => "qemu-system-arm",
    };
    let own: &[&str] = if arch == Arch::HOST { &PROGRAMS } else { &[] };
    apt::ensure(&[&PACKAGES[..], &[emulator], own].concat(), "Test kernels run in QEMU")?;
    mirror::check_keyring()
}

// === impl Args ===

impl Args {
    /// Parses a command line, one of [`SPECIAL`].
    pub(crate) fn parse(line: &str) -> Result<Self> {
        Ok(Line::try_parse_from(line.split(' '))?.args)
    }

    /// Tests that the programs load and count on the oldest and the newest kernel, in every attach mode.
    pub(crate) fn smoke() -> Self {
        Self {
            kernels: SMOKE_KERNELS.map(str::to_owned).to_vec(),
            short: false,
            smoke: true,
            ..Self::short()
        }
    }

    /// Tests a part of every file, as much as `cargo xtask test` and `cargo xtask ci --full` have time for.
    pub(crate) fn short() -> Self {
        Self {
            kernels: Vec::new(),
            arch: Arch::HOST,
            all: false,
            kvm: false,
            test: Vec::new(),
            filter: None,
            run: None,
            cpus: qemu::CPUS,
            cgroup: Cgroup::V2,
            append: String::new(),
            console: false,
            refresh: false,
            at_once: None,
            silence: SILENCE,
            limit: LIMIT,
            short: true,
            smoke: false,
        }
    }

    /// The parts of files to run; empty for whole files.
    fn parts(&self) -> &'static [jobs::Part] {
        match (self.short, self.smoke) {
            (true, _) => &jobs::SHORT,
            (_, true) => &jobs::SMOKE,
            (false, false) => &[],
        }
    }

    fn check(&self) -> Result<()> {
        if self.kvm && self.arch != Arch::HOST {
            bail!(
                "`--kvm` runs guests on this machine's own processor, which is not for {}",
                self.arch.name()
            );
        }
        Ok(())
    }

    fn settings(&self) -> run::Settings<'_> {
        run::Settings {
            programs: None,
            processor: if self.kvm { Processor::Virtualised } else { Processor::Emulated },
            cpus: self.cpus,
            hybrid: self.cgroup == Cgroup::V1,
            append: &self.append,
            console: self.console,
            silence: Duration::from_secs(self.silence),
            limit: Duration::from_secs(self.limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    #[test]
    fn special_machines_are_command_lines_with_files_of_tests() {
        for line in SPECIAL {
            let args = Args::parse(line).unwrap();
            kernels::select(&args.kernels, args.all).unwrap();
            assert!(!args.test.is_empty(), "{line}");
            for file in &args.test {
                assert!(paths::root().join("sysprobe-agent/tests").join(format!("{file}.rs")).exists());
            }
        }
    }
}
