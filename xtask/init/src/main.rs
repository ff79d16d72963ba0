//! The first process of a test kernel: brings the guest up, runs the jobs it was ordered to, turns the
//! machine off.
//!
//! It lives in the initramfs, statically linked, and owns the guest until the end. What it cannot do it
//! reports; the host decides what that means.

mod mounts;
mod sys;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use xtask_init::{Job, MODULES, ORDERS, Orders, PROGRAMS, Report, SHARE};

/// The second serial port; the first is the kernel's console, which has a name of another kind on arm64.
const REPORTS: &str = if cfg!(target_arch = "aarch64") { "/dev/ttyS0" } else { "/dev/ttyS1" };

fn main() {
    if std::process::id() != 1 {
        // Anywhere else, turning the machine off would be a surprise.
        std::process::exit(1);
    }
    if let Err(error) = guest() {
        drop(fs::write("/dev/kmsg", format!("<3>init: {error:#}")));
    }
    sys::power_off();
}

fn guest() -> Result<()> {
    mounts::early()?;
    let mut reports =
        OpenOptions::new().write(true).open(REPORTS).context("opening the second serial port")?;
    let result = jobs(&mut reports);
    let last = result.map_or_else(|error| Report::Error(format!("{error:#}")), |()| Report::Done);
    report(&mut reports, &last)
}

fn jobs(reports: &mut File) -> Result<()> {
    let text = fs::read_to_string(ORDERS).context("reading the orders")?;
    let orders = Orders::parse(&text).context("the orders have another form")?;
    prepare(&orders)?;
    for job in &orders.jobs {
        report(reports, &Report::Begin(job.name.clone()))?;
        let status = run(job, &orders, reports)?;
        report(reports, &Report::End(status))?;
    }
    Ok(())
}

fn prepare(orders: &Orders) -> Result<()> {
    for module in &orders.modules {
        let image = fs::read(Path::new(MODULES).join(module))?;
        sys::load_module(&image).with_context(|| format!("loading the module {module}"))?;
    }
    mounts::root(SHARE, orders.foreign.then_some(PROGRAMS))?;
    mounts::node()?;
    mounts::cgroups(orders.hybrid)?;
    mounts::modules(&orders.tree)?;
    sys::allow_open_files().context("allowing processes to open many files")?;
    sys::loopback_up().context("bringing the loopback device up")?;
    fs::write("/proc/sys/kernel/hostname", "guest").context("setting the host name")
}

fn run(job: &Job, orders: &Orders, output: &File) -> Result<i32> {
    let mut command = Command::new(&job.program);
    command.args(&job.arguments).current_dir(&orders.directory).env_clear();
    command.envs([("PATH", &*orders.path), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TERM", "dumb")]);
    command.envs(orders.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    let child = command.spawn().with_context(|| format!("starting {}", job.program))?;
    Ok(sys::wait(child.id())?)
}

/// One line of its own, even after a job that did not end its last one.
fn report(reports: &mut File, what: &Report) -> Result<()> {
    Ok(write!(reports, "\n{what}\n")?)
}
