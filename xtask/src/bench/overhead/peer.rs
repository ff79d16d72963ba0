//! Other monitoring tools, measured if they are installed: none of them comes with this repository.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::process::{Place, Process};
use crate::{cmd, paths};

/// Run-queue latency, block latency and TCP, each as one histogram of the whole machine.
const SCRIPT: &str = include_str!("peer/watch.bt");

/// Examples of `ebpf_exporter` that observe the same; those that exist in its directory are loaded.
const EXAMPLES: [&str; 3] = ["runqlat", "biolatency", "tcp-retransmit"];

/// A tool has started once it has loaded programs and its number of BPF descriptors has not changed for this
/// time.
const STEADY: Duration = Duration::from_secs(1);

/// The tools need tracefs, which may not be mounted. The mount is in a namespace that ends with the tool.
const WITH_TRACEFS: &str =
    "[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    EbpfExporter,
    Bpftrace,
    Rezolus,
}

/// A tool that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    tool: Tool,
    program: PathBuf,
    /// A directory for `ebpf_exporter`, a file for Rezolus.
    config: PathBuf,
}

impl Peer {
    /// Parses `NAME[=PROGRAM[,CONFIG]]`; the inner `Err` says why the tool is left out.
    pub(super) fn find(word: &str) -> Result<Result<Self, String>> {
        let (name, rest) = word.split_once('=').map_or((word, None), |(name, rest)| (name, Some(rest)));
        let (program, config) = rest.map_or((None, None), |rest| match rest.split_once(',') {
            Some((program, config)) => (Some(program), Some(config)),
            None => (Some(rest), None),
        });
        let tool = Tool::named(name)?;
        let found = match program.filter(|program| !program.is_empty()) {
            Some(program) => Some(PathBuf::from(program)).filter(|program| program.is_file()),
            None => paths::find_programs(name).into_iter().next(),
        };
        let config = config.map_or_else(|| tool.default_config(), PathBuf::from);
        let Some(program) = found else { return Ok(Err(format!("{name} is not installed"))) };
        if tool != Tool::Bpftrace && !config.exists() {
            return Ok(Err(format!("{name} has no configuration in {}", config.display())));
        }
        Ok(Ok(Self { tool, program, config }))
    }

    pub(super) fn title(&self) -> String {
        match self.tool {
            Tool::EbpfExporter => "`ebpf_exporter`".to_owned(),
            Tool::Bpftrace => "`bpftrace`".to_owned(),
            Tool::Rezolus => "Rezolus".to_owned(),
        }
    }

    /// Starts the tool and waits until its programs are attached.
    pub(super) fn start(&self) -> Result<Process> {
        let mut command = cmd::tool("unshare");
        command.args(["--mount", "--propagation", "private", "--", "sh", "-c", WITH_TRACEFS, "sh"]);
        command.arg(&self.program).args(self.arguments()?);
        let mut process = start_quietly(&mut command)?;
        let (mut last, mut since) = (0, Instant::now());
        process.until("it has attached its programs", |pid| {
            let now = descriptors(pid);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            last > 0 && since.elapsed() > STEADY
        })?;
        Ok(process)
    }

    fn arguments(&self) -> Result<Vec<OsString>> {
        match self.tool {
            Tool::Bpftrace => Ok(vec!["-e".into(), SCRIPT.into()]),
            Tool::Rezolus => Ok(vec![self.config.clone().into()]),
            Tool::EbpfExporter => {
                let has = |name: &&&str| self.config.join(format!("{name}.yaml")).exists();
                let names: Vec<&str> = EXAMPLES.iter().filter(has).copied().collect();
                if names.is_empty() {
                    bail!("{} has none of {}", self.config.display(), EXAMPLES.join(", "));
                }
                let mut directory = OsString::from("--config.dir=");
                directory.push(&self.config);
                let names = format!("--config.names={}", names.join(","));
                Ok(vec![directory, names.into(), "--web.listen-address=127.0.0.1:0".into()])
            }
        }
    }
}

impl Tool {
    fn named(name: &str) -> Result<Self> {
        match name {
            "ebpf_exporter" => Ok(Self::EbpfExporter),
            "bpftrace" => Ok(Self::Bpftrace),
            "rezolus" => Ok(Self::Rezolus),
            _ => bail!("{name} is none of ebpf_exporter, bpftrace and rezolus"),
        }
    }

    fn default_config(self) -> PathBuf {
        match self {
            Self::EbpfExporter => "/etc/ebpf_exporter".into(),
            Self::Bpftrace => PathBuf::new(),
            Self::Rezolus => "/etc/rezolus/agent.toml".into(),
        }
    }
}

fn start_quietly(command: &mut Command) -> Result<Process> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Process::start(command, Place::default()).context("unshare is of the package util-linux")
}

/// The number of programs, maps and links that a process holds.
fn descriptors(pid: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| is_of_bpf(&target))).count()
}

fn is_of_bpf(target: &Path) -> bool {
    let target = target.to_string_lossy();
    target.starts_with("anon_inode:bpf") || target == "anon_inode:[perf_event]"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_given_with_its_program_and_configuration() {
        let program = std::env::current_exe().unwrap();
        let word = format!("rezolus={},{}", program.display(), program.display());
        let wanted = Peer { tool: Tool::Rezolus, program: program.clone(), config: program.clone() };
        assert_eq!(Peer::find(&word).unwrap(), Ok(wanted));
        let peer = Peer::find(&format!("bpftrace={}", program.display())).unwrap().unwrap();
        assert_eq!((peer.tool, peer.program), (Tool::Bpftrace, program));
    }

    #[test]
    fn a_peer_that_is_not_there_is_left_out_and_an_unknown_one_is_refused() {
        assert!(Peer::find("bpftrace=/nowhere/bpftrace").unwrap().is_err());
        let program = std::env::current_exe().unwrap();
        let word = format!("ebpf_exporter={},/nowhere", program.display());
        assert!(Peer::find(&word).unwrap().unwrap_err().contains("no configuration in /nowhere"));
        assert!(Peer::find("top").is_err());
    }

    #[test]
    fn descriptors_of_bpf_are_known_by_their_names() {
        assert!(is_of_bpf(Path::new("anon_inode:bpf-prog")));
        assert!(is_of_bpf(Path::new("anon_inode:bpf_link")));
        assert!(is_of_bpf(Path::new("anon_inode:[perf_event]")));
        assert!(!is_of_bpf(Path::new("anon_inode:[eventpoll]")));
    }
}
