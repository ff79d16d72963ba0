//! The command line's side of the local socket.

use std::cmp::Ordering;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::snapshot::source::Source;
use crate::snapshot::{Query, READABLE_FROM, Snapshot, VERSION};

/// The path at which the agent serves snapshots.
pub(crate) const SNAPSHOT_PATH: &str = "/v1/snapshot";

/// A snapshot of ten thousand cgroups takes a fraction of a second; an agent that takes longer than this
/// hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How late the next request may come.
const LATE: Duration = Duration::from_secs(10);

/// The lease to request, in milliseconds, if the next request follows after `interval`.
pub(crate) fn lease_ms(interval: Duration) -> u64 {
    u64::try_from((interval + LATE).as_millis()).unwrap_or(u64::MAX)
}

/// A running agent. Each request opens a new connection, so a restarted agent is found again.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    query: Query,
    /// The agent's protocol version, from its last answer.
    agents_version: u32,
}

/// The socket refuses this user; an agent may listen on it.
#[derive(Debug, thiserror::Error)]
#[error(
    "permission denied on the agent's socket {socket}: run this command as root, or name another socket \
     with --socket"
)]
pub(crate) struct NotAllowed {
    socket: PathBuf,
}

impl Client {
    /// `None` if no agent is there. An agent that does not answer is an error: the user does not expect the
    /// command to load its own programs beside a running agent's.
    pub(crate) async fn connect(socket: &Path) -> anyhow::Result<Option<Self>> {
        let Err(error) = UnixStream::connect(socket).await else {
            let (socket, query) = (socket.to_owned(), Query::default());
            return Ok(Some(Self { socket, query, agents_version: VERSION }));
        };
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Ok(None),
            ErrorKind::PermissionDenied => Err(NotAllowed { socket: socket.to_owned() }.into()),
            _ => Err(error).with_context(|| {
                format!(
                    "cannot connect to the agent on {}: try again, or name another socket with --socket",
                    socket.display()
                )
            }),
        }
    }

    /// The same client with this query.
    pub(crate) fn asking(self, query: Query) -> Self {
        Self { query, ..self }
    }

    fn path(&self) -> String {
        let Query { slow_ns, follow, measure, node, labels, lease_ms } = self.query;
        let slow = slow_ns.map(|from| format!("&slow_ns={from}")).unwrap_or_default();
        let follow = if follow { "&follow=true" } else { "" };
        let measure = if measure { "&measure=true" } else { "" };
        let node = if node { "&node=true" } else { "" };
        let labels = if labels { "&labels=true" } else { "" };
        format!("{SNAPSHOT_PATH}?lease_ms={lease_ms}{slow}{follow}{measure}{node}{labels}")
    }

    async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        match self.ask(&self.path()).await? {
            // Before the last release of version 12, agents reject unknown parameters instead of ignoring
            // them.
            (StatusCode::BAD_REQUEST, _) => answered(&self.ask(SNAPSHOT_PATH).await?),
            answer => answered(&answer),
        }
    }

    async fn ask(&self, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .with_context(|| format!("no agent answers on {}", self.socket.display()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::get(path).header("host", "localhost").body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await.context("sending the request to the agent")?;
        let status = response.status();
        let body = response.into_body().collect().await.context("reading the agent's answer")?.to_bytes();
        drop(sender);
        connection.await??;
        Ok((status, body))
    }
}

fn answered((status, body): &(StatusCode, Bytes)) -> anyhow::Result<Snapshot> {
    if !status.is_success() {
        bail!("the agent answered {status}: {}", String::from_utf8_lossy(body).trim());
    }
    parse(body)
}

fn parse(body: &[u8]) -> anyhow::Result<Snapshot> {
    /// Parsed before the rest, whose form depends on the version.
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
        /// Agents before version 11 do not send it.
        #[serde(default = "only_itself")]
        readable_from: u32,
    }
    fn only_itself() -> u32 {
        u32::MAX
    }
    let Versioned { version, readable_from } =
        serde_json::from_slice(body).context("the agent's answer is not a snapshot")?;
    let is_newer = version > VERSION && readable_from <= VERSION;
    let is_older = (READABLE_FROM..VERSION).contains(&version);
    ensure!(
        version == VERSION || is_newer || is_older,
        "the running agent uses version {version} of the protocol, this command uses version {VERSION}: use \
         the sysprobe binary of the agent's release"
    );
    serde_json::from_slice(body).context("the agent's answer cannot be parsed")
}

