//! Runs the engine: as the node agent behind HTTP and the local socket, or inside a command while it shows a
//! table.

pub(crate) mod client;
mod heap;
mod http;
mod logging;
mod poll;
mod pulse;
mod refusals;
mod scans;
mod shared;
mod socket;

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch::{self, Receiver, Sender};
use tracing::{info, warn};

use crate::config::{Config, ConfigError};
use crate::engine::Engine;
use crate::host::Facts;
use crate::plan::Plan;
use crate::snapshot::source::Source;
use crate::snapshot::{Query, Snapshot};
use shared::Shared;

/// How long answers in progress may take after the stop signal.
const GRACEFUL_STOP: Duration = Duration::from_secs(5);

/// `sysprobe agent`.
pub fn run(config: Config) -> anyhow::Result<()> {
    logging::start(&config.log)?;
    runtime()?.block_on(serve(config))
}

/// Lets a command show the running agent's numbers, or those of programs that it loads itself.
pub(crate) fn show<F>(config: &Config, query: Query, command: impl FnOnce(Numbers) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    runtime()?.block_on(async {
        let numbers = match client::Client::connect(&config.socket).await? {
            Some(client) => Numbers::OfAgent(client.asking(query), without_effect(config).collect()),
            None => Numbers::Own(Local::start(config, query)?),
        };
        command(numbers).await
    })
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    heap::share_one();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().context("starting the async runtime")
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let (facts, plan) = prepare(&config)?;
    let listener = http::listen(config.listen).with_context(|| {
        format!("cannot listen on {}: choose another address with --listen", config.listen)
    })?;
    let listen = listener.local_addr().context("reading the listening address")?;
    let mut socket = socket::Socket::bind(&config.socket).await?;
    ignore_hangups()?;
    let shared = Shared::default();
    let mut stop = stop_signal()?;
    let servers = [
        tokio::spawn(http::serve_metrics(listener, shared.clone(), config.metrics.clone(), stop.clone())),
        tokio::spawn(http::serve_socket(socket.listener()?, shared.clone(), stop.clone())),
    ];
    let handle = Handle::current();
    let start = move || Engine::start(&facts, plan, &handle);
    let engine = tokio::task::spawn_blocking(start).await.context("starting the engine")??;
    let wake_up = watch_cgroups(&engine)?;
    shared.own(engine)?;
    info!(%listen, "Ready.");
    let poller = tokio::spawn(poll::run(shared.clone(), wake_up, stop.clone()));
    let task_scan = tokio::spawn(scans::count_threads_often(shared.clone(), stop.clone()));
    stop.changed().await.context("waiting for the stop signal")?;
    info!("Stopping.");
    finish(servers).await;
    poller.await.context("the cgroup event poller failed")?;
    task_scan.await.context("the periodic task scan failed")?;
    Ok(())
}

fn watch_cgroups(engine: &Engine) -> anyhow::Result<Option<OwnedFd>> {
    engine.wake_up().context("watching for cgroup events")
}

/// Lets answers finish. Readers that hang are cut off, all at the same time.
async fn finish(servers: [tokio::task::JoinHandle<()>; 2]) {
    let both = async {
        for server in servers {
            if let Err(error) = server.await {
                warn!(%error, "A server task failed.");
            }
        }
    };
    if tokio::time::timeout(GRACEFUL_STOP, both).await.is_err() {
        warn!("Open connections were closed before their responses were complete.");
    }
}

/// Becomes true at SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("watching for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("watching for SIGINT")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        sender.send_replace(true);
    });
    Ok(receiver)
}

/// A terminal that closes, or a supervisor that asks for a reload, does not end the agent.
fn ignore_hangups() -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup()).context("watching for SIGHUP")?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            warn!("SIGHUP is ignored: the agent reads its configuration only at startup.");
        }
    });
    Ok(())
}

/// Collects the facts and makes the plan. An error if nothing is worth starting.
fn prepare(config: &Config) -> anyhow::Result<(Facts, Plan)> {
    let facts = Facts::collect(config);
    // A host without BTF only loses a domain. A file that the configuration names must be usable.
    if let (Some(_), Err(reason)) = (&config.btf, &facts.layout) {
        return Err(ConfigError::NamedFile(reason.clone()).into());
    }
    if config.domains.has_programs() {
        facts.privilege.require()?;
    }
    let plan = Plan::new(&facts, config);
    // Cgroup events alone export nothing.
    if !plan.domains.iter().any(|domain| domain.name != "cgroup" && domain.is_on()) {
        bail!("no domain can work on this host; `sysprobe check` says why");
    }
    for warning in &plan.warnings {
        warn!("{warning}.");
    }
    info!(kernel = facts.kernel, cpus = facts.cpus.possible, map_bytes = plan.map_bytes(), "Starting.");
    Ok((facts, plan))
}

/// Warnings about options that only matter to a command that loads programs itself.
fn without_effect(config: &Config) -> impl Iterator<Item = String> {
    let options = [
        ("--attach", config.attach.is_some()),
        ("--btf", config.btf.is_some()),
        ("--cgroup-root", config.cgroup_root.is_some()),
        ("--objects", config.objects.is_some()),
    ];
    let given = options.into_iter().filter(|(_, is_given)| *is_given);
    given.map(|(option, _)| format!("{option} has no effect: the numbers are those of the running agent"))
}

/// The source of the numbers that a command shows.
pub(crate) enum Numbers {
    /// Of the running agent, with warnings for the reader.
    OfAgent(client::Client, Vec<String>),
    Own(Local),
}

/// The command's own engine, which is polled until this is dropped.
pub(crate) struct Local {
    engine: Shared,
    _polling: Sender<bool>,
    /// Warnings, as the agent's log would have them.
    warnings: Vec<String>,
    query: Query,
}

impl Local {
    fn start(config: &Config, query: Query) -> anyhow::Result<Self> {
        let (facts, plan) = prepare(config)?;
        let warnings = plan.warnings.clone();
        let engine = Engine::start(&facts, plan, &Handle::current())?;
        let (shared, wake_up) = (Shared::default(), watch_cgroups(&engine)?);
        shared.own(engine)?;
        let (polling, stop) = watch::channel(false);
        tokio::spawn(poll::run(shared.clone(), wake_up, stop));
        Ok(Self { engine: shared, _polling: polling, warnings, query })
    }
}

impl Source for Numbers {
    async fn next(&mut self) -> anyhow::Result<Snapshot> {
        match self {
            Self::OfAgent(client, _) => client.next().await,
            Self::Own(local) => {
                scans::seed_tasks(&local.engine).await?;
                local.engine.collect(local.query).await?.context("the programs are not loaded")
            }
        }
    }

    fn will_ask_again_in(&mut self, interval: Duration) {
        match self {
            Self::OfAgent(client, _) => client.will_ask_again_in(interval),
            Self::Own(local) => local.query.lease_ms = client::lease_ms(interval),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::OfAgent(client, _) => client.describe(),
            Self::Own(_) => "no agent is running: programs loaded by this command".to_owned(),
        }
    }

    fn warnings(&self) -> &[String] {
        match self {
            Self::OfAgent(_, warnings) => warnings,
            Self::Own(local) => &local.warnings,
        }
    }

    fn is_new(&self) -> bool {
        matches!(self, Self::Own(_))
    }
}
