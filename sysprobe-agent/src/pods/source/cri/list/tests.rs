//! Lists and events of a runtime.

use prost::Message;

use super::super::messages::{ContainerStatus, ListContainersResponse};
use super::*;

const S: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";
const C: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const D: &str = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn sandbox(id: &str, uid: &str) -> PodSandbox {
    PodSandbox { id: id.into(), metadata: metadata(uid) }
}

fn metadata(uid: &str) -> Option<PodSandboxMetadata> {
    Some(PodSandboxMetadata { name: format!("pod-{uid}"), uid: uid.into(), namespace: "ns".into() })
}

fn container(id: &str, sandbox: &str, name: &str) -> Container {
    let metadata = Some(ContainerMetadata { name: name.into() });
    Container { id: id.into(), pod_sandbox_id: sandbox.into(), metadata }
}

fn id(text: &str) -> ContainerId {
    ContainerId::parse(text).expect("an id")
}

#[test]
fn containers_find_their_pods_through_their_sandboxes() {
    let sandboxes = vec![sandbox(S, "a"), sandbox(D, "a"), sandbox("short", "b"), PodSandbox::default()];
    let containers = vec![container(C, D, "web"), container(D, "nobody", "lost"), container("x", S, "no id")];
    let mut pods = of_lists(sandboxes, containers);
    pods.sort_by_key(|pod| pod.uid.clone());
    assert_eq!(pods.len(), 2);
    assert_eq!((&*pods[0].namespace, &*pods[0].name), ("ns", "pod-a"));
    assert_eq!(pods[0].sandboxes, [id(S), id(D)]);
    assert_eq!(pods[0].containers.len(), 1);
    assert_eq!((&*pods[0].containers[0].name, &pods[0].containers[0].ids[..]), ("web", &[id(C)][..]));
    assert_eq!((pods[1].sandboxes.len(), pods[1].containers.len()), (0, 0));
}

#[test]
fn an_event_brings_the_whole_pod_or_nothing() {
    let status = PodSandboxStatus { id: S.into(), metadata: metadata("a") };
    let web = ContainerStatus { id: C.into(), metadata: Some(ContainerMetadata { name: "web".into() }) };
    let event = ContainerEventResponse { pod_sandbox_status: Some(status), containers_statuses: vec![web] };
    let pod = of_event(event).expect("a pod");
    assert!(pod.has_id(&id(S)) && pod.has_id(&id(C)));
    assert_eq!(of_event(ContainerEventResponse::default()), None);
}

/// `ListContainersResponse` with one container, as protobuf writes it: field 1, in it the fields 1 to 10 of which three
/// are read.
#[test]
fn fields_that_are_not_needed_are_skipped() {
    let text = |number: u8, text: &str| [&[number << 3 | 2, text.len() as u8][..], text.as_bytes()].concat();
    let fields = [
        text(1, C),
        text(2, S),
        text(3, "\u{a}\u{3}web\u{10}\u{2}"),
        text(4, "\u{a}\u{1}i"),
        text(5, "sha256:0"),
        vec![6 << 3, 1],
        vec![7 << 3, 0x80, 1],
        text(8, "\u{a}\u{1}k\u{12}\u{1}v"),
        text(10, "sha256:1"),
    ]
    .concat();
    let mut bytes = vec![1 << 3 | 2, 0x80 | (fields.len() & 0x7f) as u8, (fields.len() >> 7) as u8];
    bytes.extend(&fields);
    let list = ListContainersResponse::decode(&bytes[..]).expect("a list");
    assert_eq!(list.containers, [container(C, S, "web")]);
}
