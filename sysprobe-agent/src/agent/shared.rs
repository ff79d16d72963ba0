//! The engine's own thread, and access to it. No lock is held during system calls: tasks send their requests
//! to the thread, which handles one after the other and answers each.

use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::pulse::Pulse;
use super::refusals::{Refusal, Refusals};
use super::scans::SocketScans;
use crate::engine::Engine;
use crate::pods::{Dead, Vitality};
use crate::snapshot::{Query, Snapshot};

/// Acts that may wait at a time. The agent itself has four; the rest are from commands, which keep asking
/// while the engine hangs.
const WAITING: usize = 64;

/// A request to the engine. It sends its own answer.
type Act = Box<dyn FnOnce(&mut Engine) + Send>;

/// The engine as the rest of the agent sees it: absent until it has started. The thread ends with the last
/// clone.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Default)]
struct Inner {
    running: OnceLock<Running>,
    pulse: Arc<Pulse>,
    socket_scans: SocketScans,
    refusals: Refusals,
}

struct Running {
    acts: mpsc::SyncSender<Act>,
    /// Read without the engine, which may hang.
    vitality: Vitality,
}

impl Shared {
    /// No engine answers; only the state of its source of pod names is there.
    #[cfg(test)]
    pub(super) fn with_vitality(vitality: Vitality) -> Self {
        let running = Running { acts: mpsc::sync_channel(WAITING).0, vitality };
        Self(Arc::new(Inner { running: running.into(), ..Inner::default() }))
    }

    /// Moves the engine to its own thread. There is one engine.
    pub(super) fn own(&self, mut engine: Engine) -> anyhow::Result<()> {
        let vitality = engine.vitality();
        let (sender, acts) = mpsc::sync_channel::<Act>(WAITING);
        let pulse = Arc::clone(&self.0.pulse);
        let work = move || {
            for act in acts {
                act(&mut engine);
                pulse.done();
            }
        };
        thread::Builder::new()
            .name("engine".to_owned())
            .spawn(work)
            .context("starting the engine's thread")?;
        let running = Running { acts: sender, vitality };
        anyhow::ensure!(self.0.running.set(running).is_ok(), "the engine is already running");
        Ok(())
    }

    /// A snapshot of everything, with the additional data of the query; `None` until the engine has started.
    pub(crate) async fn collect(&self, query: Query) -> anyhow::Result<Option<Snapshot>> {
        self.freshen().await;
        let mut snapshot = self.with(move |engine| engine.answer(query)).await?;
        if let Some(snapshot) = &mut snapshot {
            snapshot.agent.refused = self.0.refusals.samples();
        }
        Ok(snapshot)
    }

    /// Counts a refused request.
    pub(super) fn refuses(&self, refusal: Refusal) {
        self.0.refusals.note(refusal);
    }

    /// Runs the scans that an answer needs, and waits for them for a short time.
    async fn freshen(&self) {
        if self.is_ready() {
            self.0.socket_scans.freshen(self).await;
        }
    }

    /// Reads the kernel's counters without a request.
    pub(super) async fn read(&self) -> anyhow::Result<()> {
        self.freshen().await;
        self.with(|engine| drop(engine.collect())).await.map(drop)
    }

    /// Runs `act` on the engine's thread. Skips it if the caller has gone when its turn comes.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> anyhow::Result<Option<T>> {
        let Some(engine) = self.0.running.get() else { return Ok(None) };
        let (answer, answered) = oneshot::channel();
        let act = move |engine: &mut Engine| {
            if !answer.is_closed() {
                // A caller that has gone meanwhile needs no answer.
                drop(answer.send(act(engine)));
            }
        };
        self.0.pulse.sent();
        if let Err(error) = engine.acts.try_send(Box::new(act)) {
            self.0.pulse.withdrawn();
            anyhow::bail!(match error {
                mpsc::TrySendError::Full(_) => "the engine's request queue is full",
                mpsc::TrySendError::Disconnected(_) => "the engine has ended",
            });
        }
        answered.await.context("the engine has ended").map(Some)
    }

    /// A source of pod names that only a restart of the agent can bring back, if there is one.
    pub(super) fn dead_source(&self) -> Option<Dead> {
        self.0.running.get()?.vitality.dead(std::time::Instant::now())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.running.get().is_some()
    }

    /// How long the engine has been busy with something that never takes so long.
    pub(super) fn hangs_for(&self) -> Option<Duration> {
        self.0.pulse.hangs_for(Instant::now())
    }
}
