//! Whose numbers a cgroup's are: those of its pod and container, else of what its path says. What belongs to
//! a pod that nobody can name yet waits for a while, so that no number has to move from one series to
//! another.
//!
//! Who the pods are is told by `pods`; this decides what to make of it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::cgroup::name::Name;
use crate::cgroup::tree::Cgroup;
use crate::pods::{Answer, Pods, PodsPlan, SANDBOX_AFTER};
use crate::workload::{Bearer, Charge};

/// How long numbers wait for the name of their pod. A pod is known long before its first container, and the
/// API server tells of a container within a second; a sandbox is known after a time.
const PATIENCE: Duration = Duration::from_secs(SANDBOX_AFTER.as_secs() + 5);
/// The same while nothing is known of the pod, and a source that should know it answers: on a machine that
/// has too much to do its word comes late, and the numbers of what lives are kept by the kernel meanwhile.
const PATIENCE_WHILE_ANSWERED: Duration = Duration::from_secs(60);
/// Dead cgroups whose numbers may wait at the same time. What is beyond is charged at once.
const ORPHANS_MAX: usize = 4096;

pub(super) struct Attribution {
    pods: Pods,
    /// Whether some source may learn of a pod later than its cgroups are made.
    may_learn: bool,
    /// Whether any source tells names at all.
    tells_names: bool,
    known: HashMap<u64, Bearer>,
    /// Of cgroups that have gone, and since when: their sockets may outlive them.
    late: HashMap<u64, (Bearer, Instant)>,
    waiting: HashMap<u64, Wait>,
    orphans: Vec<Orphan>,
    /// Those that died nameless, and since when: others may owe them, or they others.
    nameless: HashMap<u64, (Name, Instant)>,
    /// The pods' changes when the orphans were last looked at.
    looked: u64,
    /// How many cgroups of pods got no name in time.
    without_name: u64,
}

/// A cgroup waits for its name.
#[derive(Debug)]
struct Wait {
    since: Instant,
    /// Whether its pod is known, so that only its container is not.
    in_pod: bool,
}

impl Wait {
    const fn new(now: Instant) -> Self {
        Self { since: now, in_pod: false }
    }

    /// Patience begins anew when the pod becomes known: when the agent starts, all cgroups are there before
    /// the source has said a word, and the next to ask may be a scrape a minute later.
    fn is_over(&mut self, answer: &Answer, patience: Duration, now: Instant) -> bool {
        if matches!(answer, Answer::Pod { .. }) && !self.in_pod {
            *self = Self { since: now, in_pod: true };
        }
        now.duration_since(self.since) >= patience
    }
}

/// The last numbers of a cgroup that died nameless, in one domain.
struct Orphan {
    name: Name,
    gathered: Box<dyn Charge>,
    since: Instant,
}

impl Attribution {
    /// Starts the sources of the plan.
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

    /// Finds out whose a cgroup is. `None` as long as its name may still come.
    pub(super) fn settle(&mut self, id: u64, cgroup: &Cgroup, now: Instant) -> Option<&Bearer> {
        let name = &cgroup.name;
        if name.container_id.is_none() && name.pod_uid.is_none() {
            return Some(self.settle_by_path(id, cgroup));
        }
        let answer = self.pods.resolve(name);
        if is_final(&answer, name) {
            self.accept(id, &answer, cgroup);
        } else if !self.known.contains_key(&id) {
            let patience = self.patience(&answer);
            let wait = self.waiting.entry(id).or_insert_with(|| Wait::new(now));
            let is_over = wait.is_over(&answer, patience, now);
            if self.may_come(name) && !is_over {
                return None;
            }
            self.without_name += u64::from(self.tells_names && name.pod_uid.is_some());
            self.accept(id, &answer, cgroup);
        }
        // Else a source has forgotten the pod before its last process has gone: what was known stays.
        self.waiting.remove(&id);
        self.known.get(&id)
    }

    fn settle_by_path(&mut self, id: u64, cgroup: &Cgroup) -> &Bearer {
        let by_path = || Bearer::of_path(&cgroup.name).since(cgroup.since);
        let bearer = self.known.entry(id).or_insert_with(by_path);
        // It was renamed.
        if bearer.workload.container != cgroup.name.name {
            *bearer = by_path();
        }
        bearer
    }

    fn accept(&mut self, id: u64, answer: &Answer, cgroup: &Cgroup) {
        if self.known.get(&id).is_none_or(|bearer| !bearer.is_of(answer, &cgroup.name)) {
            self.known.insert(id, Bearer::of_answer(answer, &cgroup.name).since(cgroup.since));
        }
    }

    fn patience(&self, answer: &Answer) -> Duration {
        match answer {
            Answer::Unknown if self.pods.is_answered() => PATIENCE_WHILE_ANSWERED,
            _ => PATIENCE,
        }
    }

    /// How many cgroups of pods go by an id or as unknown, because no source told their names in time.
    pub(super) const fn without_name(&self) -> u64 {
        self.without_name
    }