impl Source for Client {
    async fn next(&mut self) -> anyhow::Result<Snapshot> {
        let snapshot = tokio::time::timeout(ANSWER_WITHIN, self.snapshot()).await;
        let snapshot =
            snapshot.with_context(|| format!("the agent does not answer on {}", self.socket.display()))??;
        self.agents_version = snapshot.version;
        Ok(snapshot)
    }

    fn will_ask_again_in(&mut self, interval: Duration) {
        self.query.lease_ms = lease_ms(interval);
    }

    fn describe(&self) -> String {
        let age = match self.agents_version.cmp(&VERSION) {
            Ordering::Less => " (older than this command: what it does not know is missing)",
            Ordering::Equal => "",
            Ordering::Greater => " (newer than this command: what is new is not shown)",
        };
        format!("agent at {}{age}", self.socket.display())
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::RawQuery;

    use super::*;
    use crate::cli::fixture;

    #[test]
    fn another_version_is_refused_with_a_sentence() {
        let error = parse(br#"{"version": 999, "news": []}"#).expect_err("version 999");
        assert!(error.to_string().contains("uses version 999"), "{error}");
    }

    /// The answer of an agent of another version, with fields that this version does not know.
    fn answer(version: u32, readable_from: u32) -> Vec<u8> {
        let mut json = serde_json::to_value(fixture::node().1).expect("JSON");
        json["version"] = version.into();
        json["readable_from"] = readable_from.into();
        json["news"] = "of a kind".into();
        json["workloads"][0]["more_news"] = 1.into();
        json.to_string().into_bytes()
    }

    #[test]
    fn a_newer_agent_is_understood_as_far_as_it_says() {
        let snapshot = parse(&answer(VERSION + 1, READABLE_FROM)).expect("the same and more");
        assert_eq!(snapshot.workloads, fixture::node().1.workloads);
        let error = parse(&answer(VERSION + 1, VERSION + 1)).expect_err("something else");
        assert!(error.to_string().contains("use the sysprobe binary of the agent's release"), "{error}");
    }

    #[test]
    fn the_first_line_says_whose_protocol_is_older() {
        let described = |agents_version| {
            Client { socket: "/run/a".into(), query: Query::default(), agents_version }.describe()
        };
        assert_eq!(described(VERSION), "agent at /run/a");
        assert!(described(VERSION + 1).contains("newer than this command"));
        assert!(described(VERSION - 1).contains("older than this command"));
    }

    #[tokio::test]
    async fn an_agent_that_refuses_what_it_does_not_know_is_asked_for_what_it_knows() {
        let old = async |RawQuery(query): RawQuery| match query {
            Some(query) => Err((StatusCode::BAD_REQUEST, format!("unknown field in {query}"))),
            None => Ok(answer(READABLE_FROM, READABLE_FROM)),
        };
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("agent.sock");
        let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
        let router = axum::Router::new().route(SNAPSHOT_PATH, axum::routing::get(old));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = Client::connect(&socket).await.expect("an agent").expect("an agent");
        let mut client = client.asking(Query { labels: true, ..Query::default() });
        assert_eq!(client.next().await.expect("an answer").version, READABLE_FROM);
        assert!(client.describe().contains("older than this command"));
    }

    #[test]
    fn only_what_is_wanted_is_asked_for() {
        let path = |query| Client { socket: "/run/a".into(), query, agents_version: VERSION }.path();
        assert_eq!(path(Query::default()), "/v1/snapshot?lease_ms=0");
        let all =
            Query { slow_ns: Some(5), follow: true, measure: true, node: true, labels: true, lease_ms: 7 };
        assert_eq!(
            path(all),
            "/v1/snapshot?lease_ms=7&slow_ns=5&follow=true&measure=true&node=true&labels=true"
        );
    }

    #[test]
    fn an_older_agent_is_understood_from_where_on_nothing_changed() {
        for version in READABLE_FROM..VERSION {
            assert!(parse(&answer(version, READABLE_FROM)).is_ok(), "version {version}");
        }
        assert!(parse(&answer(READABLE_FROM - 1, 1)).is_err());
    }

    #[test]
    fn what_is_no_snapshot_is_said_to_be_none() {
        let error = parse(b"<html>").expect_err("no JSON");
        assert!(error.to_string().contains("not a snapshot"), "{error}");
    }
}
