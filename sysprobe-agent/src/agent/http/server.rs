//! Accepts connections until the agent stops, however clients behave.
//!
//! A new connection is always accepted, so that the kubelet's probe is answered at once, however many
//! connections hang. [`places`](super::places) decides which one gives way to it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch::Receiver;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::connections::Connections;
use super::places::Limits;

/// How often time limits are checked, and how soon after an error connections are accepted again.
const SWEEP: Duration = Duration::from_millis(500);
/// The kernel keeps up to twice this of an answer that its reader does not take, because it counts its own
/// records too; the default is up to 4 MiB. It allows 2.5 MiB a second at a round-trip time of 50 ms.
pub(super) const SEND_BUFFER: u32 = 128 * 1024;
/// Connections that are not accepted yet: two seconds' worth at 2,000 a second. It is also the kernel's
/// default limit (`net.core.somaxconn`). Beyond it, a client tries again a second later.
const BACKLOG: u32 = 4096;

/// A listening socket, TCP or Unix.
pub(super) trait Door {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, and its peer's address.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<IpAddr>)>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        let (stream, address) = self.accept().await?;
        Ok((stream, Some(address.ip().to_canonical())))
    }
}

impl Door for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Option<IpAddr>)> {
        Ok((self.accept().await?.0, None))
    }
}

/// Opens the port, with a small send buffer for each connection.
pub(in crate::agent) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The agent's successor must not have to wait for the last connections' `TIME_WAIT`.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns when the agent stops and the answers in progress are sent.
pub(super) async fn serve(door: impl Door, router: Router, limits: Limits, stop: Receiver<bool>) {
    let mut connections = Connections::new(router, limits, stop.clone());
    let mut stopped = std::pin::pin!(stopped(stop));
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Without free descriptors every attempt fails at once. Retrying without a pause would take a whole CPU.
    let mut paused = false;
    loop {
        let has_room = connections.have_room();
        tokio::select! {
            accepted = door.accept(), if has_room && !paused => match accepted {
                Ok((stream, address)) => connections.admit(stream, address),
                // The client has already gone.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!(%error, "Connections cannot be accepted; retrying.");
                    paused = true;
                }
            },
            // Lets the connections that were just accepted be read.
            () = yield_now(), if !has_room => {}
            () = connections.one_ended(), if !connections.is_empty() => {}
            _ = sweep.tick(), if paused || !connections.is_empty() => {
                paused = false;
                connections.close_overdue();
            }
            () = &mut stopped => break,
        }
    }
    drop(door);
    connections.finish().await;
}

/// Returns when the agent stops.
pub(super) async fn stopped(mut stop: Receiver<bool>) {
    // An error means that the sender is gone, which ends the agent as well.
    drop(stop.wait_for(|stop| *stop).await);
}
