//! Pods as a real API server and a real kubelet write them, and unusual ones.

use super::*;
use crate::heap_meter;
use crate::pods::pod::Container;
use crate::pods::source::Sieve;

const A: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";
const B: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Parses a pod on its own and in a list, and checks that the list loses nothing that is wanted.
fn trim(text: &str) -> Option<Pod> {
    let text = text.replace("{A}", A).replace("{B}", B);
    let whole = serde_json::from_str::<WirePod>(&text).expect("a pod").trim();
    let listed = list(&format!(r#"{{"items": [{text}]}}"#));
    assert_eq!(listed.pods.first().map(|pod| &**pod), whole.as_ref(), "what is wanted is kept");
    whole
}

fn list(text: &str) -> Listed {
    let mut listed = Listed::default();
    let mut sieve = Sieve::new(&LIST, 1 << 20);
    sieve.push(text.as_bytes(), &mut |element| listed.take(&element));
    let around = sieve.end();
    serde_json::from_slice::<WireList>(&around.text).expect("a list");
    listed
}

fn id(text: &str) -> ContainerId {
    ContainerId::parse(text).expect("an id")
}

#[test]
fn a_pod_of_a_deployment_with_every_kind_of_container() {
    let pod = trim(
        r#"{"metadata": {"uid": "u1", "namespace": "shop", "name": "web-5d4f8c7b9d-x2x4z",
              "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9d"}, "annotations": {"a": "b"},
              "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {}}}],
              "ownerReferences": [{"kind": "Thing", "name": "t"},
                                  {"kind": "ReplicaSet", "name": "web-5d4f8c7b9d", "controller": true}]},
            "spec": {"nodeName": "node1", "initContainers": [{"name": "setup"},
              {"name": "proxy", "restartPolicy": "Always"}],
              "containers": [{"name": "web", "image": "web:1"}], "ephemeralContainers": [{"name": "debug"}]},
            "status": {"phase": "Running", "qosClass": "Burstable",
              "initContainerStatuses": [{"name": "setup", "containerID": "containerd://{B}",
                "state": {"terminated": {"containerID": "containerd://{B}"}}, "lastState": {}}],
              "containerStatuses": [{"name": "web", "containerID": "containerd://{A}",
                "state": {"running": {}},
                "lastState": {"terminated": {"containerID": "containerd://{B}", "exitCode": 1}}}]}}"#,
    )
    .expect("a pod");
    let container = |name: &str, kind, ids: &[&str]| Container {
        name: name.into(),
        ids: ids.iter().map(|text| id(text)).collect(),
        kind: Some(kind),
    };
    let expected = Pod {
        uid: "u1".into(),
        static_hash: None,
        namespace: "shop".into(),
        name: "web-5d4f8c7b9d-x2x4z".into(),
        node: Some("node1".into()),
        qos: Some(Qos::Burstable),
        owner: Some(Owner {
            kind: "ReplicaSet".into(),
            name: "web-5d4f8c7b9d".into(),
            deployment: Some("web".into()),
        }),
        host_network: Some(false),
        labels: Some(labels([
            ("app".to_owned(), "web".to_owned()),
            ("pod-template-hash".to_owned(), "5d4f8c7b9d".to_owned()),
        ])),
        containers: vec![
            container("setup", ContainerKind::Init, &[B]),
            container("proxy", ContainerKind::Sidecar, &[]),
            container("web", ContainerKind::Ordinary, &[A, B]),
            container("debug", ContainerKind::Ephemeral, &[]),
        ],
        sandboxes: vec![],
    };
    assert_eq!(pod, expected);
    assert_eq!(&**pod.key(), "u1");
}

#[test]
fn a_container_that_waits_to_be_restarted_is_known_by_the_one_before() {
    let pod = trim(
        r#"{"metadata": {"uid": "u", "name": "p"}, "spec": {"containers": [{"name": "c"}]},
            "status": {"containerStatuses": [{"name": "c",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"containerID": "cri-o://{A}"}}}]}}"#,
    );
    assert_eq!(pod.expect("a pod").containers[0].ids, [id(A)]);
}

