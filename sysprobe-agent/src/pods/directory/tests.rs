//! Look-ups after reports of several sources.

use proptest::prelude::*;

use super::super::pod::ContainerKind;
use super::*;
use crate::snapshot::Qos;
use SourceKind::{Cri, Kubelet, Kubernetes, Runtime};

const GRACE: Duration = Duration::from_secs(60);

fn id(number: u64) -> ContainerId {
    ContainerId::parse(&format!("{number:064x}")).expect("an id")
}

/// A pod named after its UID, with these containers and ids.
fn pod(uid: &str, containers: &[(&str, &[u64])]) -> Pod {
    let mut pod =
        Pod { uid: uid.into(), namespace: "ns".into(), name: format!("pod-{uid}").into(), ..Pod::default() };
    for (name, ids) in containers {
        let ids: Vec<_> = ids.iter().map(|number| id(*number)).collect();
        pod.add_container(&(*name).into(), Some(ContainerKind::Ordinary), &ids);
    }
    pod
}

fn with_sandboxes(mut pod: Pod, ids: &[u64]) -> Pod {
    pod.sandboxes = ids.iter().map(|number| id(*number)).collect();
    pod
}

/// A directory and its clock.
struct Told {
    directory: Directory,
    now: Instant,
}

impl Told {
    fn new() -> Self {
        Self { directory: Directory::new(GRACE), now: Instant::now() }
    }

    fn say(&mut self, source: SourceKind, change: Change) {
        self.directory.apply(Update { source, at: self.now, change }, self.now);
    }

    fn applied(&mut self, source: SourceKind, pod: Pod) {
        self.say(source, Change::Applied(Arc::new(pod)));
    }

    fn deleted(&mut self, source: SourceKind, pod: Pod) {
        self.say(source, Change::Deleted(Arc::new(pod)));
    }

    fn synced(&mut self, source: SourceKind, pods: Vec<Pod>) {
        self.say(source, Change::Synced(pods.into_iter().map(Arc::new).collect()));
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.directory.expire(self.now);
    }

    /// `pod/container`, `pod/POD`, `pod/`, the name of a container in no pod, or `?`.
    fn ask(&mut self, uid: &str, number: Option<u64>) -> String {
        let uid = Some(uid).filter(|uid| !uid.is_empty());
        let answer = self.directory.look_up(uid, number.map(id), self.now);
        match (answer.pod(), answer.container()) {
            (Some(pod), container) => format!("{}/{}", pod.name, container.unwrap_or_default()),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "?".to_owned(),
        }
    }
}

#[test]
fn containers_pods_and_strangers() {
    let mut told = Told::new();
    assert_eq!(told.ask("a", Some(1)), "?");
    told.applied(Kubernetes, pod("a", &[("web", &[1, 2]), ("log", &[3])]));
    assert_eq!(told.ask("a", Some(1)), "pod-a/web");
    assert_eq!(told.ask("a", Some(2)), "pod-a/web", "the one before");
    assert_eq!(told.ask("", Some(3)), "pod-a/log", "a path without the pod");
    assert_eq!(told.ask("a", None), "pod-a/");
    assert_eq!(told.ask("a", Some(9)), "pod-a/", "not known yet");
    assert_eq!(told.ask("b", Some(9)), "?");
    told.directory.name(id(9), "web-1".into(), told.now);
    assert_eq!(told.ask("", Some(9)), "web-1");
}

#[test]
fn the_first_to_know_wins_and_the_more_trustworthy_corrects() {
    let mut told = Told::new();
    told.say(Runtime, Change::Found(Arc::new(pod("a", &[("rt", &[1])]))));
    assert_eq!(told.ask("a", Some(1)), "pod-a/rt");
    told.applied(Cri, with_sandboxes(pod("a", &[("cri", &[1, 2])]), &[7]));
    assert_eq!((told.ask("a", Some(1)), told.ask("a", Some(7))), ("pod-a/cri".into(), "pod-a/POD".into()));
    let mut api = Pod { name: "right".into(), qos: Some(Qos::Burstable), ..pod("a", &[("api", &[1])]) };
    told.applied(Kubernetes, api.clone());
    assert_eq!(told.ask("a", Some(1)), "right/api");
    assert_eq!(told.ask("a", Some(2)), "right/cri", "of which the API has not heard yet");
    assert_eq!(told.ask("a", Some(7)), "right/POD");
    told.applied(Cri, pod("a", &[("wrong", &[1]), ("cri", &[2])]));
    assert_eq!(told.ask("a", Some(1)), "right/api");
    api.add_container(&"late".into(), None, &[id(2)]);
    told.applied(Kubernetes, api);
    assert_eq!(told.ask("a", Some(2)), "right/late");
    let pod = told.directory.look_up(Some("a"), None, told.now);
    assert_eq!(pod.pod().and_then(|pod| pod.qos), Some(Qos::Burstable));
}

