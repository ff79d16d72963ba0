//! An agent that replays a real one: of two snapshots of a real node, it answers the first request with the
//! first, and all others with the second. This is for tests of screens, which can be compared only if the
//! numbers stay the same, not for tests of numbers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::get;
use serde_json::Value;
use sysprobe_agent::snapshot::{READABLE_FROM, VERSION};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;

/// The replaying agent; answers until it is dropped.
#[derive(Debug)]
pub(crate) struct Replay {
    directory: TempDir,
    _runtime: Runtime,
}

impl Replay {
    pub(crate) fn start(earlier: &str, later: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::new().expect("a runtime");
        let answers: Arc<[String; 2]> = Arc::new([earlier, later].map(of_this_version));
        let asked = Arc::new(AtomicBool::new(false));
        let answer = move || {
            let answer = answers[usize::from(asked.swap(true, Ordering::SeqCst))].clone();
            async move { answer }
        };
        let router = Router::new().route("/v1/snapshot", get(answer));
        let listener = runtime.block_on(async { UnixListener::bind(socket_in(directory.path())) });
        let listener = listener.expect("a socket");
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { directory, _runtime: runtime }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        socket_in(self.directory.path())
    }
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("agent.sock")
}

/// Gives the recording the current version: an older one that can still be read is just as good, but its
/// version would show on the screen.
fn of_this_version(recording: &str) -> String {
    let mut snapshot: Value = serde_json::from_str(recording).expect("JSON");
    let version = snapshot["version"].as_u64().expect("a version");
    assert!(version >= READABLE_FROM.into(), "too old: record it anew by `cargo xtask e2e screens`");
    snapshot["version"] = VERSION.into();
    snapshot["readable_from"] = READABLE_FROM.into();
    snapshot.to_string()
}
