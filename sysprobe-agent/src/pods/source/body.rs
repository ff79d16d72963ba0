//! Requests to Kubernetes servers and their answers: lists and lines, reduced while they arrive, and the
//! retry time of a refusal.

use std::time::Duration;

use anyhow::{Context, anyhow};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use hyper::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use super::Failure;
use super::sieve::{Sieve, Sifted, Want};

/// Limit until the answer begins. The API server gives a request up after 60 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(70);
/// Limit for the rest of an answer of finite length.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// The most that is kept of one object. etcd accepts 1.5 MiB, and the wanted parts are names and ids, which
/// JSON does not make longer. Unwanted parts have no bound: each `<` of an argument becomes six bytes.
const OBJECT_MAX: usize = 2 << 20;
/// Enough of a refusal for a log line, and the part of its body that is read for that.
const EXCERPT_MAX: usize = 200;
const REFUSAL_MAX: usize = 16 << 10;

/// An answer that has begun. `Gone` stands for the status of that name.
pub(super) enum Answer {
    Begun(Body),
    Gone,
}

pub(super) async fn ask(client: &Client, request: Request<Vec<u8>>) -> Result<Answer, Failure> {
    let path = request.uri().path().to_owned();
    let response = timeout(ANSWER_WITHIN, client.send(request.map(Body::from)))
        .await
        .with_context(|| format!("no answer to {path}"))?
        .with_context(|| format!("requesting {path}"))?;
    match response.status() {
        status if status.is_success() => Ok(Answer::Begun(response.into_body())),
        StatusCode::GONE => Ok(Answer::Gone),
        _ => Err(refusal(&path, response).await),
    }
}

/// Reads an answer of finite length. Passes the wanted part of each element to `element`, and returns that of
/// the document around them.
pub(super) async fn sift(
    body: Body,
    want: &'static Want,
    mut element: impl FnMut(Sifted),
) -> anyhow::Result<Sifted> {
    let mut sieve = Sieve::new(want, OBJECT_MAX);
    let reading = each_piece(body, |piece| {
        sieve.push(piece, &mut element);
        true
    });
    timeout(BODY_WITHIN, reading).await.context("the answer did not complete in time")??;
    Ok(sieve.end())
}

/// Passes the pieces of a body to `take`, until it ends or `take` has enough.
async fn each_piece(mut body: Body, mut take: impl FnMut(&[u8]) -> bool) -> anyhow::Result<()> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| anyhow!(error)).context("reading the answer")?;
        if frame.data_ref().is_some_and(|data| !take(data)) {
            break;
        }
    }
    Ok(())
}

/// The beginning of an answer that is not a list, as far as it arrives.
async fn beginning(body: Body) -> Vec<u8> {
    let mut text = Vec::new();
    let reading = each_piece(body, |piece| {
        text.extend_from_slice(&piece[..piece.len().min(REFUSAL_MAX - text.len())]);
        text.len() < REFUSAL_MAX
    });
    // After a timeout, the text that has arrived has to do.
    drop(timeout(BODY_WITHIN, reading).await);
    text
}

async fn refusal(path: &str, response: Response<Body>) -> Failure {
    let status = response.status();
    let pause = retry_after(&response);
    let text = beginning(response.into_body()).await;
    let error = anyhow!("{path} was answered with {status}: {}", excerpt(&text));
    match pause {
        _ if status == StatusCode::UNAUTHORIZED => Failure::Unauthorized(error),
        Some(pause) => Failure::After { error, pause },
        None => Failure::Again(error),
    }
}

/// Kubernetes servers send seconds, never a date.
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The message of a `Status`, or the beginning of any other body.
pub(super) fn excerpt(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Status {
        message: String,
    }
    let text = match serde_json::from_slice::<Status>(body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(&body[..body.len().min(4 * EXCERPT_MAX)]).into_owned(),
    };
    crate::cgroup::name::printable(text.trim()).chars().take(EXCERPT_MAX).collect()
}

/// Splits an endless body into lines, and keeps the wanted part of each.
pub(super) struct Lines<B> {
    body: B,
    /// Received, and not yet processed.
    received: Bytes,
    sieve: Sieve,
}

impl<B> Lines<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    pub(super) const fn new(body: B, want: &'static Want) -> Self {
        Self { body, received: Bytes::new(), sieve: Sieve::new(want, OBJECT_MAX) }
    }

    /// The next line without its line break; `None` when the body has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Sifted>> {
        loop {
            // A JSON string contains no bare line break.
            let end = self.received.iter().position(|byte| *byte == b'\n');
            let piece = self.received.split_to(end.unwrap_or(self.received.len()));
            self.sieve.push(&piece, &mut |_| {});
            if end.is_some() {
                drop(self.received.split_to(1));
                return Ok(Some(self.sieve.end()));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.context("reading the watch")?;
            self.received = frame.into_data().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// A body that arrives in these parts.
    fn lines(
        parts: impl Iterator<Item = &'static [u8]>,
    ) -> Lines<impl hyper::body::Body<Data = Bytes, Error = io::Error>> {
        let frames = parts.map(|part| Ok(Frame::data(Bytes::from_static(part))));
        Lines::new(StreamBody::new(futures::stream::iter(frames)), &Want::All)
    }

    #[tokio::test]
    async fn lines_are_whole_however_they_arrive() {
        let mut lines = lines([&b"one\ntw"[..], b"o", b"\n\nthr", b"ee"].into_iter());
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.expect("no error") {
            found.push(String::from_utf8(line.text).expect("text"));
        }
        assert_eq!(found, ["one", "two", ""]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_cut_and_the_next_one_is_whole() {
        const PART: &[u8] = b"0123456789abcdef";
        let long = std::iter::repeat_n(PART, 2 * OBJECT_MAX / PART.len());
        let mut lines = lines(long.chain([&b"\nnext\n"[..]]));
        let line = lines.next().await.expect("no error").expect("a line");
        assert_eq!((line.text.len(), line.is_cut), (OBJECT_MAX, true));
        let line = lines.next().await.expect("no error").expect("another line");
        assert_eq!((&line.text[..], line.is_cut), (&b"next"[..], false));
    }

    #[test]
    fn a_refusal_is_short_and_printable() {
        assert_eq!(excerpt(br#"{"kind":"Status","message":"pods is forbidden"}"#), "pods is forbidden");
        assert_eq!(excerpt(b"Too many requests\n"), "Too many requests");
        let long = excerpt("\u{1b}[2J".repeat(4000).as_bytes());
        assert!(long.chars().count() <= EXCERPT_MAX && !long.contains('\u{1b}'));
    }
}
