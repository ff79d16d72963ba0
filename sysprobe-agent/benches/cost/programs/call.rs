//! What a call takes longer with programs on it, the kernel's way to them included: without any, with all
//! programs of an attach mode, and with another tool that watches the same.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aya::programs::loaded_programs;

use super::disk::Disk;
use super::network::{Burst, Datagram, Echo};
use super::report::{Line, Watched};
use super::storage::Reader;
use super::{Stage, say, settle};
use crate::figures::Figures;

/// Calls of a batch; few enough for most batches to go without a timer's interrupt.
const CALLS: u32 = 50;
const WARM_UP: usize = 5;
const BATCHES: usize = 25;
/// In emulation a tool takes seconds to load its programs.
const PATIENCE: Duration = Duration::from_secs(120);

type Again = Box<dyn FnMut() -> Result<()>>;

/// Something that is done again and again.
struct Work {
    name: &'static str,
    open: fn() -> Result<Again>,
    /// The domains that watch it; none for all that there are.
    domains: &'static [&'static str],
    /// The tools that watch it.
    tools: &'static [&'static [&'static str]],
}

/// As `libbpf-tools` and `bpftrace` have them.
const WORKS: [Work; 5] = [
    Work {
        name: "a read of 100 bytes of a file in memory",
        open: || Reader::new().map(|reader| Box::new(move || reader.read()) as Again),
        domains: &[],
        tools: &[&["vfsstat", "3600"], &["funclatency", "vfs_read"]],
    },
    Work {
        name: "a read of a block and a flush of a loop device",
        open: || Disk::new().map(|mut disk| Box::new(move || disk.read_and_flush()) as Again),
        domains: &[],
        tools: &[&["biolatency", "3600"], &["biolatency", "-D", "-F", "3600"]],
    },
    Work {
        name: "100 bytes over a TCP connection and back",
        open: || Echo::new().map(|mut echo| Box::new(move || echo.call()) as Again),
        domains: &["tcp", "net", "rxpath"],
        tools: &[&["tcprtt"], &["tcpretrans.bt"]],
    },
    Work {
        name: "20 segments of 1,000 bytes over a TCP connection, all there before they are read",
        open: || Burst::new().map(|mut burst| Box::new(move || burst.call()) as Again),
        domains: &["tcp", "net", "rxpath"],
        tools: &[],
    },
    Work {
        name: "a datagram of 100 bytes, sent and received",
        open: || Datagram::new().map(|datagram| Box::new(move || datagram.pass()) as Again),
        domains: &["tcp", "net", "rxpath"],
        tools: &[],
    },
];

/// With the domains whose attach mode this kernel takes. Without those that see the work there is nothing to
/// measure.
pub(super) fn of_mode(stage: &Stage, domains: &[&'static str]) -> Result<()> {
    for work in &WORKS {
        let wanted = |domain: &&&str| work.domains.is_empty() || work.domains.contains(*domain);
        let domains: Vec<_> = domains.iter().filter(wanted).copied().collect();
        if domains.is_empty() || (work.domains.is_empty() && !domains.contains(&"vfs")) {
            continue;
        }
        let started = || stage.start_all(&domains);
        let mode = stage.mode.name();
        let with =
            if work.domains.is_empty() { mode.to_owned() } else { format!("{mode}: {}", domains.join(", ")) };
        tell(work, &with, stage.times, started)?;
    }
    Ok(())
}

/// With the tools that are installed and work on this kernel.
pub(super) fn of_tools(times: u32) -> Result<()> {
    for work in &WORKS {
        for tool in work.tools {
            match Tool::start(tool) {
                Ok(tool) => drop(tool),
                // It is missing, or this kernel is nothing for it: then there is no figure.
                Err(_) => continue,
            }
            tell(work, &tool.join(" "), times, || Tool::start(tool))?;
        }
    }
    Ok(())
}

/// Measures with and without in turns. What `start` returns keeps the programs attached.
fn tell<T>(work: &Work, with: &str, times: u32, start: impl Fn() -> Result<T>) -> Result<()> {
    let (mut without, mut added) = (vec![slice(work)?], Figures::default());
    for _ in 0..times {
        let started = start()?;
        let watched = slice(work)?;
        drop(started);
        let before = without[without.len() - 1];
        let after = slice(work)?;
        without.push(after);
        added.push(watched - f64::midpoint(before, after));
    }
    let nothing = without.into_iter().collect::<Figures>().median();
    let call = Watched { call: work.name.to_owned(), with: with.to_owned(), nothing, added: added.spread() };
    say(&Line::Call(call))
}

/// Nanoseconds of a call.
fn slice(work: &Work) -> Result<f64> {
    let mut again = (work.open)()?;
    settle();
    let mut batches = Figures::default();
    for batch in 0..WARM_UP + BATCHES {
        let start = Instant::now();
        for _ in 0..CALLS {
            again()?;
        }
        if batch >= WARM_UP {
            batches.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
        }
    }
    Ok(batches.median())
}

/// A tool that runs until it is dropped.
struct Tool(Child);

impl Tool {
    /// Its programs are loaded; the wait before a slice is long enough for it to attach them.
    fn start(words: &[&str]) -> Result<Self> {
        let before = programs();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tool = Self(command.spawn().with_context(|| format!("starting {}", words[0]))?);
        let start = Instant::now();
        let (mut seen, mut since) = (before, start);
        // Until for a while no more of them came.
        while seen == before || since.elapsed() < Duration::from_secs(1) {
            ensure!(tool.0.try_wait()?.is_none(), "{} ended", words[0]);
            ensure!(start.elapsed() < PATIENCE, "{} loads nothing", words[0]);
            thread::sleep(Duration::from_millis(100));
            let now = programs();
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        Ok(tool)
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // One that has ended by itself is what is wanted.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn programs() -> usize {
    loaded_programs().filter_map(Result::ok).count()
}
