//! The agent's local socket: made for root alone, taken over from an agent that died, removed at the end if it is still
//! this agent's. No other file is ever removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tokio::net::{UnixListener, UnixStream};

#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// The socket's inode. While it is open its number is not given to another, so the number tells whose the file is.
    inode: File,
    listener: Option<UnixListener>,
}

impl Socket {
    pub(super) async fn bind(path: &Path) -> anyhow::Result<Self> {
        make_way(path).await?;
        let (listener, inode) =
            bind_fresh(path).with_context(|| format!("cannot make the socket {}", path.display()))?;
        Ok(Self { path: path.to_owned(), inode, listener: Some(listener) })
    }

    /// The listening socket; the file stays this value's to remove.
    pub(super) fn listener(&mut self) -> anyhow::Result<UnixListener> {
        self.listener.take().context("the socket is already being served")
    }

    fn is_still_ours(&self) -> io::Result<bool> {
        let (ours, there) = (self.inode.metadata()?, fs::symlink_metadata(&self.path)?);
        Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
    }
}

/// Removes what an agent that died has left; anything else in the way is an error.
async fn make_way(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match UnixStream::connect(path).await {
        Ok(_) => bail!("another agent answers on {shown}: stop it, or choose another path with --socket"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Also the answer for every file that is no socket.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => remove_abandoned(path),
        // Such as an agent that is too busy to take up the connection.
        Err(error) => bail!("{shown} seems to be in use ({error}): choose another path with --socket"),
    }
}

fn remove_abandoned(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    // Not following links: what a link leads to was not put there by an agent.
    let metadata = fs::symlink_metadata(path).with_context(|| format!("cannot look at {shown}"))?;
    if !metadata.file_type().is_socket() {
        bail!("{shown} exists and is not a socket: choose another path with --socket");
    }
    fs::remove_file(path).with_context(|| format!("cannot remove the socket {shown} of an agent that died"))
}

fn bind_fresh(path: &Path) -> io::Result<(UnixListener, File)> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    // A socket cannot be opened for reading, only looked at.
    let inode = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
    Ok((listener, inode))
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Left behind, it would only be taken over by the next agent; another agent's is not ours to remove.
        if self.is_still_ours().unwrap_or(false) {
            drop(fs::remove_file(&self.path));
        }
    }
}
