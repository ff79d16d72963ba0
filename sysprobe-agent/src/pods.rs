//! Names of containers: from the pod UID and container id in a cgroup's path to namespace, pod and container.
//!
//! [`Pods`] is what the engine holds. It is synchronous and never waits: the sources' reports arrive through
//! a channel that is emptied before each look-up, and only the runtime's own files are read directly. Modules
//! are in reading order.

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
pub(crate) use directory::{SANDBOX_AFTER, SANDBOX_WHILE_STARTING};
use id::ContainerId;
use misses::Misses;
use plan::KubernetesPlan;
pub use plan::{PodFacts, PodsPlan};
pub use source::SourceKind;
use source::{Api, Change, Cri, Demand, Feed, Found, Kubelet, Runtime, Source, Update, keep_running};
pub use states::SourceState;
use states::States;
use unread::Losses;
pub use vitality::{Dead, Vitality};

use crate::cgroup::name::Name;

/// A busy node's pods change a few times a second, and the engine takes in reports every second.
const UPDATES_MAX: usize = 1024;
/// How long the API server may take for its first answer, once it is asked: all agents of a new version start
/// together.
const FIRST_ANSWER: Duration = Duration::from_secs(60);

/// The running sources, and everything that they have reported.
#[derive(Debug)]
pub struct Pods {
    directory: Directory,
    runtime: Option<Runtime>,
    misses: Misses,
    states: States,
    losses: Losses,
    updates: mpsc::Receiver<Update>,
    /// One for each source that is only asked when something is unknown.
    demands: Vec<Arc<Demand>>,
    vitality: Vitality,
    /// By when the API server's first answer is expected, if it is asked.
    first_answer_by: Option<Instant>,
    /// The tasks end when this is dropped.
    _tasks: JoinSet<()>,
}

impl Pods {
    /// Starts the plan's sources as tasks of the async runtime.
    #[must_use]
    pub fn start(plan: PodsPlan, handle: &Handle) -> Self {
        let (sender, updates) = mpsc::channel(UPDATES_MAX);
        let states = States::new(plan.chosen());
        let is_only = plan.kubernetes.is_none() && plan.kubelet.is_none();
        let vitality = Vitality::default();
        let first_answer = |plan: &KubernetesPlan| Instant::now() + plan.jitter + FIRST_ANSWER;
        let first_answer_by = plan.kubernetes.as_ref().map(first_answer);
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
            // If another source knows the pods, a dead runtime socket is not worth a restart.
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
            first_answer_by,
            _tasks: starter.tasks,
        }
    }

    /// Takes in the sources' reports, and forgets pods that have been gone for the grace period. Call it
    /// about every second, or the sources have to wait.
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

    /// Grows with every change. After one, something unknown may have become known.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.directory.changes()
    }

    /// The owner of a cgroup. An unknown one is asked for, and may be known later.
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
            self.misses.clear(&id);
            return answer;
        }
        if !self.misses.is_due(id, now) {
            return answer;
        }
        if let Some(found) = self.runtime.as_ref().and_then(|runtime| runtime.look_up(id, uid)) {
            self.misses.clear(&id);
            self.take_in(found, id, now);
            return self.directory.look_up(uid, Some(id), now);
        }
        // The sources that can be asked know only pods.
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

    /// How long ago the source that watches the pods last reported; `None` without such a source, or before
    /// its first report.
    #[must_use]
    pub fn watch_age(&self) -> Option<Duration> {
        self.states.watch_age(Instant::now())
    }

    /// Whether the API server has not answered since the start and is not late: until then, most pods are
    /// unknown.
    #[must_use]
    pub fn awaits_first_answer(&self, now: Instant) -> bool {
        self.first_answer_by.is_some_and(|by| now < by) && self.states.watch_age(now).is_none()
    }

    /// Whether a restart would bring back a source, for callers that may not wait for the engine.
    #[must_use]
    pub fn vitality(&self) -> Vitality {
        self.vitality.clone()
    }

    /// Reported pods that could not be used, by reason.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.losses.counts()
    }

    /// Whether a source that learns of pods by itself, or is asked for them, is up.
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

/// What the start of the sources needs, and what it produces.
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
