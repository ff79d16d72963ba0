//! A part of the cluster that runs until it is stopped: its process and its log file.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{places, processes, wait};

/// How much of a log is shown when its part has failed.
const SHOWN_LINES: usize = 12;

/// The running part; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Service {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Service {
    pub(super) fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let log = places::logs().join(format!("{name}.log"));
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file: File = file.with_context(|| format!("opening {}", log.display()))?;
        // A process group of its own: Ctrl-C is for the supervisor, which ends all parts.
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self { name, child, log })
    }

    /// Waits until the part is ready; otherwise fails with the reason.
    pub(super) fn ready(&mut self, mut is_ready: impl FnMut() -> bool) -> Result<()> {
        let what = format!("{} is ready", self.name);
        let ready = wait::until(&what, || {
            let has_ended = self.child.try_wait()?.is_some();
            Ok((has_ended || is_ready()).then_some(()))
        });
        self.running()?;
        ready.with_context(|| self.last_words())
    }

    /// Fails if the part has ended.
    pub(super) fn running(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} has ended ({status}): {}", self.name, self.last_words());
        }
        Ok(())
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the part to end, and waits until it has.
    pub(super) fn stop(mut self) -> Result<()> {
        processes::terminate(self.pid());
        wait::until(&format!("{} ends", self.name), || Ok(self.child.try_wait()?.map(drop)))
    }

    /// Its resident memory, in bytes.
    pub(super) fn memory(&self) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        format!("{}\n{last}", self.log.display())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It does not matter if the process has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
