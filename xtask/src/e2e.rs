//! `cargo xtask e2e`: the agent beside a real etcd, API server, kubelet, container runtime and runc on this
//! machine.
//!
//! All of it runs in its own network and mount namespaces, so it uses nothing of the machine but the kernel.
//! [`supervisor`] stays outside and cleans up in every case; everything else runs inside.

mod agent;
mod boards;
mod cluster;
mod container;
mod helm;
pub(crate) mod http;
mod image;
mod kernel;
mod kube;
mod machine;
mod parts;
mod pki;
mod places;
mod pods;
pub(crate) mod processes;
mod prometheus;
mod report;
mod rig;
pub(crate) mod samples;
mod scenario;
mod scraper;
mod service;
mod supervisor;
mod truth;
mod wait;
mod window;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Scenarios to run (default: all)
    #[arg(value_enum)]
    scenarios: Vec<scenario::Scenario>,
    /// Leave the cluster and an agent up until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// How long the scenario `churn` lasts; memory is judged from 300 on
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    churn_seconds: u64,
    /// Use this program instead of building the agent
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<PathBuf>,
    /// How the supervisor starts this program again
    #[arg(long, hide = true)]
    inside: bool,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    if args.inside { rig::run(args) } else { supervisor::run(args) }
}

impl Args {
    /// The arguments for the inner process, which runs `agent`.
    fn words(&self, agent: PathBuf) -> Vec<OsString> {
        let names = self.scenarios.iter().map(|scenario| scenario.name().into());
        let keep = self.keep.then(|| "--keep".into());
        let churn = ["--churn-seconds".into(), self.churn_seconds.to_string().into()];
        names.chain(keep).chain(churn).chain(["--agent".into(), agent.into_os_string()]).collect()
    }
}