    const fn may_come(&self, name: &Name) -> bool {
        self.may_learn && name.pod_uid.is_some()
    }

    /// Whom `settle` found last, also of a cgroup that has gone not long ago.
    pub(super) fn bearer(&self, id: u64) -> Option<&Bearer> {
        self.known.get(&id).or_else(|| self.late.get(&id).map(|(bearer, _)| bearer))
    }

    /// Whether it has gone not long ago.
    pub(super) fn is_late(&self, id: u64) -> bool {
        self.late.contains_key(&id)
    }

    /// Whether it has gone and its name may still come.
    pub(super) fn is_nameless(&self, id: u64) -> bool {
        self.nameless.contains_key(&id)
    }

    /// A cgroup has gone. Whose it was is remembered for a while.
    pub(super) fn retire(&mut self, id: u64, name: &Name, now: Instant) {
        let waited = self.waiting.remove(&id).is_some();
        if let Some(bearer) = self.known.remove(&id) {
            self.late.insert(id, (bearer, now));
        } else if waited && self.nameless.len() < ORPHANS_MAX {
            self.nameless.insert(id, (name.clone(), now));
        }
    }

    /// Forgets those that have gone long ago.
    pub(super) fn forget_late(&mut self, now: Instant, grace: Duration) {
        self.late.retain(|_, (_, since)| now.duration_since(*since) < grace);
    }

    /// Keeps what a cgroup gathered that died nameless; if there is no room, its numbers come back.
    #[must_use]
    pub(super) fn adopt(&mut self, name: &Name, gathered: Box<dyn Charge>, now: Instant) -> bool {
        let has_room = self.orphans.len() < ORPHANS_MAX;
        if has_room {
            self.orphans.push(Orphan { name: name.clone(), gathered, since: now });
        }
        has_room
    }

    /// Hands the numbers of the dead to `charge` whose names have come or will not come any more.
    pub(super) fn place_orphans(&mut self, now: Instant, mut charge: impl FnMut(&Bearer, &dyn Charge)) {
        // Nobody may ask for a name for hours, and what the sources say of themselves is news all the same.
        self.pods.update();
        let changes = self.pods.changes();
        let is_news = changes != std::mem::replace(&mut self.looked, changes);
        let pods = &mut self.pods;
        let mut place = |name: &Name, since| {
            let is_late = now.duration_since(since) >= PATIENCE;
            if !is_news && !is_late {
                return None;
            }
            match pods.resolve(name) {
                answer if !is_final(&answer, name) && !is_late => None,
                Answer::Unknown => Some(Bearer::unknown()),
                answer => Some(Bearer::of_answer(&answer, name)),
            }
        };
        self.orphans.retain(|orphan| {
            let bearer = place(&orphan.name, orphan.since);
            if let Some(bearer) = &bearer {
                charge(bearer, orphan.gathered.as_ref());
            }
            bearer.is_none()
        });
        let late = &mut self.late;
        let without_name = &mut self.without_name;
        self.nameless.retain(|id, (name, since)| {
            let bearer = place(name, *since);
            let is_unknown = bearer.as_ref().is_some_and(|bearer| *bearer == Bearer::unknown());
            *without_name += u64::from(is_unknown);
            let is_placed = bearer.is_some();
            late.extend(bearer.map(|bearer| (*id, (bearer, now))));
            !is_placed
        });
    }
}

/// Whether nothing better can come.
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
    use crate::pods::plan::{CriPlan, KubeletPlan};
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

    /// Its sources are never run: the kubelet is well as long as it is not asked, the runtime has not
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
                assert_eq!(attribution.settle(7, &cgroup, start + early), None, "{patience:?}");
            }
            assert_eq!(attribution.without_name(), 0);
            let bearer = attribution.settle(7, &cgroup, start + patience).expect("by its id");
            assert_eq!(Some(&bearer.workload.container), cgroup.name.container_id.as_ref());
            attribution.settle(7, &cgroup, start + patience * 2).expect("as before");
            assert_eq!(attribution.without_name(), 1);
        }
    }

    /// A pod that lived for less than the patience, and whose name never came: no series of its own may be
    /// left.
    #[test]
    fn what_dies_before_its_name_comes_is_unknown_and_not_an_id() {
        let (_runtime, mut attribution) = attribution(&of_kubelet());
        let start = Instant::now();
        let cgroup = Cgroup::of_path(PATH, start);
        let died = start + PATIENCE + Duration::from_secs(5);
        assert_eq!(attribution.settle(7, &cgroup, start), None);
        assert_eq!(
            attribution.settle(7, &cgroup, died),
            None,
            "it lived for longer than the shorter patience"
        );
        attribution.retire(7, &cgroup.name, died);
        assert!(attribution.is_nameless(7));
        attribution.place_orphans(died + PATIENCE, |_, _| ());
        assert_eq!(attribution.bearer(7), Some(&Bearer::unknown()));
        assert_eq!(attribution.without_name(), 1);
    }
}
