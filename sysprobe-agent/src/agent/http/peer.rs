//! What a connection's reader has to do next, and since when: the time limits, and whose turn it is to be closed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A request's head is one packet; who needs longer has no request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Prometheus keeps its connection from scrape to scrape, which are up to a minute apart.
const IDLE_AT_MOST: Duration = Duration::from_secs(120);
/// As long as Prometheus waits for an answer by default. From end to end, so that reading byte by byte is no way out.
const TAKE_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A request is due: the first one, or one whose first byte has come.
    Head,
    /// Between two requests.
    Idle,
    /// The agent's turn, not the reader's.
    Making,
    /// The answer is on its way.
    Sending,
    /// No answer may begin any more.
    Closed,
}

impl Phase {
    const fn limit(self) -> Option<Duration> {
        match self {
            Self::Head => Some(HEAD_WITHIN),
            Self::Idle => Some(IDLE_AT_MOST),
            Self::Sending => Some(TAKE_WITHIN),
            Self::Making | Self::Closed => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct State {
    phase: Phase,
    since: Instant,
}

/// The reader at the other end. Shared by the connection's task and by whoever may close it.
#[derive(Debug)]
pub(super) struct Peer(Mutex<State>);

impl Peer {
    pub(super) const fn new(now: Instant) -> Self {
        Self(Mutex::new(State { phase: Phase::Head, since: now }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, from: Phase, to: Phase) {
        let mut state = self.state();
        if state.phase == from {
            *state = State { phase: to, since: Instant::now() };
        }
    }

    fn received(&self) {
        self.step(Phase::Idle, Phase::Head);
    }

    fn flushed(&self) {
        self.step(Phase::Sending, Phase::Idle);
    }

    pub(super) fn answered(&self) {
        self.step(Phase::Making, Phase::Sending);
    }

    /// A request is there; false if the connection is closed already.
    pub(super) fn asked(&self) -> bool {
        let mut state = self.state();
        if state.phase == Phase::Closed {
            return false;
        }
        *state = State { phase: Phase::Making, since: Instant::now() };
        true
    }

    /// Since when the agent has been waiting for the reader, if it is.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let state = self.state();
        state.phase.limit().map(|_| state.since)
    }

    /// Closes a connection on which no answer is being made.
    pub(super) fn close_silent(&self) -> bool {
        self.close_if(|state| state.phase.limit().is_some())
    }

    pub(super) fn close_overdue(&self, now: Instant) -> bool {
        self.close_if(|state| {
            state.phase.limit().is_some_and(|limit| now.saturating_duration_since(state.since) >= limit)
        })
    }

    /// Closes a connection to which no answer is owed.
    pub(super) fn close_unasked(&self) -> bool {
        self.close_if(|state| matches!(state.phase, Phase::Head | Phase::Idle))
    }

    fn close_if(&self, condition: impl FnOnce(&State) -> bool) -> bool {
        let mut state = self.state();
        let closes = condition(&state);
        if closes {
            state.phase = Phase::Closed;
        }
        closes
    }
}

/// A stream that tells its peer's state what goes over it.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    peer: Arc<Peer>,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, peer: Arc<Peer>) -> Self {
        Self { stream, peer }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.peer.received();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes the stream when its own buffer is empty, so the answer is out.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(result, Poll::Ready(Ok(()))) {
            self.peer.flushed();
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
