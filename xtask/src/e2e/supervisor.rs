//! The outer process: prepares, starts the rig in its own namespaces, and always cleans up after it. It stays
//! in the machine's namespaces and does nothing that can fail halfway.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::machine::{self, Machine, Traces};
use super::parts::Parts;
use super::scenario::Scenario;
use super::{Args, places, processes};
use crate::{apt, build, chart, cmd, image, say};

const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args) -> Result<()> {
    if !apt::root() {
        bail!("the rig makes namespaces, cgroups and mounts, and loads programs: run this as root");
    }
    let start = Instant::now();
    fs::create_dir_all(places::logs())?;
    let _only_one = lock()?;
    Parts::ensure()?;
    let agent = match &args.agent {
        Some(program) => program.canonicalize().with_context(|| format!("finding {}", program.display()))?,
        None => build::release()?,
    };
    if Scenario::chosen(&args.scenarios).contains(&Scenario::Fleet) {
        build_fleet()?;
    }
    if Scenario::chosen(&args.scenarios).contains(&Scenario::Chart) {
        build_chart()?;
    }
    say::step(format_args!("Everything is built after {} s.", start.elapsed().as_secs()));

    // Ends programs of an earlier run whose supervisor was killed.
    processes::end_programs_below(&places::laboratory())?;
    let mut before = Machine::look();
    before.remember()?;
    machine::remove_cgroups();
    processes::supervise()?;
    let inside = machine::make_places().and_then(|()| enter(&args.words(agent)));
    let ended = inside.map(|inside| attend(&inside));
    let cleaned = clean_up(&before);
    say::step(format_args!("All of it took {} s.", start.elapsed().as_secs()));
    if let Err(error) = cleaned {
        bail!("the machine is not as it was: {error:#}");
    }
    match ended? {
        Some(0) => Ok(()),
        Some(_) => {
            bail!("not everything is as it should be, see above; logs are in {}", places::logs().display())
        }
        None => bail!("interrupted"),
    }
}

/// Builds the program that runs the agent's API clients without the agent.
fn build_fleet() -> Result<()> {
    say::step("Building the clients of many agents.");
    let mut cargo = cmd::cargo();
    cargo.args(["build", "--release", "--locked", "--package", "sysprobe-agent", "--example", "fleet"]);
    cmd::run(&mut cargo)
}

/// Prepares the agent's image, helm, and the chart's custom resource definitions: inside, there is no network
/// to fetch them.
fn build_chart() -> Result<()> {
    fs::copy(image::make(super::image::AGENT)?.0, super::image::agent()).context("keeping the image")?;
    chart::Tools::ensure()?;
    let directory = places::custom_resources();
    fs::create_dir_all(&directory)?;
    for file in chart::custom_resources()? {
        let name = file.file_name().context("a file without a name")?;
        // The modules' files are read-only, and a plain copy would be too.
        fs::write(directory.join(name), fs::read(&file)?).context("keeping a custom resource")?;
    }
    Ok(())
}

/// Two runs at once would kill each other's pods.
fn lock() -> Result<File> {
    let path = places::laboratory().join("lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    // SAFETY: the descriptor is open; the kernel releases the lock when it is closed.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        bail!("another `cargo xtask e2e` is running");
    }
    Ok(file)
}

/// Starts this program again in its own network and mount namespaces.
fn enter(words: &[OsString]) -> Result<Child> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = cmd::tool("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "--"]).arg(program);
    command.args(["e2e", "--inside"]).args(words);
    // The inner process finds the repository's root by this variable, which `cmd::tool` has removed.
    command.env("CARGO_MANIFEST_DIR", crate::paths::root().join("xtask"));
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        command.env("CARGO_TARGET_DIR", target);
    }
    command.stdin(Stdio::null()).spawn().context("starting the rig with `unshare`")
}

/// Waits for the inner process to end, and reaps orphans meanwhile. Returns `None` if Ctrl-C came first.
fn attend(inside: &Child) -> Option<i32> {
    loop {
        let status = processes::reap(inside.id());
        // The terminal sends Ctrl-C to both processes, so the rig may have ended because of it already.
        if processes::interrupted() {
            return None;
        }
        if status.is_some() {
            return status;
        }
        thread::sleep(PAUSE);
    }
}

/// Ends every process; mounts, networks and in-memory files end with the last of them.
fn clean_up(before: &Machine) -> Result<()> {
    processes::end_descendants()?;
    before.restore()?;
    drop(fs::remove_dir(places::state()));
    let left = before.differences(&Machine::look(), &Traces::look());
    if !left.is_empty() {
        bail!("something is left of the run: {}", left.join("; "));
    }
    say::step("Nothing is left of the run: processes, mounts, cgroups and settings are as before.");
    Ok(())
}
