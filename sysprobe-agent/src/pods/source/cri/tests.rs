//! Which of several sockets is a container runtime's, and what happens when it is replaced, with real
//! connections.

use std::convert::Infallible;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::super::NOT_SERVED_PAUSE;
use super::super::fake::{next, start};
use super::messages::{PodSandbox, PodSandboxMetadata};
use super::*;

/// The kind of server at a socket.
#[derive(Clone, Copy)]
enum Server {
    /// containerd as Docker ships it.
    Unimplemented,
    /// Has one pod of this name, with an annotation of this many bytes.
    Runtime { pod: &'static str, annotation: usize },
}

const RUNTIME: Server = Server::Runtime { pod: "a", annotation: 0 };

impl Server {
    /// Listens until it is aborted. `asked` counts calls.
    fn listen(self, socket: &Path, asked: Arc<AtomicU32>) -> JoinHandle<()> {
        let listener = UnixListener::bind(socket).expect("a socket");
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let asked = Arc::clone(&asked);
                let service = service_fn(move |request: Request<Incoming>| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let answer = self.answer(request.uri().path());
                    async move { Ok::<_, Infallible>(answer) }
                });
                let serving = http2::Builder::new(TokioExecutor::new());
                drop(serving.serve_connection(TokioIo::new(connection), service).await);
            }
        })
    }

    fn answer(
        self,
        path: &str,
    ) -> Response<impl hyper::body::Body<Data = Bytes, Error = Infallible> + use<>> {
        let (status, message) = match self {
            Self::Unimplemented => ("12", None),
            Self::Runtime { pod, annotation } if path.ends_with("/ListPodSandbox") => {
                ("0", Some(sandboxes(pod, annotation)))
            }
            Self::Runtime { .. } => ("0", Some(Vec::new())),
        };
        let framed = message.map(|message| {
            let length = u32::try_from(message.len()).expect("small").to_be_bytes();
            [&[0][..], &length, &message].concat()
        });
        let trailers = HeaderMap::from_iter([(
            hyper::header::HeaderName::from_static("grpc-status"),
            hyper::header::HeaderValue::from_static(status),
        )]);
        let body = Full::new(Bytes::from(framed.unwrap_or_default()));
        let response = Response::builder().header("content-type", "application/grpc");
        response.body(body.with_trailers(async move { Some(Ok(trailers)) })).expect("a response")
    }
}

/// One sandbox, with an annotation, which is field 6.
fn sandboxes(name: &str, annotation: usize) -> Vec<u8> {
    #[derive(Clone, PartialEq, Message)]
    struct Annotated {
        #[prost(map = "string, string", tag = "6")]
        annotations: std::collections::HashMap<String, String>,
    }
    let metadata = PodSandboxMetadata { name: name.into(), uid: format!("u-{name}"), namespace: "ns".into() };
    let sandbox = PodSandbox { id: "5a9f3c0d".repeat(8), metadata: Some(metadata), ..PodSandbox::default() };
    let annotations = [("note".to_owned(), "<".repeat(annotation))].into();
    let mut whole = sandbox.encode_to_vec();
    Annotated { annotations }.encode(&mut whole).expect("room");
    // Field 1, of type bytes.
    let mut list = vec![0x0a];
    prost::encoding::encode_varint(whole.len() as u64, &mut list);
    list.extend(whole);
    list
}

struct Fixture {
    directory: TempDir,
    vitality: Vitality,
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), vitality: Vitality::default() }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn source(&self, names: &[&str]) -> (Cri, Arc<Demand>) {
        let others = names[1..].iter().map(|name| self.socket(name)).collect();
        let plan = CriPlan { socket: self.socket(names[0]), others };
        let demand = Arc::<Demand>::default();
        (Cri::new(plan, Arc::clone(&demand), self.vitality.clone()), demand)
    }
}

