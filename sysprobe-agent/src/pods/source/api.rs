//! The API server: one list of this node's pods, answered from its cache, then one watch. Fifteen thousand
//! nodes may do this at once, so no request is made that can be avoided.
//!
//! A broken watch continues where it was. Only if the server has forgotten that version (410), the pods are
//! listed again.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use kube::api::{ListParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::{Client, Config};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

use super::backoff::random_part;
use super::body::{Answer, Lines, ask, excerpt, sift};
use super::{Change, Failure, Feed, Sifted, Source, SourceKind};
use crate::pods::plan::{Access, KubernetesPlan};
use crate::pods::wire::{EVENT, LIST, Listed, WireList};
use event::Event;

mod event;

const PODS: &str = "/api/v1/pods";
/// The server ends each watch after this time plus a random part of the next, so that agents do not all
/// reconnect at once.
const WATCH_AT_LEAST: Duration = Duration::from_secs(240);
const WATCH_SPREAD: Duration = Duration::from_secs(50);
/// The server sends a bookmark every minute or so. A connection that is silent for longer has died.
const SILENCE: Duration = Duration::from_secs(150);
/// A watch that ends sooner counts as a failure: asking at once again would be a storm of requests.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// A server that stops ends all watches at the same moment, so agents reconnect within a random part of this
/// time.
const RECONNECT_WITHIN: Duration = Duration::from_secs(1);

pub(in crate::pods) struct Api {
    plan: KubernetesPlan,
    client: Option<Client>,
    /// The version of the cluster's state up to which everything was received; `None` before a list.
    version: Option<String>,
}

impl Api {
    pub(in crate::pods) const fn new(plan: KubernetesPlan) -> Self {
        Self { plan, client: None, version: None }
    }

    async fn connect(&mut self) -> Result<Client, Failure> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let mut config = match &self.plan.access {
            Access::ServiceAccount => Config::incluster().context("reading the service account")?,
            Access::Kubeconfig(path) => read_kubeconfig(path).await?,
        };
        // The library's own retries are many and immediate, and hide an outage.
        config.default_retry = false;
        let client = Client::try_from(config).context("setting up the API server client")?;
        Ok(self.client.insert(client).clone())
    }

    async fn follow(&mut self, feed: &Feed) -> Result<(), Failure> {
        let client = self.connect().await?;
        let mut listed: Option<Instant> = None;
        loop {
            if self.version.is_none() {
                if listed.is_some_and(|listed| listed.elapsed() < SHORTEST_WATCH + self.plan.jitter) {
                    return Err(anyhow!("the API server expired the listed resourceVersion at once").into());
                }
                // Spreads out agents that start together, or whose versions all expired when the server
                // restarted.
                sleep(random_part(self.plan.jitter)).await;
                self.version = Some(self.list(&client, feed).await?);
                listed = Some(Instant::now());
            }
            self.watch(&client, feed).await?;
            sleep(random_part(RECONNECT_WITHIN)).await;
        }
    }

    /// Returns the version from which a watch continues.
    async fn list(&self, client: &Client, feed: &Feed) -> Result<String, Failure> {
        let request = Request::new(PODS).list(&self.list_params()).context("building the list request")?;
        let Answer::Begun(body) = ask(client, request).await? else {
            return Err(anyhow!("the API server cannot serve the list from its cache").into());
        };
        let mut listed = Listed::default();
        let around = sift(body, &LIST, |pod| listed.take(&pod)).await?;
        let around: WireList = serde_json::from_slice(&around.text).context("reading the list of pods")?;
        let version = around.metadata.resource_version;
        info!(pods = listed.pods.len(), version, "Listed this node's pods.");
        feed.send_list(listed).await;
        Ok(version)
    }

    /// Version "0" means whatever the server has in its cache. A limit would silently turn it into a read
    /// from etcd.
    fn list_params(&self) -> ListParams {
        ListParams { limit: None, ..ListParams::default().match_any().fields(&self.selector()) }
    }

    fn selector(&self) -> String {
        format!("spec.nodeName={}", self.plan.node)
    }

    /// Follows the watch until the server ends it, which is no error. Without a version afterwards, a list is
    /// due.
    async fn watch(&mut self, client: &Client, feed: &Feed) -> Result<(), Failure> {
        let version = self.version.clone().unwrap_or_default();
        let length = WATCH_AT_LEAST + random_part(WATCH_SPREAD);
        let length = u32::try_from(length.as_secs()).expect("some minutes");
        let params = WatchParams::default().fields(&self.selector()).timeout(length);
        let request = Request::new(PODS).watch(&params, &version).context("building the watch request")?;
        debug!(version, "Watching this node's pods.");
        let started = Instant::now();
        let Answer::Begun(body) = ask(client, request).await? else {
            self.version = None;
            return Ok(());
        };
        feed.send(Change::Alive).await;
        let mut lines = Lines::new(body, &EVENT);
        loop {
            let Ok(line) = timeout(SILENCE, lines.next()).await else {
                // Or the server waits for a version that it will never reach, because its database was
                // restored.
                self.version = None;
                return Err(anyhow!("the watch timed out without events or bookmarks").into());
            };
            let Some(line) = line? else { break };
            if !self.take_in(&line, feed).await? {
                self.version = None;
                return Ok(());
            }
        }
        if started.elapsed() < SHORTEST_WATCH {
            return Err(anyhow!("the API server closed the watch at once").into());
        }
        Ok(())
    }

    /// Returns `false` if the server has forgotten the version from which the watch continued.
    async fn take_in(&mut self, line: &Sifted, feed: &Feed) -> Result<bool, Failure> {
        if line.text.is_empty() {
            return Ok(true);
        }
        let (change, version) = match Event::parse(line) {
            Event::Applied(pod, version) => (Change::Applied(pod), Some(version)),
            Event::Deleted(pod, version) => (Change::Deleted(pod), Some(version)),
            Event::Bookmark(version) => (Change::Alive, Some(version)),
            // Later events are not affected, and a new request would return the same object.
            Event::Unread(unread, version) => (Change::Unread(unread), version),
            Event::Gone => return Ok(false),
            Event::Refused => {
                return Err(anyhow!("the API server closed the watch: {}", excerpt(&line.text)).into());
            }
        };
        feed.send(change).await;
        self.version = version.or(self.version.take());
        Ok(true)
    }
}

async fn read_kubeconfig(path: &PathBuf) -> Result<Config, Failure> {
    let reading = || format!("reading the kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(reading)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Ok(config.with_context(reading)?)
}

impl Source for Api {
    const KIND: SourceKind = SourceKind::Kubernetes;

    async fn run(&mut self, feed: &Feed) -> Failure {
        match self.follow(feed).await {
            Ok(()) => anyhow!("the watch ended").into(),
            Err(failure) => {
                if failure.is_about_credentials() {
                    self.client = None;
                }
                failure
            }
        }
    }
}

#[cfg(test)]
mod tests;
