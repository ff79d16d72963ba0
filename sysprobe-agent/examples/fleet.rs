//! The clients of many agents in one process, for `cargo xtask e2e fleet`: each watches the pods of a node as
//! an agent does, and nothing else of an agent is there.
//!
//! `fleet KUBECONFIG CLIENTS NODES RESULT` writes a line of JSON into the file `RESULT` when every client has
//! its list, and goes on until it is killed.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use sysprobe_agent::pods::config::{PodsConfig, Sources};
use sysprobe_agent::pods::{PodFacts, Pods, PodsPlan, SourceKind};
use tokio::runtime::Handle;
use tokio::time::sleep;

/// How exactly the time is taken at which a client is ready.
const PAUSE: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, clients, nodes, result] = &words[..] else {
        anyhow::bail!("usage: fleet KUBECONFIG CLIENTS NODES RESULT");
    };
    let (clients, nodes): (usize, usize) = (clients.parse()?, nodes.parse()?);
    let memory_before = memory()?;
    let started = Instant::now();
    let start = |number| client(kubeconfig.into(), &format!("fleet-{}", number % nodes));
    let mut fleet: Vec<Pods> = (0..clients).map(start).collect();
    let mut seconds: Vec<Option<f64>> = vec![None; clients];
    while seconds.contains(&None) {
        for (pods, seconds) in fleet.iter_mut().zip(&mut seconds) {
            pods.update();
            let is_up = pods.states().iter().all(|state| state.up);
            if is_up && seconds.is_none() {
                *seconds = Some(started.elapsed().as_secs_f64());
            }
        }
        sleep(PAUSE).await;
    }
    let measured = json!({ "seconds": seconds, "memory_before": memory_before, "memory": memory()? });
    let new = format!("{result}.new");
    fs::write(&new, measured.to_string())?;
    fs::rename(new, result)?;
    loop {
        fleet.iter_mut().for_each(Pods::update);
        sleep(Duration::from_secs(1)).await;
    }
}

/// Without jitter: this is the worst that could happen.
fn client(kubeconfig: PathBuf, node: &str) -> Pods {
    let config = PodsConfig {
        sources: Sources::Only(vec![SourceKind::Kubernetes]),
        node: Some(node.to_owned()),
        kubeconfig: Some(kubeconfig),
        jitter_seconds: 0,
        ..PodsConfig::default()
    };
    Pods::start(PodsPlan::new(&PodFacts::default(), &config, Duration::ZERO), &Handle::current())
}

/// What this process has in memory, in bytes.
fn memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().next().context("no number")?.parse()?;
    Ok(kilobytes * 1024)
}
