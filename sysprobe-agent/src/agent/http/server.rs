//! Takes up connections until the agent stops, whatever its readers do.
//!
//! There are [`CONNECTIONS`](super::connections) at a time, so that readers cannot use up the agent's descriptors. A new
//! one beyond that is not turned away: it takes the place of the one whose reader has been silent longest. The kubelet's
//! probe is thus answered at once, however many connections hang; if new ones waited for a place instead, 300 half-open
//! ones ahead of it would take their time limit ten times over.

use std::io;
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch::Receiver;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::connections::Connections;

/// How often time limits are looked at, and how soon after an error connections are taken up again.
const SWEEP: Duration = Duration::from_millis(500);

/// A listening socket of either kind.
pub(super) trait Door {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        Ok(self.accept().await?.0)
    }
}

impl Door for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

/// Returns when the agent stops and the answers under way are out.
pub(super) async fn serve(door: impl Door, router: Router, stop: Receiver<bool>) {
    let mut connections = Connections::new(router, stop.clone());
    let mut stopped = std::pin::pin!(stopped(stop));
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Without descriptors every try fails at once: trying again without a pause would take a whole CPU.
    let mut paused = false;
    loop {
        tokio::select! {
            accepted = door.accept(), if !paused && connections.have_room() => match accepted {
                Ok(stream) => connections.admit(stream),
                // The reader has gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!(%error, "Connections cannot be taken up; trying again.");
                    paused = true;
                }
            },
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