#[tokio::test]
async fn the_first_socket_that_is_a_container_runtimes_is_asked() {
    let fixture = Fixture::new();
    let [docker, cri] = [Arc::<AtomicU32>::default(), Arc::default()];
    let _docker = Server::Unimplemented.listen(&fixture.socket("containerd.sock"), Arc::clone(&docker));
    let _cri = RUNTIME.listen(&fixture.socket("cri-dockerd.sock"), Arc::clone(&cri));
    let (source, demand) = fixture.source(&["containerd.sock", "nothing.sock", "cri-dockerd.sock"]);
    let mut updates = start(source);
    assert_eq!(next(&mut updates).await, "synced a");
    demand.ask();
    assert_eq!(next(&mut updates).await, "synced a");
    assert_eq!((docker.load(Ordering::Relaxed), cri.load(Ordering::Relaxed)), (1, 4));
}

#[tokio::test]
async fn sockets_without_a_container_runtime_are_left_alone_for_long_only_if_all_say_so() {
    let fixture = Fixture::new();
    for name in ["a.sock", "b.sock"] {
        Server::Unimplemented.listen(&fixture.socket(name), Arc::default());
    }
    let (mut source, _demand) = fixture.source(&["a.sock", "b.sock"]);
    let failure = source.find().await.err().expect("neither is one");
    assert!(matches!(failure, Failure::NotServed(_)), "{failure}");
    let reason = failure.to_string();
    assert!(
        reason.contains("a.sock does not serve the CRI") && reason.contains("b.sock does not"),
        "{reason}"
    );
    let (mut source, _demand) = fixture.source(&["a.sock", "to-come.sock"]);
    let failure = source.find().await.err().expect("neither is one yet");
    assert!(matches!(failure, Failure::Again(_)), "{failure}");
    RUNTIME.listen(&fixture.socket("to-come.sock"), Arc::default());
    assert!(source.find().await.is_ok());
}

/// A containerd whose CRI plugin failed to start, and that is restarted.
#[tokio::test]
async fn a_socket_that_serves_the_cri_later_is_found() {
    let fixture = Fixture::new();
    let path = fixture.socket("containerd.sock");
    let server = Server::Unimplemented.listen(&path, Arc::default());
    let (source, _demand) = fixture.source(&["containerd.sock"]);
    let mut updates = start(source);
    let failed = next(&mut updates).await;
    assert!(failed.starts_with("failed ") && failed.contains("does not serve the CRI"), "{failed}");
    server.abort();
    fs::remove_file(&path).expect("there");
    RUNTIME.listen(&path, Arc::default());
    tokio::time::pause();
    tokio::time::advance(NOT_SERVED_PAUSE.mul_f64(0.9)).await;
    tokio::task::yield_now().await;
    assert!(updates.try_recv().is_err(), "it is left alone for a while");
    tokio::time::advance(NOT_SERVED_PAUSE).await;
    tokio::time::resume();
    assert_eq!(next(&mut updates).await, "synced a");
}

#[tokio::test]
async fn a_socket_that_answered_and_refuses_for_minutes_is_dead_for_good() {
    let fixture = Fixture::new();
    let path = fixture.socket("containerd.sock");
    let server = RUNTIME.listen(&path, Arc::default());
    let (mut source, _demand) = fixture.source(&["containerd.sock"]);
    let hours = std::time::Instant::now() + Duration::from_secs(7200);
    drop(source.find().await.expect("a runtime"));
    assert_eq!(fixture.vitality.dead(hours), None);
    server.abort();
    drop(server.await);
    // The old socket stays, as it does in a container's mount.
    assert!(path.exists());
    let failure = source.find().await.err().expect("no process listens");
    assert!(is_refusal(&failure), "{failure:?}");
    let dead = fixture.vitality.dead(hours).expect("no process will listen there again");
    assert!(dead.reason.contains("containerd.sock"), "{dead:?}");
    assert_eq!(fixture.vitality.dead(std::time::Instant::now()), None, "not yet");
    fs::remove_file(&path).expect("there");
    RUNTIME.listen(&path, Arc::default());
    drop(source.find().await.expect("a runtime again"));
    assert_eq!(fixture.vitality.dead(hours), None);
}

#[tokio::test]
async fn a_list_of_forty_mebibytes_is_read() {
    let fixture = Fixture::new();
    let large = Server::Runtime { pod: "large", annotation: 40 << 20 };
    large.listen(&fixture.socket("containerd.sock"), Arc::default());
    let (source, _demand) = fixture.source(&["containerd.sock"]);
    assert_eq!(next(&mut start(source)).await, "synced large");
}
