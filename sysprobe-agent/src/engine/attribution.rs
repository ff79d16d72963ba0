//! The owner of a cgroup's counters: its pod and container, or else the workload that its path names.
//! Counters of a pod without a known name are held back for a while, so that none has to move from one series
//! to another.
//!
//! `pods` knows the pods; this module decides which of them a cgroup belongs to.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::workload::Owner;
use crate::cgroup::name::Name;
use crate::cgroup::tree::Cgroup;
use crate::domain::slots::Charge;
use crate::pods::{Answer, Pods, PodsPlan, SANDBOX_AFTER, SANDBOX_WHILE_STARTING};

/// How long counters wait for the name of their pod. A pod is known long before its first container, and the
/// API server reports a container within a second; the sandbox of a pod that has started is recognized after
/// `SANDBOX_AFTER`.
const PATIENCE: Duration = Duration::from_secs(SANDBOX_AFTER.as_secs() + 5);
/// The same while the source responds and the pod is unknown, or one of its containers has not been created.
/// On an overloaded machine the source is late, and the kernel keeps the counters of live cgroups meanwhile.
const PATIENCE_WHILE_ANSWERED: Duration = Duration::from_secs(SANDBOX_WHILE_STARTING.as_secs() + 15);
/// Maximum number of records of deleted cgroups that wait for a name: one for each cgroup and domain. Further
/// ones are charged at once.
const ORPHANS_MAX: usize = 4096;

pub(super) struct Attribution {
    pods: Pods,
    /// Whether a source may learn of a pod only after its cgroups are created.
    may_learn: bool,
    /// Whether there is a source of names at all.
    tells_names: bool,
    known: HashMap<u64, Owner>,
    /// Owners of deleted cgroups, and the time of deletion: sockets may outlive their cgroup.
    late: HashMap<u64, (Owner, Instant)>,
    waiting: HashMap<u64, Wait>,
    orphans: Vec<Orphan>,
    /// Cgroups that were deleted before they were named, and when; interference records may still refer to
    /// them.
    nameless: HashMap<u64, (Name, Instant)>,
    /// The pods' change count when the orphans were last examined.
    looked: u64,
    /// Number of pod cgroups that got no name in time.
    without_name: u64,
}

/// The state of a cgroup that waits for its name.
#[derive(Debug)]
struct Wait {
    since: Instant,
    /// Whether its pod is known and only its container is not.
    in_pod: bool,
}

impl Wait {
    const fn new(now: Instant) -> Self {
        Self { since: now, in_pod: false }
    }

    /// The wait restarts when the pod becomes known: at startup all cgroups exist before the source has
    /// delivered anything, and the next lookup may be a scrape a minute later.
    fn is_over(&mut self, answer: &Answer, patience: Duration, now: Instant) -> bool {
        if matches!(answer, Answer::Pod { .. }) && !self.in_pod {
            *self = Self { since: now, in_pod: true };
        }
        now.duration_since(self.since) >= patience
    }
}

/// The last counters of a cgroup that was deleted before it was named, in one domain.
struct Orphan {
    name: Name,
    gathered: Box<dyn Charge>,
    since: Instant,
}

impl Attribution {
    /// Starts the name sources of the plan.
    pub(super) fn start(plan: &PodsPlan, handle: &Handle) -> Self {
        let may_learn = plan.kubernetes.is_some() || plan.kubelet.is_some() || plan.cri.is_some();
        Self {
            pods: Pods::start(plan.clone(), handle),
            may_learn,
            tells_names: may_learn || plan.runtime.is_some(),
            known: HashMap::new(),
            late: HashMap::new(),
            waiting: HashMap::new(),
            orphans: Vec::new(),
            nameless: HashMap::new(),
            looked: 0,
            without_name: 0,
        }
    }

    pub(super) const fn pods(&self) -> &Pods {
        &self.pods
    }

