//! The agent's local socket: created for root alone, taken over from an agent that died, and removed at the
//! end if it still belongs to this agent. A lock on a file beside it decides who owns it. No other file is
//! ever removed.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// Connections that commands have opened and the agent has not accepted yet.
const BACKLOG: u32 = 128;

#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// The socket's inode. While it is open its number is not reused, so the number shows whether the file at
    /// the path is still ours.
    inode: File,
    listener: Option<UnixListener>,
    /// Last, so that it is released after the socket is gone.
    _lock: Lock,
}

impl Socket {
    pub(super) async fn bind(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create the directory of {shown}"))?;
        }
        let lock = Lock::take(path)?;
        make_way(path).await?;
        let (listener, inode) =
            bind_fresh(path).with_context(|| format!("cannot create the socket {shown}"))?;
        Ok(Self { path: path.to_owned(), inode, listener: Some(listener), _lock: lock })
    }

    /// The listening socket. This value still removes the file.
    pub(super) fn listener(&mut self) -> anyhow::Result<UnixListener> {
        self.listener.take().context("the socket is already being served")
    }

    fn is_still_ours(&self) -> io::Result<bool> {
        is_at(&self.inode, &self.path)
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, there) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino()))
}

/// The right to the socket's name: a lock that the kernel releases when the agent dies. Dropping it removes
/// its file.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    fn take(socket: &Path) -> anyhow::Result<Self> {
        let shown = socket.display();
        let mut name = socket.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        loop {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    bail!("another agent answers on {shown}: stop it, or choose another path with --socket")
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
            }
            // An agent that ended meanwhile has removed the file. A lock on a removed file does not protect
            // the name.
            if is_at(&file, &path).unwrap_or(false) {
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path).unwrap_or(false) {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Removes the socket of an agent that died; anything else in the way is an error. This process holds the
/// lock, so a program that still listens here is not an agent.
async fn make_way(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match UnixStream::connect(path).await {
        Ok(_) => bail!("another program answers on {shown}: stop it, or choose another path with --socket"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // The kernel also answers this for a file that is not a socket.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => remove_abandoned(path),
        // For example, a program that is too busy to accept the connection.
        Err(error) => bail!("{shown} seems to be in use ({error}): choose another path with --socket"),
    }
}

fn remove_abandoned(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    // Does not follow links: an agent did not create the file that a link points to.
    let metadata = fs::symlink_metadata(path).with_context(|| format!("cannot inspect {shown}"))?;
    if !metadata.file_type().is_socket() {
        bail!("{shown} exists and is not a socket: choose another path with --socket");
    }
    fs::remove_file(path).with_context(|| format!("cannot remove the socket {shown} of an agent that died"))
}

/// The file gets the mode of the socket that is bound to it (`unix_bind_bsd`), so it is root's alone from the
/// start.
fn bind_fresh(path: &Path) -> io::Result<(UnixListener, File)> {
    let socket = UnixSocket::new_stream()?;
    let descriptor = File::from(socket.as_fd().try_clone_to_owned()?);
    descriptor.set_permissions(Permissions::from_mode(0o600))?;
    socket.bind(path)?;
    let listener = socket.listen(BACKLOG)?;
    // A socket cannot be opened for reading, only with `O_PATH`.
    let inode = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
    Ok((listener, inode))
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The next agent would take over a socket that is left behind. The socket of another agent is not
        // ours to remove.
        if self.is_still_ours().unwrap_or(false) {
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests;
