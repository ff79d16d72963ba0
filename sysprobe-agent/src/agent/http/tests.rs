//! Answers that are longer than the buffer between the agent and its reader, with a clock that the tests
//! advance.

use std::io;
use std::net::IpAddr;

use axum::body::Body;
use futures::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

use super::*;
use crate::pods::{SourceKind, Vitality};

const FRAME: usize = 64 * 1024;
const FRAMES: usize = 50;

/// Accepts the streams that a test hands in.
struct Door(Mutex<mpsc::Receiver<DuplexStream>>);

impl server::Door for Door {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<(DuplexStream, Option<IpAddr>)> {
        match self.0.lock().await.recv().await {
            Some(stream) => Ok((stream, None)),
            None => std::future::pending().await,
        }
    }
}

/// A server that makes its answers while it sends them, with pauses in which hyper flushes.
struct Server {
    door: mpsc::Sender<DuplexStream>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    fn start() -> Self {
        let long = async || {
            let frames = stream::unfold(0, |number| async move {
                yield_now().await;
                (number < FRAMES).then(|| (io::Result::Ok(vec![b'a'; FRAME]), number + 1))
            });
            Body::from_stream(frames)
        };
        let router = Router::new().route("/long", get(long)).route("/short", get("ok"));
        let (door, streams) = mpsc::channel(100);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(server::serve(Door(Mutex::new(streams)), router, Limits::PORT, stopped));
        Self { door, stop, task }
    }

    /// A reader that has taken this many bytes of a long answer.
    async fn reader(&self, taken: usize) -> DuplexStream {
        let (mut client, server) = duplex(FRAME);
        self.door.send(server).await.expect("it accepts");
        client.write_all(b"GET /long HTTP/1.0\r\n\r\n").await.expect("it reads");
        client.read_exact(&mut vec![0; taken]).await.expect("a part");
        client
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_a_part_has_ten_seconds_for_all() {
    let server = Server::start();
    for taken in [1, 2 * FRAME, 10 * FRAME] {
        let mut reader = server.reader(taken).await;
        sleep(Duration::from_secs(9)).await;
        reader.read_exact(&mut [0; 100]).await.expect("it is open");
        sleep(Duration::from_secs(2)).await;
        let mut rest = Vec::new();
        drop(reader.read_to_end(&mut rest).await);
        assert!(taken + rest.len() < FRAME * FRAMES / 2, "of {taken}: it was closed, {} came", rest.len());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_being_taken_outlives_the_signal_to_stop() {
    let server = Server::start();
    let (mut reader, mut idle) = (server.reader(2 * FRAME).await, duplex(FRAME));
    server.door.send(idle.1).await.expect("it accepts");
    idle.0.write_all(b"GET /short HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("it reads");
    idle.0.read_exact(&mut [0; 15]).await.expect("an answer");
    sleep(Duration::from_secs(1)).await;
    server.stop.send_replace(true);
    sleep(Duration::from_secs(1)).await;
    assert!(!server.task.is_finished(), "an answer is being taken");
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.expect("the rest");
    assert!(2 * FRAME + rest.len() > FRAME * FRAMES, "torn after {}", rest.len());
    server.task.await.expect("it ends then, though a connection was kept");
}

#[tokio::test]
async fn a_source_that_only_a_restart_brings_back_fails_the_liveness_probe() {
    let answer = async |seconds| {
        let since = std::time::Instant::now().checked_sub(Duration::from_secs(seconds));
        let since = since.expect("this machine has run longer");
        let shared = Shared::with_vitality(Vitality::of_refused(SourceKind::Cri, since));
        assert_eq!(ready(State(shared.clone())).await.status(), StatusCode::OK, "it still measures");
        let answer = healthy(State(shared)).await;
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("a text");
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let (status, text) = answer(200).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.starts_with("cri has refused connections for 20"), "{text}");
    assert!(text.contains("restart the agent"), "{text}");
    assert_eq!(answer(100).await, (StatusCode::OK, "ok\n".to_owned()));
}

#[test]
fn a_scraper_is_answered_before_it_gives_up() {
    let of = |text: &'static str| {
        patience(
            &[(SCRAPE_TIMEOUT.parse().expect("a name"), text.parse().expect("a value"))]
                .into_iter()
                .collect(),
        )
    };
    assert_eq!(of("10"), Duration::from_secs(9));
    assert_eq!(of("0.5"), Duration::from_millis(450));
    for other in ["600", "-1", "NaN", "soon"] {
        assert_eq!(of(other), ANSWER_WITHIN, "{other}");
    }
    assert_eq!(patience(&HeaderMap::new()), ANSWER_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_refused_before_it_takes_memory() {
    let server = Server::start();
    let (mut client, stream) = duplex(FRAME);
    server.door.send(stream).await.expect("it accepts");
    client.write_all(b"GET /short HTTP/1.1\r\nx: ").await.expect("it reads");
    let mut written = 0;
    while client.write_all(&[b'a'; 1024]).await.is_ok() {
        written += 1024;
        assert!(written < 4 * FRAME, "it takes all");
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}
