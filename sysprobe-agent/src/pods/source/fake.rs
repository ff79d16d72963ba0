//! A fake API server or kubelet, to test what the sources ask for and when. It answers from a script; the
//! answers of real servers are tested against real ones.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::iter;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper::header::{AUTHORIZATION, RETRY_AFTER};
use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Change, Feed, Source, Update, keep_running};

/// One answer of the script.
pub(super) enum Reply {
    /// A status, a `Retry-After` if there is one, and a body.
    Status(u16, Option<u64>, String),
    /// Lines, after which the body ends.
    Lines(Vec<String>),
    /// Lines, after which the body stays open and silent.
    Open(Vec<String>),
    /// Pieces that are made as they are read, after which the body ends or stays open and silent.
    Pieces { pieces: Pieces, stays_open: bool },
    /// The connection is refused.
    Refused,
}

type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;

impl Reply {
    pub(super) fn json(body: &str) -> Self {
        Self::Status(200, None, body.into())
    }
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) uri: String,
    pub(super) token: Option<String>,
    /// Time since the start.
    pub(super) at: Duration,
}

/// The server's side. It refuses connections when no reply is left.
#[derive(Clone)]
pub(super) struct Fake {
    started: Instant,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    pub(super) fn new(replies: Vec<Reply>) -> Self {
        Self { started: Instant::now(), replies: Arc::new(Mutex::new(replies.into())), asked: Arc::default() }
    }

    pub(super) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = fake.answer(&request);
            async move { answer }
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> io::Result<Response<Streamed>> {
        let token = request.headers().get(AUTHORIZATION);
        self.asked.lock().expect("no panic").push(Asked {
            uri: request.uri().to_string(),
            token: token.map(|token| token.to_str().expect("text").to_owned()),
            at: self.started.elapsed(),
        });
        let reply = self.replies.lock().expect("no panic").pop_front();
        let response = Response::builder();
        let text = |lines: Vec<String>| lines.concat();
        let (response, body) = match reply.unwrap_or(Reply::Refused) {
            Reply::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
            Reply::Status(status, None, body) => (response.status(status), streamed(body, false)),
            Reply::Status(status, Some(pause), body) => {
                (response.status(status).header(RETRY_AFTER, pause), streamed(body, false))
            }
            Reply::Lines(lines) => (response, streamed(text(lines), false)),
            Reply::Open(lines) => (response, streamed(text(lines), true)),
            Reply::Pieces { pieces, stays_open } => (response, in_pieces(pieces, stays_open)),
        };
        Ok(response.body(body).expect("a response"))
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.uri).collect()
    }
}

type Streamed = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

fn streamed(text: String, stays_open: bool) -> Streamed {
    in_pieces(Box::new(iter::once(Bytes::from(text))), stays_open)
}

fn in_pieces(pieces: Pieces, stays_open: bool) -> Streamed {
    let text = stream::iter(pieces.map(|piece| Ok(Frame::data(piece))));
    StreamBody::new(if stays_open { text.chain(stream::pending()).boxed() } else { text.boxed() })
}

/// Runs a source until the test is over.
pub(super) fn start<S: Source>(source: S) -> mpsc::Receiver<Update> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(keep_running(source, Feed::new(S::KIND, sender)));
    receiver
}

/// The next report, abbreviated.
pub(super) async fn next(updates: &mut mpsc::Receiver<Update>) -> String {
    let names = |pods: &[Arc<crate::pods::pod::Pod>]| {
        pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    match updates.recv().await.expect("the source goes on").change {
        Change::Synced(pods) => format!("synced {}", names(&pods)),
        Change::Applied(pod) => format!("applied {}", pod.name),
        Change::Found(pod) => format!("found {}", pod.name),
        Change::Deleted(pod) => format!("deleted {}", pod.name),
        Change::Alive => "alive".into(),
        Change::Unread(unread) => format!("unread {}", unread.what),
        Change::Failed(reason) => format!("failed {reason}"),
    }
}
