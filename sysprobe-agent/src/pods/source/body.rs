//! Requests to servers of Kubernetes and what they answer: whole bodies and lines, both of bounded size, and what a
//! refusal says about when to come back.

use std::time::Duration;

use anyhow::{Context, anyhow};
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use hyper::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use super::Failure;

/// Until the answer begins. The API server gives a request up after 60 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(70);
/// For the rest of an answer that has an end.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// 500 pods of 64 KiB each. What is larger is no list of one node's pods.
const BODY_MAX: usize = 32 << 20;
/// An object in etcd has 1.5 MiB at most; JSON is somewhat longer.
const LINE_MAX: usize = 4 << 20;
/// As much of a refusal as a log line needs.
const EXCERPT_MAX: usize = 200;

/// A request whose answer may begin. `Gone` stands for the status of that name.
pub(super) enum Answer {
    Begun(Body),
    Gone,
}

pub(super) async fn ask(client: &Client, request: Request<Vec<u8>>) -> Result<Answer, Failure> {
    let path = request.uri().path().to_owned();
    let response = timeout(ANSWER_WITHIN, client.send(request.map(Body::from)))
        .await
        .with_context(|| format!("no answer to {path}"))?
        .with_context(|| format!("asking for {path}"))?;
    match response.status() {
        status if status.is_success() => Ok(Answer::Begun(response.into_body())),
        StatusCode::GONE => Ok(Answer::Gone),
        _ => Err(refusal(&path, response).await),
    }
}

/// A whole answer.
pub(super) async fn whole(body: Body) -> anyhow::Result<Bytes> {
    let collected = timeout(BODY_WITHIN, Limited::new(body, BODY_MAX).collect()).await;
    let collected = collected.context("the answer does not end")?;
    Ok(collected.map_err(|error| anyhow!(error)).context("reading the answer")?.to_bytes())
}

async fn refusal(path: &str, response: Response<Body>) -> Failure {
    let status = response.status();
    let pause = retry_after(&response);
    let text = whole(response.into_body()).await.unwrap_or_default();
    let error = anyhow!("{path} was answered with {status}: {}", excerpt(&text));
    match pause {
        Some(pause) => Failure::After { error, pause },
        None => Failure::Again(error),
    }
}

/// Servers of Kubernetes give seconds, never a date.
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The message of a `Status`, or the beginning of whatever it is.
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

/// Splits a body that does not end into lines.
pub(super) struct Lines<B> {
    body: B,
    /// What has been received and not yet been returned.
    received: Vec<u8>,
    /// Up to here there is no end of a line.
    searched: usize,
}

impl<B> Lines<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    pub(super) const fn new(body: B) -> Self {
        Self { body, received: Vec::new(), searched: 0 }
    }

    /// The next line without its end; `None` when the body has ended. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.received[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.received, rest);
                line.pop();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.received.len();
            anyhow::ensure!(self.searched <= LINE_MAX, "a line has more than {LINE_MAX} bytes");
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.context("reading what follows")?;
            self.received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// Arrives in these parts.
    fn lines(
        parts: impl Iterator<Item = &'static [u8]>,
    ) -> Lines<impl hyper::body::Body<Data = Bytes, Error = io::Error>> {
        let frames = parts.map(|part| Ok(Frame::data(Bytes::from_static(part))));
        Lines::new(StreamBody::new(futures::stream::iter(frames)))
    }

    #[tokio::test]
    async fn lines_are_whole_however_they_arrive() {
        let mut lines = lines([&b"one\ntw"[..], b"o", b"\n\nthr", b"ee"].into_iter());
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.expect("no error") {
            found.push(String::from_utf8(line).expect("text"));
        }
        assert_eq!(found, ["one", "two", ""]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_an_error() {
        let mut lines = lines(std::iter::repeat(&b"0123456789abcdef"[..]));
        assert!(lines.next().await.is_err());
    }

    #[test]
    fn a_refusal_is_short_and_printable() {
        assert_eq!(excerpt(br#"{"kind":"Status","message":"pods is forbidden"}"#), "pods is forbidden");
        assert_eq!(excerpt(b"Too many requests\n"), "Too many requests");
        let long = excerpt("\u{1b}[2J".repeat(4000).as_bytes());
        assert!(long.chars().count() <= EXCERPT_MAX && !long.contains('\u{1b}'));
    }
}