#[test]
fn a_deleted_pod_is_known_for_the_grace_with_its_last_words() {
    let mut told = Told::new();
    told.applied(Kubernetes, pod("a", &[("web", &[1])]));
    told.say(Runtime, Change::Found(Arc::new(with_sandboxes(pod("a", &[]), &[7]))));
    told.deleted(Kubernetes, pod("a", &[("web", &[2])]));
    for seconds in [0, 30, 29] {
        told.wait(seconds);
        let asked = [Some(1), Some(2), Some(7), None].map(|number| told.ask("a", number));
        assert_eq!(asked, ["pod-a/web", "pod-a/web", "pod-a/POD", "pod-a/"]);
    }
    told.wait(1);
    assert_eq!(told.ask("a", Some(1)), "?");
    assert!(told.directory.pods.is_empty() && told.directory.containers.is_empty());
}

#[test]
fn a_container_that_was_restarted_away_is_known_for_the_grace() {
    let mut told = Told::new();
    told.applied(Kubernetes, pod("a", &[("web", &[2, 1])]));
    told.applied(Kubernetes, pod("a", &[("web", &[3, 2])]));
    told.wait(59);
    assert_eq!(told.ask("a", Some(1)), "pod-a/web");
    told.wait(1);
    assert_eq!(told.ask("a", Some(1)), "pod-a/", "only its pod");
    assert_eq!(told.ask("a", Some(2)), "pod-a/web");
}

#[test]
fn a_list_takes_away_what_it_lacks_and_nothing_that_others_said() {
    let mut told = Told::new();
    told.synced(Kubernetes, vec![pod("a", &[("web", &[1])]), pod("b", &[("web", &[2])])]);
    told.say(Runtime, Change::Found(Arc::new(pod("c", &[("new", &[3])]))));
    told.synced(Kubernetes, vec![pod("b", &[("web", &[2])])]);
    told.wait(60);
    let asked = [("a", 1), ("b", 2), ("c", 3)].map(|(uid, number)| told.ask(uid, Some(number)));
    assert_eq!(asked, ["?", "pod-b/web", "pod-c/new"]);
}

#[test]
fn a_pod_that_comes_back_in_time_was_never_gone() {
    let mut told = Told::new();
    told.synced(Kubernetes, vec![pod("a", &[("web", &[1])])]);
    told.synced(Kubernetes, vec![]);
    told.wait(30);
    told.applied(Kubernetes, pod("a", &[("web", &[1])]));
    told.wait(300);
    assert_eq!(told.ask("a", Some(1)), "pod-a/web");
}

#[test]
fn a_pod_that_only_a_lesser_source_still_lists_is_gone_when_the_api_says_so() {
    let mut told = Told::new();
    told.applied(Kubelet, pod("a", &[("web", &[1])]));
    told.applied(Kubernetes, pod("a", &[("web", &[1])]));
    told.deleted(Cri, pod("a", &[]));
    told.wait(60);
    assert_eq!(told.ask("a", Some(1)), "pod-a/web");
    told.deleted(Kubernetes, pod("a", &[("web", &[1])]));
    told.wait(60);
    assert_eq!(told.ask("a", Some(1)), "?");
}

