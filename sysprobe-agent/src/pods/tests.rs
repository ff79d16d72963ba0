//! The facade: what is read directly, what is asked for, and how often.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::config::RuntimeConfig;
use super::pod::Pod;
use super::*;
use crate::cgroup::name::name_of;

const A: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";
const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";

/// No source tasks, but a source that can be asked, and the files of containerd.
struct Fixture {
    pods: Pods,
    sender: mpsc::Sender<Update>,
    demand: Arc<Demand>,
    state: TempDir,
    start: Instant,
}

impl Fixture {
    fn new() -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let none = || Vec::new();
        let containerd = vec![state.path().to_owned()];
        let runtime = RuntimeConfig { containerd, crio: none(), docker: none(), podman: none() };
        let (sender, updates) = mpsc::channel(8);
        let demand = Arc::<Demand>::default();
        let pods = Pods {
            directory: Directory::new(Duration::from_secs(60)),
            runtime: Some(Runtime::new(runtime)),
            misses: Misses::default(),
            states: States::new(vec![SourceKind::Kubernetes, SourceKind::Kubelet, SourceKind::Runtime]),
            losses: Losses::default(),
            updates,
            demands: vec![Arc::clone(&demand)],
            vitality: Vitality::default(),
            first_answer_by: None,
            _tasks: JoinSet::new(),
        };
        Self { pods, sender, demand, state, start: Instant::now() }
    }

    fn bundle(&self) {
        let directory = self.state.path().join(Path::new("io.containerd.runtime.v2.task/k8s.io").join(A));
        fs::create_dir_all(&directory).expect("a directory");
        let annotations = r#""io.kubernetes.cri.container-name": "web",
                             "io.kubernetes.cri.sandbox-name": "web-0",
                             "io.kubernetes.cri.sandbox-namespace": "shop""#;
        fs::write(directory.join("config.json"), format!("{{\"annotations\": {{{annotations}}}}}"))
            .expect("a file");
    }

    fn resolve(&mut self, path: &str, seconds: u64) -> Answer {
        let now = self.start + Duration::from_secs(seconds);
        self.pods.update_at(now);
        self.pods.resolve_at(&name_of(path), now)
    }

    fn was_asked(&self) -> bool {
        futures::FutureExt::now_or_never(self.demand.asked()).is_some()
    }
}

fn container_path() -> String {
    format!("/kubepods/burstable/pod{UID}/{A}")
}

#[test]
fn files_are_read_on_the_spot_and_only_once() {
    let mut fixture = Fixture::new();
    fixture.bundle();
    let path = container_path();
    for seconds in [0, 1, 100] {
        let answer = fixture.resolve(&path, seconds);
        let pod = answer.pod().expect("a pod");
        assert_eq!((&*pod.namespace, &*pod.name, &*pod.uid), ("shop", "web-0", UID));
        assert_eq!(answer.container(), Some("web"));
        fs::remove_dir_all(fixture.state.path().join("io.containerd.runtime.v2.task")).unwrap_or_default();
    }
    assert!(!fixture.was_asked());
    let pod = fixture.resolve(&format!("/kubepods/burstable/pod{UID}"), 101);
    assert!(matches!(pod, Answer::Pod { .. }), "{pod:?}");
}

#[test]
fn what_no_file_knows_is_asked_for_rarer_and_rarer() {
    let mut fixture = Fixture::new();
    let path = container_path();
    let mut asked = Vec::new();
    for seconds in 0..40 {
        assert_eq!(fixture.resolve(&path, seconds), Answer::Unknown);
        assert_eq!(fixture.resolve(&path, seconds), Answer::Unknown);
        if fixture.was_asked() {
            asked.push(seconds);
        }
    }
    assert_eq!(asked, [0, 1, 3, 7, 15, 31]);
    fixture.bundle();
    assert_eq!(fixture.resolve(&path, 40), Answer::Unknown, "it is not its time");
    assert_eq!(fixture.resolve(&path, 63).container(), Some("web"));
}

#[test]
fn what_is_in_no_pod_is_not_asked_for() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.resolve(&format!("/docker/{A}"), 0), Answer::Unknown);
    assert_eq!(fixture.resolve("/system.slice/cron.service", 0), Answer::Unknown);
    assert_eq!(fixture.resolve("/lxc/101/init.scope", 0), Answer::Unknown);
    assert!(!fixture.was_asked());
}

#[test]
fn news_are_taken_in_before_the_answer() {
    let mut fixture = Fixture::new();
    let path = container_path();
    assert_eq!(fixture.resolve(&path, 0), Answer::Unknown);
    let changes = fixture.pods.changes();
    let mut pod = Pod { uid: UID.into(), namespace: "ns".into(), name: "p".into(), ..Pod::default() };
    pod.add_container(&"c".into(), None, &[ContainerId::parse(A).expect("an id")]);
    let change = Change::Synced(vec![Arc::new(pod)]);
    let update = Update { source: SourceKind::Kubernetes, at: fixture.start, change };
    fixture.sender.try_send(update).expect("room");
    assert_eq!(fixture.resolve(&path, 1).container(), Some("c"));
    assert!(fixture.pods.changes() > changes);
    assert!(fixture.pods.states().iter().all(|state| state.up));
    assert!(fixture.pods.watch_age().is_some());
}

#[tokio::test]
async fn sources_that_cannot_work_are_down_with_a_reason_and_nothing_else() {
    let plan = PodsPlan {
        cri: Some(plan::CriPlan { socket: "/nonexistent/cri.sock".into(), others: vec![] }),
        passed_over: [SourceKind::Kubernetes, SourceKind::Kubelet, SourceKind::Runtime]
            .map(|kind| (kind, String::new()))
            .into(),
        ..PodsPlan::default()
    };
    let mut pods = Pods::start(plan, &Handle::current());
    while pods.states()[0].reason == "no answer yet" {
        tokio::task::yield_now().await;
        pods.update();
    }
    let state = &pods.states()[0];
    assert!(!state.up && state.reason.contains("/nonexistent/cri.sock"), "{state:?}");
    assert_eq!(pods.resolve(&name_of(&container_path())), Answer::Unknown);
}
