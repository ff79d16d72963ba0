//! The agent's local socket: made for root alone, taken over from an agent that died, removed at the end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tokio::net::{UnixListener, UnixStream};

#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl Socket {
    pub(super) async fn bind(path: &Path) -> anyhow::Result<Self> {
        if UnixStream::connect(path).await.is_ok() {
            bail!(
                "another agent answers on {}: stop it, or choose another path with --socket",
                path.display()
            );
        }
        let listener =
            bind_fresh(path).with_context(|| format!("cannot make the socket {}", path.display()))?;
        Ok(Self { path: path.to_owned(), listener: Some(listener) })
    }

    /// The listening socket; the file stays this value's to remove.
    pub(super) fn listener(&mut self) -> anyhow::Result<UnixListener> {
        self.listener.take().context("the socket is already being served")
    }
}

fn bind_fresh(path: &Path) -> std::io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Left behind, it would only be taken over by the next agent.
        drop(fs::remove_file(&self.path));
    }
}
