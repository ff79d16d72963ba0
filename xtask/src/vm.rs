//! `cargo xtask vm`: the kernel tests on kernels that this machine does not run.
//!
//! Each kernel is a distribution's own, booted in QEMU with this machine's root file system below a layer of memory.
//! So the binaries that were built here run there unchanged, with all their files, and nothing they do is left.
//! Emulation is the default: it works everywhere, as a virtual machine inside another does not.

mod cpio;
mod initramfs;
mod jobs;
mod kernels;
mod libtest;
mod mirror;
mod modules;
mod progress;
mod qemu;
mod run;
mod summary;
mod tail;
mod tree;

use std::env::consts::ARCH;
use std::time::Duration;

use anyhow::{Result, bail};
use xtask_init::Job;

use crate::{apt, build, say};

/// What the laboratory is made of, by package.
const PACKAGES: [&str; 6] =
    ["debian-archive-keyring", "kmod", "prometheus", "qemu-system-x86", "tmux", "xz-utils"];

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Args {
    /// Kernels by series, such as 5.10 or 6.12 (the oldest, one in the middle and the newest if none is given)
    kernels: Vec<String>,
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
    /// Run a line for the shell instead of tests
    #[arg(long, value_name = "LINE", conflicts_with_all = ["test", "filter"])]
    run: Option<String>,
    /// How the guest mounts its cgroup controllers
    #[arg(long, value_enum, default_value = "v2")]
    cgroup: Cgroup,
    /// Show the kernel's console
    #[arg(long)]
    console: bool,
    /// Look for newer packages of the kernels
    #[arg(long)]
    refresh: bool,
    /// Break a run off after so many seconds without a line
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    silence: u64,
    /// Break a run off after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Cgroup {
    /// As v1, with v2 beside them
    V1,
    V2,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let chosen = kernels::select(&args.kernels, args.all)?;
    prepare()?;
    let jobs = jobs(args)?;
    let init = initramfs::init()?;
    let kernels: Vec<_> =
        chosen.iter().map(|series| tree::ensure(series, args.refresh)).collect::<Result<_>>()?;

    let (mut outcomes, mut broken) = (Vec::new(), Vec::new());
    for kernel in &kernels {
        say::step(format_args!("Booting {}.", kernel.version));
        let ran = run::run(kernel, &init, &jobs, args.settings())?;
        outcomes.extend(ran.outcomes);
        if !ran.complete {
            broken.push(kernel.label);
        }
    }
    let labels: Vec<&str> = kernels.iter().map(|kernel| kernel.label).collect();
    for line in summary::table(&labels, &outcomes) {
        say::output(&line);
    }
    judge(&outcomes, &broken)
}

/// Builds what the guests run.
fn jobs(args: &Args) -> Result<Vec<Job>> {
    build::release()?;
    if let Some(line) = &args.run {
        return Ok(vec![jobs::shell(line)]);
    }
    let tests = jobs::build(&args.test)?;
    Ok(tests.iter().map(|tests| jobs::job(tests, args.filter.as_deref())).collect())
}

/// Checks what cannot be installed, installs the rest.
fn prepare() -> Result<()> {
    if ARCH != "x86_64" {
        bail!("the test kernels are for x86_64 and run its programs: this machine has {ARCH}");
    }
    if !apt::root() {
        bail!("a test kernel sees all of this machine's files: run this as root");
    }
    apt::ensure(&PACKAGES, "Test kernels run in QEMU")?;
    mirror::check_keyring()
}

fn judge(outcomes: &[summary::Outcome], broken: &[&str]) -> Result<()> {
    let failed = outcomes.iter().filter(|outcome| outcome.verdict == libtest::Verdict::Failed).count();
    if !broken.is_empty() {
        bail!("kernel {} did not get to the end, {failed} tests failed", broken.join(", "));
    }
    if failed > 0 {
        bail!("{failed} tests failed");
    }
    if outcomes.is_empty() {
        bail!("no test was run");
    }
    Ok(())
}

// === impl Args ===

impl Args {
    fn settings(&self) -> run::Settings {
        run::Settings {
            kvm: self.kvm,
            hybrid: self.cgroup == Cgroup::V1,
            console: self.console,
            silence: Duration::from_secs(self.silence),
            limit: Duration::from_secs(self.limit),
        }
    }
}