#[test]
fn a_static_pod_is_known_by_the_hash_and_its_mirror_may_be_replaced() {
    let mirror = |uid: &str| Pod { static_hash: Some("hash".into()), ..pod(uid, &[("etcd", &[1])]) };
    let mut told = Told::new();
    told.applied(Kubernetes, mirror("m1"));
    assert_eq!(told.ask("hash", Some(1)), "pod-m1/etcd");
    assert_eq!(told.ask("hash", Some(2)), "pod-m1/");
    told.applied(Kubernetes, mirror("evil"));
    assert_eq!(told.ask("hash", Some(1)), "pod-m1/etcd", "what only pretends");
    told.deleted(Kubernetes, mirror("evil"));
    told.wait(60);
    assert_eq!(told.ask("hash", Some(1)), "pod-m1/etcd");
    told.deleted(Kubernetes, mirror("m1"));
    told.applied(Kubernetes, mirror("m2"));
    assert_eq!(told.ask("hash", Some(1)), "pod-m2/etcd");
    told.synced(Kubernetes, vec![mirror("m3"), mirror("evil")]);
    assert_eq!(told.ask("hash", Some(1)), "pod-m3/etcd", "replaced while no source was watching");
    told.applied(Kubelet, pod("hash", &[("etcd", &[1, 4])]));
    assert_eq!(told.ask("hash", Some(4)), "pod-m3/etcd", "the kubelet's UID is the hash");
}

#[test]
fn what_stays_unknown_in_a_pod_that_is_fully_known_is_its_sandbox() {
    let mut told = Told::new();
    told.applied(Kubernetes, pod("a", &[("web", &[])]));
    assert_eq!((told.ask("a", Some(7)), told.ask("a", Some(1))), ("pod-a/".into(), "pod-a/".into()));
    told.wait(20);
    assert_eq!(told.ask("a", Some(7)), "pod-a/", "the container has no id yet: it may be this one");
    told.wait(60);
    assert_eq!(told.ask("a", Some(7)), "pod-a/", "one of the two is the container");
    told.applied(Kubernetes, pod("a", &[("web", &[1])]));
    assert_eq!(told.ask("a", Some(7)), "pod-a/POD");
    assert_eq!(told.ask("a", Some(1)), "pod-a/web");
    assert_eq!(told.ask("a", Some(8)), "pod-a/", "the next one, after a restart");
    told.wait(20);
    assert_eq!((told.ask("a", Some(7)), told.ask("a", Some(8))), ("pod-a/POD".into(), "pod-a/".into()));
    told.applied(Kubernetes, pod("a", &[("web", &[8, 1]), ("odd", &[7])]));
    assert_eq!(told.ask("a", Some(7)), "pod-a/odd", "the source that knows it is right");
}

#[test]
fn nothing_is_guessed_too_soon_or_from_too_little() {
    let mut told = Told::new();
    told.applied(Kubernetes, pod("a", &[("web", &[1])]));
    assert_eq!(told.ask("a", Some(7)), "pod-a/");
    told.wait(9);
    assert_eq!(told.ask("a", Some(7)), "pod-a/", "it may be the container after a restart");
    told.applied(Cri, with_sandboxes(pod("a", &[]), &[5]));
    told.wait(60);
    assert_eq!(told.ask("a", Some(7)), "pod-a/", "the sandbox is known");
    told.say(Runtime, Change::Found(Arc::new(pod("b", &[("web", &[2])]))));
    assert_eq!(told.ask("b", Some(8)), "pod-b/");
    told.wait(60);
    assert_eq!(told.ask("b", Some(8)), "pod-b/", "the files do not say how many containers there are");
}

/// The sandbox is created first, and minutes may pass until an image is pulled.
#[test]
fn what_stays_alone_in_a_pod_that_is_starting_is_its_sandbox() {
    let mut told = Told::new();
    told.applied(Kubernetes, pod("a", &[("init", &[1]), ("web", &[])]));
    assert_eq!(told.ask("a", Some(7)), "pod-a/");
    told.wait(44);
    assert_eq!(told.ask("a", Some(7)), "pod-a/", "it may be the container");
    told.wait(1);
    assert_eq!(told.ask("a", Some(7)), "pod-a/POD");
    assert_eq!(told.ask("a", Some(2)), "pod-a/", "the container, at last");
    told.applied(Kubernetes, pod("a", &[("init", &[1]), ("web", &[2])]));
    assert_eq!((told.ask("a", Some(7)), told.ask("a", Some(2))), ("pod-a/POD".into(), "pod-a/web".into()));
}

