//! The lower bound of the cost of the agent's hooks: an empty program at each of them, attached by the
//! measuring program of `cargo xtask cost`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::process::{Place, Process};
use crate::cmd;

/// The measuring program's argument, and the line that it prints once its programs are attached.
const ARGUMENT: &str = "floor";
const READY: &str = "ready";

/// The title in the report.
pub(super) const TITLE: &str = "empty programs at the default's hooks";

#[derive(Debug)]
pub(super) struct Floor {
    pub(super) program: PathBuf,
}

impl Floor {
    pub(super) fn start(&self) -> Result<Process> {
        let mut command = cmd::tool(&self.program);
        command.arg(ARGUMENT).stdout(Stdio::piped());
        let mut process = Process::start(&mut command, Place::default())?;
        let output = process.child.stdout.take().context("the measuring program has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim_end() != READY {
            bail!("the empty programs cannot be attached, see above");
        }
        Ok(process)
    }
}
