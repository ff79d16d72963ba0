//! What a connection's reader has to do next, and since when. The time limits and the choice of the
//! connection to close depend on it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// A request's head is one packet. A client that needs longer is not sending a request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Prometheus keeps its connection between scrapes, which are up to a minute apart.
const IDLE_AT_MOST: Duration = Duration::from_secs(120);
/// The default scrape timeout of Prometheus. It covers the whole answer, so a client cannot extend it by
/// reading byte by byte.
const TAKE_WITHIN: Duration = Duration::from_secs(10);
/// A reader that takes nothing for so long is not reading: the kernel's buffer has room for more as soon as a
/// third of it is acknowledged, which takes some 50 ms on a link of 10 Mbit/s.
const STALLED_AFTER: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A request is expected: the first one, or one whose first byte has come.
    Head,
    /// Between two requests.
    Idle,
    /// The agent is making the answer.
    Making,
    /// The answer is being sent and not all of it is handed over, so a flush covers only a part of it.
    Sending,
    /// The whole answer was handed over; the next flush completes it.
    Flushing,
    /// No answer may begin any more.
    Closed,
}

impl Phase {
    const fn limit(self) -> Option<Duration> {
        match self {
            Self::Head => Some(HEAD_WITHIN),
            Self::Idle => Some(IDLE_AT_MOST),
            Self::Sending | Self::Flushing => Some(TAKE_WITHIN),
            Self::Making | Self::Closed => None,
        }
    }

    const fn owes_an_answer(self) -> bool {
        matches!(self, Self::Making | Self::Sending | Self::Flushing)
    }
}

#[derive(Clone, Copy, Debug)]
struct State {
    phase: Phase,
    since: Instant,
    /// When the reader last took bytes of an answer.
    taken: Instant,
    /// Answers that the reader took completely.
    answers: u32,
    /// The stream has not been read yet, so the request may already be there.
    is_unread: bool,
}

impl State {
    fn enter(&mut self, phase: Phase) {
        (self.phase, self.since) = (phase, Instant::now());
    }

    fn standing(&self, now: Instant) -> Standing {
        let what = match self.phase {
            Phase::Sending | Phase::Flushing => {
                let stalled = now.saturating_duration_since(self.taken) >= STALLED_AFTER;
                if stalled { Activity::Stalled } else { Activity::Busy }
            }
            Phase::Head if self.is_unread => Activity::Busy,
            Phase::Head | Phase::Idle => Activity::Silent,
            Phase::Making | Phase::Closed => Activity::Busy,
        };
        Standing { activity: what, answers: self.answers, since: self.since }
    }
}

/// What a connection is doing, in the order in which connections give way to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Activity {
    /// Its reader is not taking the answer.
    Stalled,
    /// It has asked for nothing.
    Silent,
    /// An answer is being made or taken, or the stream has not been read yet.
    Busy,
}

/// What decides whether a connection gives way to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) activity: Activity,
    pub(super) answers: u32,
    pub(super) since: Instant,
}

/// The reader at the other end. Shared by the connection's task and the code that may close it.
#[derive(Debug)]
pub(super) struct Peer(Mutex<State>);

impl Peer {
    pub(super) const fn new(now: Instant) -> Self {
        Self(Mutex::new(State { phase: Phase::Head, since: now, taken: now, answers: 0, is_unread: true }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received(&self) {
        let mut state = self.state();
        if state.phase == Phase::Idle {
            state.enter(Phase::Head);
        }
    }

    /// There is nothing to read.
    pub(super) fn found_silent(&self) {
        self.state().is_unread = false;
    }

    fn took(&self) {
        self.state().taken = Instant::now();
    }

    fn flushed(&self) {
        let mut state = self.state();
        if state.phase == Phase::Flushing {
            state.answers = state.answers.saturating_add(1);
            state.enter(Phase::Idle);
        }
    }

    /// The answer's head is ready, and its body is being handed over.
    pub(super) fn answered(&self) {
        let mut state = self.state();
        if state.phase == Phase::Making {
            state.enter(Phase::Sending);
            state.taken = state.since;
        }
    }

    /// The answer's last byte was handed over. The time limit continues.
    pub(super) fn handed_over(&self) {
        let mut state = self.state();
        if state.phase == Phase::Sending {
            state.phase = Phase::Flushing;
        }
    }

    /// A request has come. Returns false if the connection is already closed.
    pub(super) fn asked(&self) -> bool {
        let mut state = self.state();
        if state.phase == Phase::Closed {
            return false;
        }
        state.enter(Phase::Making);
        true
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        self.state().standing(now)
    }

    /// Closes a connection whose activity is still the one for which it was chosen.
    pub(super) fn close_while(&self, activity: Activity, now: Instant) -> bool {
        self.close_if(|state| state.standing(now).activity == activity)
    }

    pub(super) fn close_overdue(&self, now: Instant) -> bool {
        self.close_if(|state| {
            state.phase.limit().is_some_and(|limit| now.saturating_duration_since(state.since) >= limit)
        })
    }

    /// Closes a connection to which no answer is owed.
    pub(super) fn close_unasked(&self) -> bool {
        self.close_if(|state| !state.phase.owes_an_answer())
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

/// A stream that reports its traffic to the peer's state.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    peer: Arc<Peer>,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, peer: Arc<Peer>) -> Self {
        Self { stream, peer }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.peer.took();
        }
        written
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
        if result.is_pending() {
            self.peer.found_silent();
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes the stream when its own buffer is empty, which also happens while a body is still being
    /// made.
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
