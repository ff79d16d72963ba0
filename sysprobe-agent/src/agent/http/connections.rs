//! The connections of one listener. Each is a task, which is closed when its reader is silent for too long,
//! or is silent and another connection needs the room.

use std::convert::Infallible;
use std::future::pending;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch::Receiver;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tracing::debug;

use super::peer::{Peer, Watched};
use super::places::{Limits, Places};
use super::server::stopped;

/// hyper's buffer for data that was read, or not yet written, besides the body's current part. A request's
/// head is far smaller, and a client could fill the default of 400 KiB.
const BUFFER: usize = 16 * 1024;

pub(super) struct Connections {
    router: TowerToHyperService<Router>,
    stop: Receiver<bool>,
    tasks: JoinSet<()>,
    places: Arc<Places>,
}

/// The connection that a request came from.
#[derive(Clone)]
pub(super) struct Seat {
    places: Arc<Places>,
    id: Id,
}

impl Seat {
    /// Takes a place for a large answer. The connection keeps it.
    pub(super) fn take(&self) -> bool {
        self.places.take(self.id)
    }
}

impl Connections {
    pub(super) fn new(router: Router, limits: Limits, stop: Receiver<bool>) -> Self {
        let router = TowerToHyperService::new(router);
        Self { router, stop, tasks: JoinSet::new(), places: Arc::new(Places::new(limits)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn have_room(&self) -> bool {
        self.places.have_room()
    }

    pub(super) fn admit(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        address: Option<IpAddr>,
    ) {
        let peer = Arc::new(Peer::new(Instant::now()));
        let connection = Connection {
            router: self.router.clone(),
            peer: Arc::clone(&peer),
            places: Arc::clone(&self.places),
        };
        let (tasks, stop) = (&mut self.tasks, self.stop.clone());
        self.places.admit(address, peer, || tasks.spawn(connection.answer_all(stream, stop)));
    }

    pub(super) fn close_overdue(&self) {
        let now = Instant::now();
        self.places.close_where(|peer| peer.close_overdue(now));
    }

    /// Waits until a connection has ended.
    pub(super) async fn one_ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return,
        };
        self.places.forget(id);
    }

    /// Lets answers in progress finish.
    pub(super) async fn finish(mut self) {
        self.places.close_where(Peer::close_unasked);
        while !self.is_empty() {
            self.one_ended().await;
        }
    }
}

/// One connection, until it ends.
struct Connection {
    router: TowerToHyperService<Router>,
    peer: Arc<Peer>,
    places: Arc<Places>,
}

impl Connection {
    async fn answer_all(self, stream: impl AsyncRead + AsyncWrite + Unpin, stop: Receiver<bool>) {
        let stream = Watched::new(stream, Arc::clone(&self.peer));
        let service = service_fn(|request: hyper::Request<Incoming>| self.answer(request));
        // hyper's own limit for a request's head also runs between requests, so a scraper could not keep its
        // connection. `Peer` has the limits instead.
        let mut connection = http1::Builder::new();
        let connection = connection.max_buf_size(BUFFER).serve_connection(TokioIo::new(stream), service);
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
        &self,
        mut request: hyper::Request<Incoming>,
    ) -> Result<hyper::Response<Sent>, Infallible> {
        if !self.peer.asked() {
            // It was closed just now. The task is about to be aborted, and must not begin an answer.
            return pending().await;
        }
        request.extensions_mut().insert(Seat { places: Arc::clone(&self.places), id: tokio::task::id() });
        let response: Response = self.router.call(request).await?;
        self.peer.answered();
        Ok(response.map(|body| Sent { body, peer: Arc::clone(&self.peer) }))
    }
}

/// An answer's body, which reports when all of it is handed over: hyper drops it at that point, before it
/// flushes the last part.
struct Sent {
    body: Body,
    peer: Arc<Peer>,
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.peer.handed_over();
    }
}