    /// Resolves the owner of a cgroup. `None` while its name may still arrive.
    pub(super) fn resolve(&mut self, id: u64, cgroup: &Cgroup, now: Instant) -> Option<&Owner> {
        let name = &cgroup.name;
        if name.container_id.is_none() && name.pod_uid.is_none() {
            return Some(self.resolve_by_path(id, cgroup));
        }
        let answer = self.pods.resolve(name);
        if is_final(&answer, name) {
            self.accept(id, &answer, cgroup);
        } else if !self.known.contains_key(&id) {
            let patience = self.patience(&answer);
            let wait = self.waiting.entry(id).or_insert_with(|| Wait::new(now));
            let is_over = wait.is_over(&answer, patience, now) && !self.pods.awaits_first_answer(now);
            if self.may_come(name) && !is_over {
                return None;
            }
            self.without_name += u64::from(self.tells_names && name.pod_uid.is_some());
            self.accept(id, &answer, cgroup);
        }
        // Otherwise a source forgot the pod before its last process exited: the known owner stays.
        self.waiting.remove(&id);
        self.known.get(&id)
    }

    fn resolve_by_path(&mut self, id: u64, cgroup: &Cgroup) -> &Owner {
        let by_path = || Owner::of_path(&cgroup.name).since(cgroup.since);
        let owner = self.known.entry(id).or_insert_with(by_path);
        // The cgroup was renamed.
        if owner.workload.container != cgroup.name.name {
            *owner = by_path();
        }
        owner
    }

    fn accept(&mut self, id: u64, answer: &Answer, cgroup: &Cgroup) {
        if self.known.get(&id).is_none_or(|owner| !owner.is_of(answer, &cgroup.name)) {
            self.known.insert(id, Owner::of_answer(answer, &cgroup.name).since(cgroup.since));
        }
    }

    fn patience(&self, answer: &Answer) -> Duration {
        match answer {
            Answer::Unknown if self.pods.is_answered() => PATIENCE_WHILE_ANSWERED,
            Answer::Pod { pod } if pod.is_starting() && self.pods.is_answered() => PATIENCE_WHILE_ANSWERED,
            _ => PATIENCE,
        }
    }

    /// Number of pod cgroups exported under an ID or as unknown, because no source named them in time.
    pub(super) const fn without_name(&self) -> u64 {
        self.without_name
    }

    const fn may_come(&self, name: &Name) -> bool {
        self.may_learn && name.pod_uid.is_some()
    }

    /// The owner that `resolve` found last, also for a cgroup that was deleted recently.
    pub(super) fn owner(&self, id: u64) -> Option<&Owner> {
        self.known.get(&id).or_else(|| self.late.get(&id).map(|(owner, _)| owner))
    }

    /// Whether the cgroup was deleted recently.
    pub(super) fn is_late(&self, id: u64) -> bool {
        self.late.contains_key(&id)
    }

    /// Whether the cgroup was deleted and its name may still arrive.
    pub(super) fn is_nameless(&self, id: u64) -> bool {
        self.nameless.contains_key(&id)
    }

    /// Notes that a cgroup was deleted; its owner is kept for a while.
    pub(super) fn retire(&mut self, id: u64, name: &Name, now: Instant) {
        let waited = self.waiting.remove(&id).is_some();
        if let Some(owner) = self.known.remove(&id) {
            self.late.insert(id, (owner, now));
        } else if waited && self.nameless.len() < ORPHANS_MAX {
            self.nameless.insert(id, (name.clone(), now));
        }
    }

    /// Forgets cgroups that were deleted more than `grace` ago.
    pub(super) fn forget_late(&mut self, now: Instant, grace: Duration) {
        self.late.retain(|_, (_, since)| now.duration_since(*since) < grace);
    }

    /// Keeps the counters of a cgroup that was deleted before it was named, or gives them back if there is no
    /// room.
    pub(super) fn adopt(
        &mut self,
        name: &Name,
        gathered: Box<dyn Charge>,
        now: Instant,
    ) -> Result<(), Box<dyn Charge>> {
        if self.orphans.len() >= ORPHANS_MAX {
            return Err(gathered);
        }
        self.orphans.push(Orphan { name: name.clone(), gathered, since: now });
        Ok(())
    }

