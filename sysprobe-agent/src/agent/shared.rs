//! The engine's own thread, and the way to it. No lock is held while the kernel is asked: what a task wants
//! of the engine is sent there and answered, and the engine does one thing after the other.

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

/// Acts that wait at a time. The agent's own are four; the rest are commands', which come again and again
/// while the engine hangs.
const WAITING: usize = 64;

/// Something to do, which sends its answer itself.
type Act = Box<dyn FnOnce(&mut Engine) + Send>;

/// The engine as everything else sees it: absent until it has started. The thread ends with the last clone.
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
    /// Asked without the engine, which may hang.
    vitality: Vitality,
}

impl Shared {
    /// Gives the engine its thread. There is one engine.
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

    /// Everything as of now, with what is asked for beside; `None` until the engine has started.
    pub(crate) async fn collect(&self, query: Query) -> anyhow::Result<Option<Snapshot>> {
        self.freshen().await;
        let mut snapshot = self.with(move |engine| engine.answer(query)).await?;
        if let Some(snapshot) = &mut snapshot {
            snapshot.agent.refused = self.0.refusals.samples();
        }
        Ok(snapshot)
    }

    /// Counts a request that is refused.
    pub(super) fn refuses(&self, refusal: Refusal) {
        self.0.refusals.note(refusal);
    }

    /// Has everything scanned that an answer is made from, as far as that is quick.
    async fn freshen(&self) {
        if self.is_ready() {
            self.0.socket_scans.freshen(self).await;
        }
    }

    /// Takes in what has been counted, although nothing asks.
    pub(super) async fn read(&self) -> anyhow::Result<()> {
        self.freshen().await;
        self.with(|engine| drop(engine.collect())).await.map(drop)
    }

    /// An act whose caller has gone when its turn comes is left out.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> anyhow::Result<Option<T>> {
        let Some(engine) = self.0.running.get() else { return Ok(None) };
        let (answer, answered) = oneshot::channel();
        let act = move |engine: &mut Engine| {
            if !answer.is_closed() {
                // A caller that left meanwhile needs no answer.
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

    /// A source of pod names that only a restart of the agent can bring back.
    pub(super) fn dead_source(&self) -> Option<Dead> {
        self.0.running.get()?.vitality.dead(std::time::Instant::now())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.running.get().is_some()
    }

    /// For how long the engine has been at something that never takes so long.
    pub(super) fn hangs_for(&self) -> Option<Duration> {
        self.0.pulse.hangs_for(Instant::now())
    }
}