#[test]
fn a_mirror_is_known_by_the_hash_of_its_manifest() {
    let hash = "e7f9012b4c6d8e0f1a2b3c4d5e6f7081";
    let mirror = |hash: &str, mirror: &str| {
        let annotations = format!(r#""kubernetes.io/config.hash": "{hash}"{mirror}"#);
        let pod = format!(r#"{{"metadata": {{"uid": "u", "name": "p", "annotations": {{{annotations}}}}}}}"#);
        trim(&pod).expect("a pod").key().to_string()
    };
    let is_mirror = r#", "kubernetes.io/config.mirror": "x""#;
    assert_eq!(mirror(hash, is_mirror), hash);
    assert_eq!(mirror(hash, ""), "u", "no mirror");
    assert_eq!(mirror("2c48913c-b29f-11e7-9350-020968147796", is_mirror), "u", "another pod's UID");
}

#[test]
fn only_the_name_that_a_deployment_gives_tells_of_one() {
    let deployment = |kind: &str, name: &str, hash: &str| {
        let owner = format!(r#"[{{"kind": "{kind}", "name": "{name}", "controller": true}}]"#);
        let labels = format!(r#"{{"pod-template-hash": "{hash}"}}"#);
        let pod = format!(
            r#"{{"metadata": {{"uid": "u", "name": "p", "labels": {labels}, "ownerReferences": {owner}}}}}"#
        );
        trim(&pod).expect("a pod").owner.expect("an owner").deployment.map(|name| name.to_string())
    };
    assert_eq!(deployment("ReplicaSet", "web-abc", "abc").as_deref(), Some("web"));
    assert_eq!(deployment("ReplicaSet", "web", "abc"), None);
    assert_eq!(deployment("ReplicaSet", "webabc", "abc"), None);
    assert_eq!(deployment("DaemonSet", "web-abc", "abc"), None);
}

#[test]
fn what_go_writes_for_nothing_is_nothing() {
    for nothing in [r#"{"metadata": {}, "items": null}"#, r#"{"items": [ ]}"#, "{}"] {
        assert!(list(nothing).pods.is_empty() && list(nothing).unread.is_empty());
    }
    let pod = trim(
        r#"{"metadata": {"uid": "u", "name": "p", "labels": null, "annotations": null,
            "ownerReferences": null}, "spec": {"containers": null},
            "status": {"containerStatuses": null, "qosClass": null}}"#,
    );
    assert_eq!(pod.expect("a pod").containers, []);
    assert_eq!(trim(r#"{"metadata": {"name": "p"}}"#), None, "no UID");
    let odd = trim(r#"{"metadata": {"uid": "u", "name": "p"}, "status": {"qosClass": "Platinum"}}"#);
    assert_eq!(odd.expect("a pod").qos, None);
}

#[test]
fn text_is_bounded_and_printable() {
    let pod = trim(&format!(r#"{{"metadata": {{"uid": "u", "name": "p\u001b[2J{}"}}}}"#, "x".repeat(9000)));
    let pod = pod.expect("a pod");
    assert!(pod.name.len() <= crate::cgroup::name::NAME_MAX && !pod.name.contains('\u{1b}'));
}

#[test]
fn a_pod_that_cannot_be_read_costs_the_others_nothing() {
    let pod = |name: &str, uid: &str| {
        format!(r#"{{"metadata": {{"name": "{name}", "namespace": "ns", "uid": {uid}}}}}"#)
    };
    let listed = list(&format!(
        r#"{{"items": [{}, {}, 7, {}, {}]}}"#,
        pod("a", "\"u1\""),
        pod("b", "5"),
        pod("c", "\"u2\""),
        r#"{"metadata": {"name": "d", "uid": "u3"}, "spec": {"containers": "none"}}"#
    ));
    assert_eq!(listed.pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["a", "c"]);
    let unread: Vec<_> = listed.unread.iter().map(|unread| (unread.why, unread.what.as_str())).collect();
    let malformed = |what| (Why::Malformed, what);
    assert_eq!(unread, [malformed("ns/b"), malformed("?/?"), malformed("?/d")]);
}

#[test]
fn a_list_that_does_not_end_takes_bounded_memory() {
    let mut listed = Listed::default();
    let text =
        format!(r#"{{"metadata":{{"name":"p","uid":"u","labels":{{"a":"{}"}}}}}}"#, "x".repeat(1 << 20));
    let element = Sifted { text: text.into_bytes(), is_cut: false };
    let ((), taken) = heap_meter::peak_of(|| (0..10_000).for_each(|_| listed.take(&element)));
    assert_eq!(listed.pods.len(), TEXT_MAX / element.text.len());
    let passed_over: u64 = listed.unread.iter().map(|unread| unread.count).sum();
    assert_eq!(passed_over, 10_000 - listed.pods.len() as u64);
    assert!(taken < 4 << 20, "{taken} bytes at most");
}