    /// Passes the counters of deleted cgroups to `charge` once their name has arrived or can no longer
    /// arrive.
    pub(super) fn place_orphans(&mut self, now: Instant, mut charge: impl FnMut(&Owner, &dyn Charge)) {
        // The state of the sources is reported even if no name is looked up for hours.
        self.pods.update();
        let changes = self.pods.changes();
        let is_news = changes != std::mem::replace(&mut self.looked, changes);
        let pods = &mut self.pods;
        let is_answered = !pods.awaits_first_answer(now);
        let mut place = |name: &Name, since| {
            let is_late = is_answered && now.duration_since(since) >= PATIENCE;
            if !is_news && !is_late {
                return None;
            }
            match pods.resolve(name) {
                answer if !is_final(&answer, name) && !is_late => None,
                Answer::Unknown => Some(Owner::unknown()),
                answer => Some(Owner::of_answer(&answer, name)),
            }
        };
        self.orphans.retain(|orphan| {
            let owner = place(&orphan.name, orphan.since);
            if let Some(owner) = &owner {
                charge(owner, orphan.gathered.as_ref());
            }
            owner.is_none()
        });
        let late = &mut self.late;
        let without_name = &mut self.without_name;
        self.nameless.retain(|id, (name, since)| {
            let owner = place(name, *since);
            let is_unknown = owner.as_ref().is_some_and(|owner| *owner == Owner::unknown());
            *without_name += u64::from(is_unknown);
            let is_placed = owner.is_some();
            late.extend(owner.map(|owner| (*id, (owner, now))));
            !is_placed
        });
    }
}

