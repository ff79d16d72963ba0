//! The kubelet of this node: `GET /pods`, only while an unknown container is asked for. It costs the API
//! server nothing, and each answer is complete, so no state has to be kept in step.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use hyper::Request;
use hyper::header::{AUTHORIZATION, HeaderValue};
use kube::{Client, Config};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;

use super::body::{Answer, ask, sift};
use super::{Demand, Failure, Feed, Source, SourceKind};
use crate::pods::plan::KubeletPlan;
use crate::pods::wire::{LIST, Listed, WireList};

/// The kubelet generates the whole list for each answer.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// A container is in the status some 100 ms after its cgroup is created.
const STATUS_LAG: Duration = Duration::from_millis(250);
/// On a busy node it takes seconds, so the source asks again by itself.
const AGAIN_AFTER: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

pub(in crate::pods) struct Kubelet {
    plan: KubeletPlan,
    demand: Arc<Demand>,
    client: Option<Client>,
    asked: Option<Instant>,
}

impl Kubelet {
    pub(in crate::pods) const fn new(plan: KubeletPlan, demand: Arc<Demand>) -> Self {
        Self { plan, demand, client: None, asked: None }
    }

    async fn answer(&mut self, feed: &Feed) -> Result<(), Failure> {
        let mut pauses = [].iter();
        loop {
            tokio::select! {
                () = self.demand.asked() => {
                    sleep(STATUS_LAG).await;
                    pauses = AGAIN_AFTER.iter();
                }
                () = pause(pauses.next()) => {
                    if self.demand.is_satisfied() {
                        pauses = [].iter();
                        continue;
                    }
                }
            }
            self.poll(feed).await?;
        }
    }

    async fn poll(&mut self, feed: &Feed) -> Result<(), Failure> {
        if let Some(asked) = self.asked {
            sleep_until(asked + AT_MOST_EVERY).await;
        }
        self.asked = Some(Instant::now());
        let client = self.connect()?;
        let request = Request::get("/pods").header(AUTHORIZATION, self.authorization()?).body(Vec::new());
        let request = request.context("building the request")?;
        let Answer::Begun(body) = ask(&client, request).await.map_err(explained)? else {
            return Err(anyhow!("the kubelet no longer serves /pods").into());
        };
        let mut listed = Listed::default();
        let around = sift(body, &LIST, |pod| listed.take(&pod)).await?;
        serde_json::from_slice::<WireList>(&around.text).context("reading the list of pods")?;
        debug!(pods = listed.pods.len(), "The kubelet listed its pods.");
        feed.send_list(listed).await;
        Ok(())
    }

    fn connect(&mut self) -> Result<Client, Failure> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let url = self.plan.url.parse().with_context(|| format!("{} is not a URL", self.plan.url))?;
        let mut config = Config::new(url);
        config.default_retry = false;
        config.accept_invalid_certs = self.plan.insecure;
        config.root_cert_file = Some(self.plan.ca.clone());
        config.tls_server_name.clone_from(&self.plan.server_name);
        config.connect_timeout = Some(Duration::from_secs(5));
        let client = Client::try_from(config).context("setting up the kubelet client")?;
        Ok(self.client.insert(client).clone())
    }

    /// Read for each request: a token lives for an hour, and the file is small.
    fn authorization(&self) -> anyhow::Result<HeaderValue> {
        let path = &self.plan.token;
        let token =
            std::fs::read_to_string(path).with_context(|| format!("reading the token {}", path.display()))?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .with_context(|| format!("{} does not contain a valid token", path.display()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Adds what to do about it, since the library only says what is wrong.
fn explained(failure: Failure) -> Failure {
    match failure {
        Failure::Again(error) if format!("{error:#}").contains("invalid peer certificate") => {
            let what_to_do = "the kubelet's certificate is not trusted: set pods.kubelet.ca to the CA that \
                              signed it, and pods.kubelet.server_name to the name in it";
            Failure::Again(error.context(what_to_do))
        }
        failure => failure,
    }
}

/// Waits for ever without a length.
async fn pause(length: Option<&Duration>) {
    match length {
        Some(length) => sleep(*length).await,
        None => std::future::pending().await,
    }
}

impl Source for Kubelet {
    const KIND: SourceKind = SourceKind::Kubelet;

    async fn run(&mut self, feed: &Feed) -> Failure {
        match self.answer(feed).await {
            Ok(()) => anyhow!("there are no more requests for names").into(),
            Err(failure) => {
                if failure.is_about_credentials() {
                    self.client = None;
                }
                // The question is still open.
                self.demand.ask();
                failure
            }
        }
    }
}

#[cfg(test)]
mod tests;
