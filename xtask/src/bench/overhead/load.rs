//! The loads: requests to well-known programs, repeated over and over.

mod fio;
mod nginx;
mod redis;
pub(super) mod worker;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cgroup::Cgroup;
use super::figures::Measured;
use super::network::{self, Network};
use super::process::{self, Place};
use crate::paths;

/// A load that is ready to run; everything that it has started ends when it is dropped.
pub(super) trait Load {
    /// Runs the load for this many seconds.
    fn run(&mut self, seconds: u32) -> Result<Measured>;
}

/// A load by its name.
#[derive(Debug)]
pub(super) struct Kind {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The title in the report.
    pub(super) title: &'static str,
    /// The counted unit, in the plural.
    pub(super) requests: &'static str,
    programs: &'static [&'static str],
    wants_network: bool,
    open: fn(&Bench) -> Result<Box<dyn Load>>,
}

/// The settings that all loads share.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) server_cpu: usize,
    pub(super) client_cpu: usize,
    /// The directory for files; removed at the end.
    pub(super) directory: PathBuf,
}

/// The cgroups and CPUs of a server and its client.
#[derive(Debug)]
struct Rig {
    server: Cgroup,
    client: Cgroup,
    network: Option<Network>,
    server_cpu: usize,
    client_cpu: usize,
}

pub(super) static ALL: [Kind; 8] = [
    Kind {
        name: "nginx",
        title: "nginx, wrk with 8 connections",
        requests: "requests",
        programs: &["nginx", "wrk"],
        wants_network: true,
        open: |bench| nginx::open(bench, Network::loopback()?, 8),
    },
    Kind {
        name: "nginx-1",
        title: "nginx, wrk with 1 connection",
        requests: "requests",
        programs: &["nginx", "wrk"],
        wants_network: true,
        open: |bench| nginx::open(bench, Network::loopback()?, 1),
    },
    Kind {
        name: "nginx-veth",
        title: "nginx, wrk with 8 connections over a veth pair",
        requests: "requests",
        programs: &["nginx", "wrk"],
        wants_network: true,
        open: |bench| nginx::open(bench, Network::veth()?, 8),
    },
    Kind {
        name: "nginx-veth-1",
        title: "nginx, wrk with 1 connection over a veth pair",
        requests: "requests",
        programs: &["nginx", "wrk"],
        wants_network: true,
        open: |bench| nginx::open(bench, Network::veth()?, 1),
    },
    Kind {
        name: "redis",
        title: "Redis, redis-benchmark GET with 8 connections",
        requests: "requests",
        programs: &["redis-server", "redis-benchmark"],
        wants_network: true,
        open: redis::open,
    },
    Kind {
        name: "fio",
        title: "fio, random reads of 4 KiB from the page cache",
        requests: "reads",
        programs: &["fio"],
        wants_network: false,
        open: fio::open,
    },
    Kind {
        name: "ping-pong",
        title: "ping-pong of two processes through pipes on one CPU",
        requests: "round trips",
        programs: &[],
        wants_network: false,
        open: |bench| worker::open(bench, worker::Work::PingPong),
    },
    Kind {
        name: "fork",
        title: "fork storm: a process forks, the child exits",
        requests: "forks",
        programs: &[],
        wants_network: false,
        open: |bench| worker::open(bench, worker::Work::Fork),
    },
];

impl Kind {
    /// What the machine lacks to run this load, if anything.
    pub(super) fn lacks(&self) -> Option<String> {
        let missing = self.programs.iter().find(|program| paths::find_programs(program).is_empty());
        match missing {
            Some(program) => Some(format!("{program} is not installed")),
            None if self.wants_network && !network::is_possible() => {
                Some("ip or nsenter is not installed".to_owned())
            }
            None => None,
        }
    }

    pub(super) fn open(&self, bench: &Bench) -> Result<Box<dyn Load>> {
        (self.open)(bench).with_context(|| format!("starting the load {}", self.name))
    }
}

impl Bench {
    /// The server runs on the last CPU, its client on the first.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let cpus = process::cpus()?;
        let (first, last) = cpus.first().zip(cpus.last()).context("there is no CPU to run on")?;
        Ok(Self { server_cpu: *last, client_cpu: *first, directory: directory.to_owned() })
    }

    fn rig(&self, network: Option<Network>) -> Result<Rig> {
        Ok(Rig {
            server: Cgroup::make("server")?,
            client: Cgroup::make("client")?,
            network,
            server_cpu: self.server_cpu,
            client_cpu: self.client_cpu,
        })
    }
}

impl Rig {
    fn server(&self) -> Place<'_> {
        let network = self.network.as_ref().map(|network| &network.server);
        Place { cpu: Some(self.server_cpu), cgroup: Some(&self.server), network }
    }

    fn client(&self) -> Place<'_> {
        let network = self.network.as_ref().map(Network::client);
        Place { cpu: Some(self.client_cpu), cgroup: Some(&self.client), network }
    }
}

/// A program of the distribution, which may be outside of a normal user's search path.
fn program(name: &str) -> Result<PathBuf> {
    let found = paths::find_programs(name).into_iter().next();
    found.with_context(|| format!("{name} is not installed"))
}
