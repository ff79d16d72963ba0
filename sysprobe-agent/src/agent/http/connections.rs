//! The connections of one listener: each a task, closed when its reader is silent for too long, or silent and in the way.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch::Receiver;
use tokio::task::{AbortHandle, Id, JoinSet};
use tracing::debug;

use super::peer::{Peer, Watched};
use super::server::stopped;

/// At a time: a few scrapers, probes and `top`s, many times over. Two listeners thus need no more than 64 descriptors.
const CONNECTIONS: usize = 32;

pub(super) struct Connections {
    router: TowerToHyperService<Router>,
    stop: Receiver<bool>,
    tasks: JoinSet<()>,
    /// Those that have not been closed.
    open: HashMap<Id, (Arc<Peer>, AbortHandle)>,
}

impl Connections {
    pub(super) fn new(router: Router, stop: Receiver<bool>) -> Self {
        let router = TowerToHyperService::new(router);
        Self { router, stop, tasks: JoinSet::new(), open: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether there is a place, or one that can be freed: only answers that are being made keep theirs, and they end
    /// by themselves.
    pub(super) fn have_room(&self) -> bool {
        self.open.len() < CONNECTIONS || self.most_silent().is_some()
    }

    fn most_silent(&self) -> Option<Id> {
        let silent = self.open.iter().filter_map(|(id, (peer, _))| Some((peer.silent_since()?, *id)));
        silent.min_by_key(|(since, _)| *since).map(|(_, id)| id)
    }

    pub(super) fn admit(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        if self.open.len() >= CONNECTIONS
            && let Some(id) = self.most_silent()
        {
            self.close_where(|candidate, peer| candidate == id && peer.close_silent());
        }
        let peer = Arc::new(Peer::new(Instant::now()));
        let stream = Watched::new(stream, Arc::clone(&peer));
        let answers = answer_all(stream, self.router.clone(), Arc::clone(&peer), self.stop.clone());
        let task = self.tasks.spawn(answers);
        self.open.insert(task.id(), (peer, task));
    }

    pub(super) fn close_overdue(&mut self) {
        let now = Instant::now();
        self.close_where(|_, peer| peer.close_overdue(now));
    }

    fn close_where(&mut self, close: impl Fn(Id, &Peer) -> bool) {
        self.open.retain(|id, (peer, task)| {
            let closes = close(*id, peer);
            if closes {
                debug!("A silent connection is closed.");
                task.abort();
            }
            !closes
        });
    }

    /// Waits until a connection has ended.
    pub(super) async fn one_ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return,
        };
        self.open.remove(&id);
    }

    /// Lets the answers under way come to their end.
    pub(super) async fn finish(mut self) {
        self.close_where(|_, peer| peer.close_unasked());
        while !self.is_empty() {
            self.one_ended().await;
        }
    }
}

/// One connection, to its end.
async fn answer_all(
    stream: Watched<impl AsyncRead + AsyncWrite + Unpin>,
    router: TowerToHyperService<Router>,
    peer: Arc<Peer>,
    stop: Receiver<bool>,
) {
    let service = service_fn(|request: hyper::Request<Incoming>| answer(&router, &peer, request));
    // hyper's own limit for a request's head also runs between requests, so a scraper could keep no connection: the
    // limits are the peer's.
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "A connection broke.");
    }
}

async fn answer(
    router: &TowerToHyperService<Router>,
    peer: &Peer,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    if !peer.asked() {
        // It was closed this very moment; the task is about to be aborted, and must not begin an answer.
        return pending().await;
    }
    let response = router.call(request).await;
    peer.answered();
    response
}
