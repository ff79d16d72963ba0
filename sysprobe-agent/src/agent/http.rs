//! The agent's HTTP server: for Prometheus and the kubelet on a port, for the command line on the local
//! socket. The modules below limit how long a client may take, and how many clients there may be.

mod connections;
mod peer;
mod places;
mod rendered;
mod renderings;
mod server;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{BoxError, Router};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch::Receiver};
use tokio::time::timeout;
use tracing::error;

use super::Shared;
use super::client::SNAPSHOT_PATH;
use super::refusals::Refusal;
use crate::config::metrics::MetricsConfig;
use crate::metrics::Format;
use crate::pods::Dead;
use crate::snapshot;
use connections::Seat;
use places::Limits;
use rendered::Rendered;
use renderings::Renderings;
pub(super) use server::listen;

/// Longer than any answer takes, unless the engine hangs. Commands give up earlier.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The header with the scrape timeout of Prometheus.
const SCRAPE_TIMEOUT: &str = "x-prometheus-scrape-timeout-seconds";
/// Snapshots for commands in progress at a time. Each is in memory as a value and as text.
const SNAPSHOTS: usize = 2;

/// The state of the handler of `/metrics`.
#[derive(Clone)]
struct Exporter {
    shared: Shared,
    renderings: Arc<Renderings<Scrape, { Format::COUNT }>>,
    wanted: Arc<MetricsConfig>,
}

/// The result of a rendering, for all requests that share it.
#[derive(Clone)]
enum Scrape {
    Rendered(Rendered),
    Starting,
    Failed,
}

pub(super) async fn serve_metrics(
    listener: TcpListener,
    shared: Shared,
    wanted: MetricsConfig,
    stop: Receiver<bool>,
) {
    let exporter = Exporter { shared: shared.clone(), renderings: Arc::default(), wanted: Arc::new(wanted) };
    let router = Router::new()
        .route("/metrics", get(metrics).with_state(exporter))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, "not found: use /metrics, /healthz or /readyz\n"))
        .with_state(shared);
    server::serve(listener, router, Limits::PORT, stop).await;
}

pub(super) async fn serve_socket(listener: UnixListener, shared: Shared, stop: Receiver<bool>) {
    let state = (shared, Arc::new(Semaphore::new(SNAPSHOTS)));
    let router = Router::new().route(SNAPSHOT_PATH, get(snapshot)).with_state(state);
    server::serve(listener, router, Limits::SOCKET, stop).await;
}

// Probes do not use the engine, so no work in progress delays their answer.

async fn healthy(State(shared): State<Shared>) -> Response {
    if let Some(hangs) = hanging(&shared) {
        return hangs;
    }
    let Some(Dead { source, since, reason }) = shared.dead_source() else { return "ok\n".into_response() };
    let (source, seconds) = (source.name(), since.elapsed().as_secs());
    shared.refuses(Refusal::SourceDead);
    let text = format!(
        "{source} has refused connections for {seconds} s: restart the agent, so that its socket is mounted \
         again ({reason})\n"
    );
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn ready(State(shared): State<Shared>) -> Response {
    if !shared.is_ready() {
        return starting(&shared);
    }
    hanging(&shared).unwrap_or_else(|| "ready\n".into_response())
}

fn starting(shared: &Shared) -> Response {
    shared.refuses(Refusal::Starting);
    later(1, "the agent is still starting\n".to_owned())
}

/// The response if the engine hangs.
fn hanging(shared: &Shared) -> Option<Response> {
    let seconds = shared.hangs_for()?.as_secs();
    shared.refuses(Refusal::EngineHangs);
    Some(later(10, format!("the engine has been hanging for {seconds} s: a system call does not return\n")))
}

/// Asks the client to retry later.
fn later(seconds: u8, why: String) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, seconds.to_string())], why).into_response()
}

async fn metrics(
    State(exporter): State<Exporter>,
    Extension(seat): Extension<Seat>,
    headers: HeaderMap,
) -> Response {
    if let Some(answer) = hanging(&exporter.shared) {
        return answer;
    }
    if !seat.take() {
        return busy(&exporter.shared);
    }
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::negotiate(accept);
    let Exporter { shared, renderings, wanted } = exporter;
    let asked = shared.clone();
    match renderings.share(format as usize, patience(&headers), move || scrape(asked, format, wanted)).await {
        Ok(Scrape::Rendered(rendered)) => rendered.answer(&headers),
        Ok(Scrape::Starting) => starting(&shared),
        Ok(Scrape::Failed) => failed(),
        Err(renderings::Late) => late(&shared),
    }
}

/// Leaves a tenth of the scraper's timeout, in which it can still be told why.
fn patience(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(SCRAPE_TIMEOUT).and_then(|value| value.to_str().ok()?.parse::<f64>().ok());
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds * 0.9).ok());
    time.unwrap_or(ANSWER_WITHIN).min(ANSWER_WITHIN)
}

fn busy(shared: &Shared) -> Response {
    shared.refuses(Refusal::NoPlace);
    later(1, "too many clients at once\n".to_owned())
}

async fn scrape(shared: Shared, format: Format, wanted: Arc<MetricsConfig>) -> Scrape {
    let scrape = async {
        let Some(snapshot) = shared.collect(snapshot::Query::default()).await? else {
            return Ok(Scrape::Starting);
        };
        // Off the async threads: it takes tens of milliseconds on a full node.
        let render = move || Rendered::new(snapshot, format, &wanted);
        Ok::<_, anyhow::Error>(Scrape::Rendered(tokio::task::spawn_blocking(render).await??))
    };
    scrape.await.unwrap_or_else(|error| {
        error!(%error, "A scrape failed.");
        Scrape::Failed
    })
}

/// Includes the additional data of the query.
async fn snapshot(
    State((shared, turns)): State<(Shared, Arc<Semaphore>)>,
    Extension(seat): Extension<Seat>,
    Query(query): Query<snapshot::Query>,
) -> Response {
    if !query.needs_no_lease() && query.lease_ms == 0 {
        let missing = "slow_ns, follow and measure need lease_ms, which says for how long\n";
        return (StatusCode::BAD_REQUEST, missing).into_response();
    }
    if let Some(answer) = hanging(&shared) {
        return answer;
    }
    if !seat.take() {
        return busy(&shared);
    }
    let answer = async {
        let _turn = turns.acquire().await?;
        // The text is made before another request gets its turn, which bounds memory.
        let snapshot = shared.collect(query).await?;
        Ok::<_, BoxError>(match snapshot {
            Some(snapshot) => axum::Json(snapshot).into_response(),
            None => starting(&shared),
        })
    };
    match timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            error!(%error, "A request failed.");
            failed()
        }
        Err(_) => late(&shared),
    }
}

fn late(shared: &Shared) -> Response {
    shared.refuses(Refusal::Late);
    later(5, "the agent did not collect in time\n".to_owned())
}

fn failed() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "the agent could not collect; its log says why\n").into_response()
}

#[cfg(test)]
mod tests;
