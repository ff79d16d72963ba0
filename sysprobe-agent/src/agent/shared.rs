//! The engine's own thread, and the way to it. Nobody holds a lock while the kernel is asked: who wants something of the engine
//! sends it there and waits for the answer, and the engine does one thing after the other.

use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use anyhow::Context;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::snapshot::{Query, Snapshot};

/// Something to do, which sends its answer itself.
type Act = Box<dyn FnOnce(&mut Engine) + Send>;

/// The engine as everybody sees it: absent until it has started. The thread ends with the last clone.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<OnceLock<mpsc::Sender<Act>>>);

impl Shared {
    /// Gives the engine its thread. There is one engine.
    pub(super) fn own(&self, mut engine: Engine) -> anyhow::Result<()> {
        let (sender, acts) = mpsc::channel::<Act>();
        let work = move || {
            for act in acts {
                act(&mut engine);
            }
        };
        thread::Builder::new()
            .name("engine".to_owned())
            .spawn(work)
            .context("starting the engine's thread")?;
        anyhow::ensure!(self.0.set(sender).is_ok(), "there is an engine already");
        Ok(())
    }

    /// Everything as of now, with what is asked for beside; `None` until the engine has started.
    pub(crate) async fn collect(&self, query: Query) -> anyhow::Result<Option<Snapshot>> {
        self.with(move |engine| engine.answer(query)).await
    }

    /// Nothing is done for somebody who has left when it would be his turn.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> anyhow::Result<Option<T>> {
        let Some(engine) = self.0.get() else { return Ok(None) };
        let (answer, answered) = oneshot::channel();
        let act = move |engine: &mut Engine| {
            if !answer.is_closed() {
                // Who left meanwhile needs no answer.
                drop(answer.send(act(engine)));
            }
        };
        engine.send(Box::new(act)).ok().context("the engine has ended")?;
        answered.await.context("the engine has ended").map(Some)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.get().is_some()
    }
}