#[test]
fn two_strangers_are_told_apart_when_one_has_died() {
    let mut told = Told::new();
    told.applied(Kubelet, pod("a", &[("web", &[1])]));
    told.ask("a", Some(7));
    told.ask("a", Some(8));
    for _ in 0..12 {
        told.wait(10);
        assert_eq!(told.ask("a", Some(7)).split('/').next(), Some("pod-a"));
    }
    assert_eq!(told.ask("a", Some(7)), "pod-a/POD");
}

#[test]
fn parts_add_up_and_the_oldest_of_many_are_dropped() {
    let mut told = Told::new();
    told.say(Runtime, Change::Found(Arc::new(with_sandboxes(pod("a", &[]), &[1000]))));
    for number in 0..100 {
        told.say(Runtime, Change::Found(Arc::new(pod("a", &[("web", &[number])]))));
        told.wait(30);
        assert_eq!(told.ask("a", Some(number)), "pod-a/web");
    }
    assert_eq!(told.ask("a", Some(1000)), "pod-a/POD");
    assert!(told.directory.containers.len() < 16, "{}", told.directory.containers.len());
}

#[test]
fn what_only_the_files_told_of_is_forgotten_when_nobody_asks() {
    let mut told = Told::new();
    told.say(Runtime, Change::Found(Arc::new(pod("a", &[("web", &[1])]))));
    told.say(Runtime, Change::Found(Arc::new(pod("b", &[("web", &[2])]))));
    told.directory.name(id(3), "plain".into(), told.now);
    for _ in 0..20 {
        told.wait(60);
        assert_eq!(told.ask("a", Some(1)), "pod-a/web");
    }
    assert_eq!((told.ask("b", Some(2)), told.ask("", Some(3))), ("?".into(), "?".into()));
}

#[test]
fn memory_is_bounded() {
    let mut told = Told::new();
    for number in 0..PODS_MAX as u64 + 10 {
        told.applied(Kubernetes, pod(&format!("p{number}"), &[("web", &[number])]));
    }
    assert_eq!(told.directory.pods.len(), PODS_MAX);
    told.synced(Kubernetes, vec![]);
    told.wait(60);
    told.applied(Kubernetes, pod("late", &[("web", &[1])]));
    assert_eq!(told.ask("late", Some(1)), "pod-late/web");
}

/// A source's report about one of four pods.
fn any_change() -> impl Strategy<Value = (SourceKind, Change)> {
    let source = proptest::sample::select(SourceKind::ALL.to_vec());
    let parts = ("[abcd]", proptest::collection::vec(("[xyz]", 0..24_u64), 0..4), any::<bool>());
    let any_pod = parts.prop_map(|(uid, containers, with_sandbox)| {
        let mut pod = pod(&uid, &[]);
        for (name, number) in containers {
            pod.add_container(&name.as_str().into(), None, &[id(number)]);
        }
        if with_sandbox { with_sandboxes(pod, &[99]) } else { pod }
    });
    let pods = proptest::collection::vec(any_pod.clone().prop_map(Arc::new), 0..4);
    let change = prop_oneof![
        4 => any_pod.clone().prop_map(|pod| Change::Applied(Arc::new(pod))),
        2 => any_pod.clone().prop_map(|pod| Change::Found(Arc::new(pod))),
        2 => any_pod.prop_map(|pod| Change::Deleted(Arc::new(pod))),
        1 => pods.prop_map(Change::Synced),
    ];
    (source, change)
}

proptest! {
    #[test]
    fn whatever_is_said_everything_goes_after_the_grace(
        changes in proptest::collection::vec(any_change(), 0..40),
    ) {
        let mut told = Told::new();
        for (source, change) in changes {
            told.say(source, change);
            told.wait(1);
            for (claimed, claim) in &told.directory.containers {
                let record = &told.directory.pods[&claim.key];
                prop_assert!(claim.gone.is_some() || record.merged().has_id(claimed));
            }
        }
        for source in SourceKind::ALL {
            told.synced(source, vec![]);
        }
        told.wait(60);
        prop_assert!(told.directory.pods.is_empty() && told.directory.containers.is_empty());
    }
}
