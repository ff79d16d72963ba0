//! What the agent answers over HTTP: to Prometheus and the kubelet on a port, to the command line on the local socket.
//! How long a reader may take, and how many there may be, is the business of the modules below.

mod connections;
mod peer;
mod server;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch::Receiver;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tracing::error;

use super::Shared;
use super::collections::Collections;
use crate::client::SNAPSHOT_PATH;
use crate::config::metrics::MetricsConfig;
use crate::metrics::{self, Format};
use crate::snapshot::{self, Snapshot};

/// What `/metrics` is made from.
#[derive(Clone)]
struct Exporter {
    shared: Shared,
    collections: Arc<Collections<Snapshot>>,
    wanted: Arc<MetricsConfig>,
}

pub(super) async fn serve_metrics(
    listener: TcpListener,
    shared: Shared,
    wanted: MetricsConfig,
    stop: Receiver<bool>,
) {
    let exporter = Exporter { shared: shared.clone(), collections: Arc::default(), wanted: Arc::new(wanted) };
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest);
    let router = Router::new()
        .route("/metrics", get(metrics).layer(compression).with_state(exporter))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, "there is /metrics, /healthz and /readyz\n"))
        .with_state(shared);
    server::serve(listener, router, stop).await;
}

pub(super) async fn serve_socket(listener: UnixListener, shared: Shared, stop: Receiver<bool>) {
    let router = Router::new().route(SNAPSHOT_PATH, get(snapshot)).with_state(shared);
    server::serve(listener, router, stop).await;
}

async fn ready(State(shared): State<Shared>) -> Response {
    if shared.is_ready() { "ready\n".into_response() } else { starting() }
}

fn starting() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the agent is still starting\n").into_response()
}

async fn metrics(
    State(Exporter { shared, collections, wanted }): State<Exporter>,
    headers: HeaderMap,
) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::negotiate(accept);
    match collections.share(shared.collect(snapshot::Query::default())).await {
        Ok(None) => starting(),
        Ok(Some(snapshot)) => match render(snapshot, format, wanted).await {
            Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
            Err(error) => failed(&*error),
        },
        Err(error) => failed(&*error),
    }
}

/// Off the async threads, too: it takes tens of milliseconds on a full node.
async fn render(
    snapshot: Arc<Snapshot>,
    format: Format,
    wanted: Arc<MetricsConfig>,
) -> anyhow::Result<Vec<u8>> {
    Ok(tokio::task::spawn_blocking(move || metrics::render(Arc::unwrap_or_clone(snapshot), format, &wanted))
        .await??)
}

/// With what is asked for beside.
async fn snapshot(State(shared): State<Shared>, Query(query): Query<snapshot::Query>) -> Response {
    if !query.is_empty() && query.lease_ms == 0 {
        let missing = "slow_ns and measure go with lease_ms: for how long\n";
        return (StatusCode::BAD_REQUEST, missing).into_response();
    }
    match shared.collect(query).await {
        Ok(None) => starting(),
        Ok(Some(snapshot)) => axum::Json(snapshot).into_response(),
        Err(error) => failed(&*error),
    }
}

fn failed(error: &dyn std::error::Error) -> Response {
    error!(%error, "A request failed.");
    (StatusCode::INTERNAL_SERVER_ERROR, "the agent could not collect; its log says why\n").into_response()
}
