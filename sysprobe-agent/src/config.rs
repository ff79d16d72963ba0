//! The agent's configuration: a TOML file, every key optional, unknown keys refused. Command-line flags
//! override it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::pods::config::PodsConfig;
use crate::probe::Tier;
use crate::snapshot::HistogramScope;

mod limits;
pub mod metrics;

pub(crate) use limits::check_absolute;
use metrics::MetricsConfig;

/// The port is free in the list of Prometheus exporters' ports.
pub const DEFAULT_LISTEN: &str = "0.0.0.0:9937";
/// Where the agent and the command line meet.
pub const DEFAULT_SOCKET: &str = "/run/sysprobe/agent.sock";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where `/metrics`, `/healthz` and `/readyz` are served.
    pub listen: SocketAddr,
    /// The local socket for the command line.
    #[serde(deserialize_with = "limits::absolute")]
    pub socket: PathBuf,
    /// A BTF file for kernels that do not show their own.
    pub btf: Option<PathBuf>,
    /// Where the host's cgroup file systems are mounted, if not where `/proc/self/mountinfo` says.
    pub cgroup_root: Option<PathBuf>,
    /// How many cgroups with running tasks are told apart at one time; more are charged to `unknown`. 0 for
    /// as many as this node needs, within a share of its memory. Other maps follow it.
    #[serde(deserialize_with = "limits::slots")]
    pub slots: u32,
    /// How many tasks, and how many TCP sockets, are told apart where the kernel or the hooks have no storage
    /// with them.
    #[serde(deserialize_with = "limits::tasks")]
    pub tasks: u32,
    /// How much kernel memory programs may keep with tasks and sockets, in MiB; 0 for one percent of the
    /// node's memory. The agent's own memory limit bounds it, too.
    #[serde(deserialize_with = "limits::storage")]
    pub storage_mebibytes: u32,
    /// Where storage is watched by system calls: with more of them than so many in a second, on all CPUs
    /// together, `vfs` stops until there are fewer, since each costs all programs 0.2 us. 0 for 50,000 for
    /// each CPU.
    #[serde(deserialize_with = "limits::calls")]
    pub vfs_calls_per_second: u64,
    /// On the receive path, of so many packets one is followed: a power of two up to 64, or 0 for as many as
    /// cost little, which are all on a quiet node.
    #[serde(deserialize_with = "limits::one_in")]
    pub rx_follow_one_in: u32,
    /// Use this tier of hooks only, instead of the first that works.
    pub attach: Option<Tier>,
    /// For developing programs: a directory with compiled objects to take instead of the built-in ones.
    #[serde(deserialize_with = "limits::absolute_if_any")]
    pub objects: Option<PathBuf>,
    /// How long a workload that has gone is still exported, in seconds.
    #[serde(deserialize_with = "limits::grace")]
    pub grace_seconds: u64,
    /// Whether histograms are exported for whole pods or for each of their containers.
    pub histograms: HistogramScope,
    /// Turn on the kernel's program statistics, which cost every run of every BPF program of the host two
    /// clock reads.
    pub program_statistics: bool,
    pub metrics: MetricsConfig,
    pub domains: Domains,
    pub pods: PodsConfig,
    pub log: Log,
}

/// Which domains are wanted.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Domains {
    pub sched: bool,
    pub vfs: bool,
    pub block: bool,
    pub tcp: bool,
    pub net: bool,
    pub rxpath: bool,
    pub reclaim: bool,
    pub cpu: bool,
    pub memory: bool,
    pub pressure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// A level, or directives as in `sysprobe_agent::cgroup=debug,info`.
    #[serde(deserialize_with = "limits::filter")]
    pub filter: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 9937)),
            socket: DEFAULT_SOCKET.into(),
            btf: None,
            cgroup_root: None,
            slots: 0,
            tasks: 32_768,
            storage_mebibytes: 0,
            vfs_calls_per_second: 0,
            rx_follow_one_in: 0,
            attach: None,
            objects: None,
            grace_seconds: 60,
            histograms: HistogramScope::Pod,
            program_statistics: false,
            metrics: MetricsConfig::default(),
            domains: Domains::default(),
            pods: PodsConfig::default(),
            log: Log::default(),
        }
    }
}

impl Default for Domains {
    fn default() -> Self {
        Self {
            sched: true,
            vfs: true,
            block: true,
            tcp: true,
            net: true,
            rxpath: true,
            reclaim: true,
            cpu: true,
            memory: true,
            pressure: true,
        }
    }
}

impl Domains {
    /// Whether any of them has programs in the kernel.
    #[must_use]
    pub const fn has_programs(&self) -> bool {
        self.sched || self.vfs || self.block || self.tcp || self.net || self.rxpath || self.reclaim
    }

    /// Whether this one is wanted; `cgroup`, which the others need, always is.
    #[must_use]
    pub fn wants(&self, domain: &str) -> bool {
        self.switches().iter().find(|(name, _)| *name == domain).is_none_or(|(_, on)| *on)
    }

    const fn switches(&self) -> [(&'static str, bool); 10] {
        [
            ("sched", self.sched),
            ("vfs", self.vfs),
            ("block", self.block),
            ("tcp", self.tcp),
            ("net", self.net),
            ("rxpath", self.rxpath),
            ("reclaim", self.reclaim),
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("pressure", self.pressure),
        ]
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".into(), format: LogFormat::Text }
    }
}

/// What is wrong with a configuration, as a sentence with the place.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Why is in the source, which whoever shows the whole chain shows too.
    #[error("cannot read the configuration {path}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The parser's message shows the line and points at the key.
    #[error("the configuration {path} is wrong: {message}")]
    Malformed { path: PathBuf, message: String },
    /// A file that the configuration names is not what it should be.
    #[error("{0}")]
    NamedFile(String),
}

impl Config {
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// `path` is for messages only.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let malformed = |message| ConfigError::Malformed { path: path.to_owned(), message };
        let config: Self = toml::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let switches = config.domains.switches();
        if switches.iter().all(|(_, on)| !on) {
            let names = switches.map(|(name, _)| name).join(", ");
            return Err(malformed(format!(
                "all of domains ({names}) are false, which leaves nothing to export: turn one of them on"
            )));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
