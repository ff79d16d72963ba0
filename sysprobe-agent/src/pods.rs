//! Who the containers are: from the pod UID and container id in a cgroup's path to namespace, pod and
//! container.
//!
//! [`Pods`] is what the engine holds. It is synchronous and never waits: what the sources say arrives through
//! a channel that is emptied before each look-up, and only the runtime's own files are read on the spot.
//! Modules in reading order.

pub mod config;
pub mod plan;

pub mod answer;
pub mod id;
pub mod pod;
mod wire;

mod directory;
mod misses;
mod source;
mod states;
mod unread;
mod vitality;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use answer::Answer;
use directory::Directory;
pub(crate) use directory::SANDBOX_AFTER;
use id::ContainerId;
use misses::Misses;
pub use plan::{PodFacts, PodsPlan};
pub use source::SourceKind;
use source::{Api, Change, Cri, Demand, Feed, Found, Kubelet, Runtime, Source, Update, keep_running};
pub use states::SourceState;
use states::States;
use unread::Losses;
pub use vitality::{Dead, Vitality};

use crate::cgroup::name::Name;

/// A busy node's pods change a few times a second, and the engine takes news in every second.
const UPDATES_MAX: usize = 1024;

/// The sources at work, and all that they have said.
#[derive(Debug)]
pub struct Pods {
    directory: Directory,
    runtime: Option<Runtime>,
    misses: Misses,
    states: States,
    losses: Losses,
    updates: mpsc::Receiver<Update>,
    /// Of the sources that are only asked when something is unknown.
    demands: Vec<Arc<Demand>>,
    vitality: Vitality,
    /// They end when this is dropped.
    _tasks: JoinSet<()>,
}

impl Pods {
    /// Starts the sources of the plan on the runtime.
    #[must_use]
    pub fn start(plan: PodsPlan, handle: &Handle) -> Self {
        let (sender, updates) = mpsc::channel(UPDATES_MAX);
        let states = States::new(plan.chosen());
        let is_only = plan.kubernetes.is_none() && plan.kubelet.is_none();
        let vitality = Vitality::default();
        let mut starter = Starter { handle, sender, tasks: JoinSet::new(), demands: Vec::new() };
        if let Some(plan) = plan.kubernetes {
            starter.start(Api::new(plan));
        }
        if let Some(plan) = plan.kubelet {
            let demand = starter.demand();
            starter.start(Kubelet::new(plan, demand));
        }
        if let Some(plan) = plan.cri {
            let demand = starter.demand();
            // Beside another source it is not worth a restart.
            let own = if is_only { vitality.clone() } else { Vitality::default() };
            starter.start(Cri::new(plan, demand, own));
        }
        Self {
            directory: Directory::new(plan.grace),
            runtime: plan.runtime.map(Runtime::new),
            misses: Misses::default(),
            states,
            losses: Losses::default(),
            updates,
            demands: starter.demands,
            vitality,
            _tasks: starter.tasks,
        }
    }

    /// Takes in what the sources have said, and forgets what has been gone for the grace. To be called every
    /// second or so, else the sources have to wait.
    pub fn update(&mut self) {
        self.update_at(Instant::now());
    }

    fn update_at(&mut self, now: Instant) {
        while let Ok(update) = self.updates.try_recv() {
            self.states.note(&update);
            match update.change {
                Change::Unread(unread) => self.losses.note(update.source, unread),
                _ => self.directory.apply(update, now),
            }
        }
        self.directory.expire(now);
        self.misses.sweep(now);
        for demand in &self.demands {
            demand.set_unresolved(self.misses.count());
        }
    }

    /// Grows with every change: what was unknown before may be known after one.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.directory.changes()
    }

    /// Whose cgroup it is. What is unknown is asked for, and may be known later.
    pub fn resolve(&mut self, name: &Name) -> Answer {
        let now = Instant::now();
        self.update_at(now);
        self.resolve_at(name, now)
    }

    fn resolve_at(&mut self, name: &Name, now: Instant) -> Answer {
        let uid = name.pod_uid.as_deref();
        let id = name.container_id.as_deref().and_then(ContainerId::parse);
        let answer = self.directory.look_up(uid, id, now);
        let Some(id) = id else { return answer };
        if !matches!(answer, Answer::Unknown | Answer::Pod { .. }) {
            self.misses.settle(&id);
            return answer;
        }
        if !self.misses.is_due(id, now) {
            return answer;
        }
        if let Some(found) = self.runtime.as_ref().and_then(|runtime| runtime.look_up(id, uid)) {
            self.misses.settle(&id);
            self.take_in(found, id, now);
            return self.directory.look_up(uid, Some(id), now);
        }
        // Those that could be asked know pods only.
        if uid.is_some() {
            self.demands.iter().for_each(|demand| demand.ask());
        }
        answer
    }

    fn take_in(&mut self, found: Found, id: ContainerId, now: Instant) {
        match found {
            Found::InPod(pod) => {
                let update = Update { source: SourceKind::Runtime, at: now, change: Change::Found(pod) };
                self.states.note(&update);
                self.directory.apply(update, now);
            }
            Found::Plain(name) => self.directory.name(id, name, now),
        }
    }

    /// How long ago the source that watches the pods was last heard of; `None` without one, or before its
    /// first word.
    #[must_use]
    pub fn watch_age(&self) -> Option<Duration> {
        self.states.watch_age(Instant::now())
    }

    /// Whether a restart would bring back a source, for callers that may not wait for the engine.
    #[must_use]
    pub fn vitality(&self) -> Vitality {
        self.vitality.clone()
    }

    /// What was said of pods and could not be used, by reason.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.losses.counts()
    }

    /// Whether a source that tells of pods by itself, or is asked for them, has answered when it last should
    /// have.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        let learns = |state: &SourceState| state.source != SourceKind::Runtime;
        self.states().iter().any(|state| state.up && learns(state))
    }

    /// The sources that were started, the most trustworthy first.
    #[must_use]
    pub fn states(&self) -> Vec<SourceState> {
        self.states.all(Instant::now())
    }
}

/// What is needed to start the sources, and what is made by it.
struct Starter<'a> {
    handle: &'a Handle,
    sender: mpsc::Sender<Update>,
    tasks: JoinSet<()>,
    demands: Vec<Arc<Demand>>,
}

impl Starter<'_> {
    fn start<S: Source>(&mut self, source: S) {
        let feed = Feed::new(S::KIND, self.sender.clone());
        self.tasks.spawn_on(keep_running(source, feed), self.handle);
    }

    fn demand(&mut self) -> Arc<Demand> {
        let demand = Arc::<Demand>::default();
        self.demands.push(Arc::clone(&demand));
        demand
    }
}

#[cfg(test)]
mod tests;
