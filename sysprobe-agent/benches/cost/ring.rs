//! The load: a byte goes round a ring of processes on one CPU, through pipes. With one other process it is
//! the classic ping-pong: each hop is one wakeup and one switch.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The argument that makes this program a member of a ring.
pub(crate) const RELAY: &str = "relay";

/// This process and the relays that it started. Dropping it ends them.
pub(crate) struct Ring {
    out: PipeWriter,
    back: PipeReader,
    relays: Vec<Child>,
    cgroups: Vec<PathBuf>,
}

impl Ring {
    /// A ring of this process and one more, in the same cgroup.
    pub(crate) fn pair() -> Result<Self> {
        Self::start(1)
    }

    /// A ring of twenty more, in ten cgroups below `root`; neighbours are never in the same.
    pub(crate) fn of_cgroups(root: &Path) -> Result<Self> {
        const CGROUPS: usize = 10;
        let mut ring = Self::start(20)?;
        for number in 0..CGROUPS {
            let path = root.join(format!("sysprobe-bench-{}-{number}", std::process::id()));
            fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
            ring.cgroups.push(path);
        }
        for (relay, cgroup) in ring.relays.iter().zip(ring.cgroups.iter().cycle()) {
            fs::write(cgroup.join("cgroup.procs"), relay.id().to_string())
                .with_context(|| format!("moving a process to {}", cgroup.display()))?;
        }
        Ok(ring)
    }

    fn start(relays: usize) -> Result<Self> {
        let program = std::env::current_exe()?;
        let (mut next_in, out) = io::pipe()?;
        let mut started = Vec::new();
        for _ in 0..relays {
            let (reader, writer) = io::pipe()?;
            let input = std::mem::replace(&mut next_in, reader);
            let mut command = Command::new(&program);
            started.push(command.arg(RELAY).stdin(Stdio::from(input)).stdout(Stdio::from(writer)).spawn()?);
        }
        Ok(Self { out, back: next_in, relays: started, cgroups: Vec::new() })
    }

    pub(crate) fn round(&mut self) -> io::Result<()> {
        self.out.write_all(&[1])?;
        self.back.read_exact(&mut [0])
    }

    /// Goes round for a while.
    pub(crate) fn run(&mut self, time: Duration) -> io::Result<()> {
        let start = Instant::now();
        while start.elapsed() < time {
            for _ in 0..100 {
                self.round()?;
            }
        }
        Ok(())
    }

    /// Nanoseconds of each of many batches of rounds, per round.
    pub(crate) fn time_rounds(&mut self, time: Duration) -> io::Result<Vec<f64>> {
        const BATCH: u32 = 200;
        let start = Instant::now();
        let mut batches = Vec::new();
        while start.elapsed() < time {
            batches.push(self.time_batch(BATCH)?);
        }
        Ok(batches)
    }

    /// The same of so many batches.
    pub(crate) fn time_batches(&mut self, batches: usize, rounds: u32) -> io::Result<Vec<f64>> {
        (0..batches).map(|_| self.time_batch(rounds)).collect()
    }

    fn time_batch(&mut self, rounds: u32) -> io::Result<f64> {
        let start = Instant::now();
        for _ in 0..rounds {
            self.round()?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for relay in &mut self.relays {
            // One that has ended by itself is what is wanted.
            if relay.kill().is_ok() {
                drop(relay.wait());
            }
        }
        for cgroup in &self.cgroups {
            drop(fs::remove_dir(cgroup));
        }
    }
}

/// What a relay does until its input ends.
pub(crate) fn relay() -> Result<()> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut byte = [0];
    while input.read(&mut byte)? == 1 {
        output.write_all(&byte)?;
    }
    Ok(())
}