/// Whether no better answer can follow.
const fn is_final(answer: &Answer, name: &Name) -> bool {
    match answer {
        Answer::Container { .. } | Answer::Sandbox { .. } | Answer::Plain { .. } => true,
        Answer::Pod { .. } => name.container_id.is_none(),
        Answer::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pods::SourceKind;
    use crate::pods::plan::{Access, CriPlan, KubeletPlan, KubernetesPlan};
    use crate::pods::pod::Pod;

    #[test]
    fn patience_begins_anew_when_the_pod_becomes_known_and_only_then() {
        let start = Instant::now();
        let later = |seconds: u64| start + Duration::from_secs(seconds);
        let patience = PATIENCE.as_secs();
        let known = Answer::Pod { pod: Arc::new(Pod::default()) };
        let is_over = |wait: &mut Wait, answer, now| wait.is_over(answer, PATIENCE, now);
        let mut wait = Wait::new(start);
        assert!(!is_over(&mut wait, &Answer::Unknown, later(patience - 1)));
        assert!(!is_over(&mut wait, &known, later(10 * patience)));
        assert!(!is_over(&mut wait, &known, later(11 * patience - 1)));
        assert!(is_over(&mut wait, &known, later(11 * patience)));
        assert!(is_over(&mut Wait::new(start), &Answer::Unknown, later(patience)));
    }

    const PATH: &str = "/kubepods/burstable/pod2c48913c-b29f-11e7-9350-020968147796/\
                        5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";

    /// The sources never run: the kubelet counts as healthy until it is asked, and the runtime has not
    /// answered yet.
    fn attribution(plan: &PodsPlan) -> (tokio::runtime::Runtime, Attribution) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let attribution = Attribution::start(plan, runtime.handle());
        (runtime, attribution)
    }

    fn of_kubelet() -> PodsPlan {
        let kubelet = KubeletPlan {
            url: "https://node1:10250".into(),
            ca: "/ca".into(),
            server_name: None,
            token: "/token".into(),
            insecure: false,
        };
        let others = [SourceKind::Kubernetes, SourceKind::Cri, SourceKind::Runtime];
        let passed_over = others.map(|kind| (kind, String::new())).into();
        PodsPlan { kubelet: Some(kubelet), passed_over, ..PodsPlan::default() }
    }

    fn of_api_server(jitter: Duration) -> PodsPlan {
        let kubernetes = KubernetesPlan { node: "node1".into(), access: Access::ServiceAccount, jitter };
        let others = [SourceKind::Kubelet, SourceKind::Cri, SourceKind::Runtime];
        let passed_over = others.map(|kind| (kind, String::new())).into();
        PodsPlan { kubernetes: Some(kubernetes), passed_over, ..PodsPlan::default() }
    }

    fn of_runtime() -> PodsPlan {
        let others = [SourceKind::Kubernetes, SourceKind::Kubelet, SourceKind::Runtime];
        let passed_over = others.map(|kind| (kind, String::new())).into();
        let cri = Some(CriPlan { socket: "/none".into(), others: Vec::new() });
        PodsPlan { cri, passed_over, ..PodsPlan::default() }
    }

    #[test]
    fn a_name_is_waited_for_as_long_as_a_source_answers_and_then_its_lack_is_counted() {
        for (plan, patience) in [(of_kubelet(), PATIENCE_WHILE_ANSWERED), (of_runtime(), PATIENCE)] {
            let (_runtime, mut attribution) = attribution(&plan);
            let start = Instant::now();
            let cgroup = Cgroup::of_path(PATH, start);
            for early in [Duration::ZERO, patience.mul_f64(0.99)] {
                assert_eq!(attribution.resolve(7, &cgroup, start + early), None, "{patience:?}");
            }
            assert_eq!(attribution.without_name(), 0);
            let owner = attribution.resolve(7, &cgroup, start + patience).expect("by its id");
            assert_eq!(Some(&owner.workload.container), cgroup.name.container_id.as_ref());
            attribution.resolve(7, &cgroup, start + patience * 2).expect("as before");
            assert_eq!(attribution.without_name(), 1);
        }
    }

    /// The sandbox of a pod whose image is pulled. Under its ID, it would become a workload of its own.
    #[test]
    fn a_pod_that_is_starting_is_waited_for_for_longer() {
        let mut pod = Pod::default();
        pod.add_container(&"web".into(), None, &[]);
        let starting = Answer::Pod { pod: Arc::new(pod) };
        let started = Answer::Pod { pod: Arc::new(Pod::default()) };
        let (_runtime, of_kubelet) = attribution(&of_kubelet());
        assert_eq!(of_kubelet.patience(&starting), PATIENCE_WHILE_ANSWERED);
        assert_eq!(of_kubelet.patience(&started), PATIENCE);
        let (_runtime, of_runtime) = attribution(&of_runtime());
        assert_eq!(of_runtime.patience(&starting), PATIENCE, "it does not answer");
    }

    /// At the start of an agent, all its pods are unknown. Under their IDs, each would become two workloads.
    #[test]
    fn the_first_answer_of_the_api_server_is_waited_for() {
        let jitter = Duration::from_secs(300);
        let (_runtime, mut attribution) = attribution(&of_api_server(jitter));
        let start = Instant::now();
        let cgroup = Cgroup::of_path(PATH, start);
        for early in [Duration::ZERO, PATIENCE * 2, jitter, jitter + PATIENCE] {
            assert_eq!(attribution.resolve(7, &cgroup, start + early), None, "{early:?}");
        }
        attribution.retire(7, &cgroup.name, start + jitter);
        attribution.place_orphans(start + jitter + PATIENCE, |_, _| ());
        assert!(attribution.is_nameless(7), "its name may still come");
        let late = start + jitter * 2;
        assert!(attribution.resolve(8, &cgroup, late).is_none(), "the wait begins here");
        assert!(attribution.resolve(8, &cgroup, late + PATIENCE).is_some(), "nothing answers");
        attribution.place_orphans(late, |_, _| ());
        assert_eq!(attribution.owner(7), Some(&Owner::unknown()));
    }

    /// A pod that lived for less than `PATIENCE` and was never named must not leave a series of its own.
    #[test]
    fn what_dies_before_its_name_comes_is_unknown_and_not_an_id() {
        let (_runtime, mut attribution) = attribution(&of_kubelet());
        let start = Instant::now();
        let cgroup = Cgroup::of_path(PATH, start);
        let died = start + PATIENCE + Duration::from_secs(5);
        assert_eq!(attribution.resolve(7, &cgroup, start), None);
        assert_eq!(
            attribution.resolve(7, &cgroup, died),
            None,
            "it lived for longer than the shorter patience"
        );
        attribution.retire(7, &cgroup.name, died);
        assert!(attribution.is_nameless(7));
        attribution.place_orphans(died + PATIENCE, |_, _| ());
        assert_eq!(attribution.owner(7), Some(&Owner::unknown()));
        assert_eq!(attribution.without_name(), 1);
    }
}
