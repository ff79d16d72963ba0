//! The agent's configuration: a TOML file, every key optional, unknown keys refused. Command-line flags
//! override it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::pods::config::PodsConfig;
use crate::probe::AttachMode;
use crate::snapshot::HistogramScope;

mod domains;
mod limits;
pub mod metrics;

pub use domains::{Domains, FILE_DOMAINS};
pub(crate) use limits::check_absolute;
use metrics::MetricsConfig;

/// Port 9937 is unassigned in the list of Prometheus exporter ports.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9937);
/// The default path of the agent's socket.
pub const DEFAULT_SOCKET: &str = "/run/sysprobe/agent.sock";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The address at which `/metrics`, `/healthz` and `/readyz` are served.
    pub listen: SocketAddr,
    /// The socket for the command line.
    #[serde(deserialize_with = "limits::absolute")]
    pub socket: PathBuf,
    /// A BTF file for kernels that do not expose their own.
    pub btf: Option<PathBuf>,
    /// Where the host's cgroup file systems are mounted, if not where `/proc/self/mountinfo` says.
    pub cgroup_root: Option<PathBuf>,
    /// Maximum number of cgroups that have had tasks and are counted separately; further ones are charged to
    /// `unknown`. 0 sizes it for this node, within a share of its memory. Other maps scale with it.
    #[serde(deserialize_with = "limits::slots")]
    pub slots: u32,
    /// Maximum number of tasks, and of TCP sockets, that are tracked where the kernel or the attach mode has
    /// no local storage for them.
    #[serde(deserialize_with = "limits::tasks")]
    pub tasks: u32,
    /// Kernel memory for task and socket storage, in MiB; 0 for one percent of the node's memory. The agent's
    /// own memory limit bounds it, too.
    #[serde(deserialize_with = "limits::storage")]
    pub storage_mebibytes: u32,
    /// If `vfs` attaches to system calls, it pauses while there are more than this many per second on all
    /// CPUs together, since tracing costs every process 0.2 us per call. 0 for 50,000 per CPU.
    #[serde(deserialize_with = "limits::calls")]
    pub vfs_calls_per_second: u64,
    /// The receive path follows one of this many packets: a power of two up to 64. 0 follows as many as cost
    /// little, which on a quiet node is every packet.
    #[serde(deserialize_with = "limits::one_in")]
    pub rx_follow_one_in: u32,
    /// Use only this attach mode, instead of the first that works.
    pub attach: Option<AttachMode>,
    /// For developing programs: a directory of compiled objects that replace the built-in ones.
    #[serde(deserialize_with = "limits::absolute_if_any")]
    pub objects: Option<PathBuf>,
    /// How long a deleted workload is still exported, in seconds.
    #[serde(deserialize_with = "limits::grace")]
    pub grace_seconds: u64,
    /// Whether histograms are exported per pod or per container.
    pub histograms: HistogramScope,
    /// Turn on the kernel's BPF program statistics, which add two clock reads to every run of every BPF
    /// program on the host.
    pub program_statistics: bool,
    pub metrics: MetricsConfig,
    pub domains: Domains,
    pub pods: PodsConfig,
    pub log: Log,
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
            listen: DEFAULT_LISTEN,
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

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".into(), format: LogFormat::Text }
    }
}

/// An error in a configuration; its message names the place.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The reason is the source; the whole chain of errors is shown.
    #[error("cannot read the configuration {path}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The parser's message shows the line and points at the key.
    #[error("the configuration {path} is invalid: {message}")]
    Malformed { path: PathBuf, message: String },
    /// A file that the configuration names cannot be used.
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
        if config.domains.are_all_off() {
            let names = Domains::names().join(", ");
            return Err(malformed(format!(
                "all domains ({names}) are turned off, so nothing would be exported: turn one of them on"
            )));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
