//! Lists of a runtime.

use super::super::items::Reading;
use super::super::messages::{Item, PodSandboxMetadata};
use super::*;

const S: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";
const C: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const D: &str = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn sandbox(id: &str, uid: &str) -> PodSandbox {
    PodSandbox { id: id.into(), metadata: Some(metadata(uid)), ..PodSandbox::default() }
}

fn metadata(uid: &str) -> PodSandboxMetadata {
    PodSandboxMetadata { name: format!("pod-{uid}"), uid: uid.into(), namespace: "ns".into() }
}

fn container(id: &str, sandbox: &str, name: &str) -> Container {
    let metadata = Some(ContainerMetadata { name: name.into() });
    Container { id: id.into(), pod_sandbox_id: sandbox.into(), metadata }
}

fn id(text: &str) -> ContainerId {
    ContainerId::parse(text).expect("an id")
}

/// The items of an answer without gRPC's prefix.
fn read<T: Item>(answer: &[u8]) -> Vec<T> {
    let mut reading = Reading::new();
    let length = u32::try_from(answer.len()).expect("small").to_be_bytes();
    for part in [&[0], &length[..], answer] {
        reading.take(part).expect("a list");
    }
    reading.end().expect("a list").items
}

#[test]
fn containers_find_their_pods_through_their_sandboxes() {
    let sandboxes = vec![sandbox(S, "a"), sandbox(D, "a"), sandbox("short", "b"), PodSandbox::default()];
    let containers = vec![container(C, D, "web"), container(D, "none", "lost"), container("x", S, "no id")];
    let mut pods = of_lists(sandboxes, containers);
    pods.sort_by_key(|pod| pod.uid.clone());
    assert_eq!(pods.len(), 2);
    assert_eq!((&*pods[0].namespace, &*pods[0].name), ("ns", "pod-a"));
    assert_eq!(pods[0].sandboxes, [id(S), id(D)]);
    assert_eq!(pods[0].containers.len(), 1);
    assert_eq!((&*pods[0].containers[0].name, &pods[0].containers[0].ids[..]), ("web", &[id(C)][..]));
    assert_eq!((pods[1].sandboxes.len(), pods[1].containers.len()), (0, 0));
}

/// What containerd 1.6.20 answered on a node of kubelet 1.36: a static pod, a pod of two containers, and the
/// sandbox of one that had just been deleted.
#[test]
fn the_lists_of_a_real_runtime_are_understood() {
    let sandboxes = read::<PodSandbox>(include_bytes!("tests/sandboxes.bin"));
    let containers = read::<Container>(include_bytes!("tests/containers.bin"));
    let has_names = |sandbox: &PodSandbox| sandbox.labels.contains_key("io.kubernetes.pod.name");
    assert!(sandboxes.iter().all(has_names), "the labels are where they are expected");
    let mut pods = of_lists(sandboxes, containers);
    assert!(
        pods.iter().all(|pod| pod.labels.as_ref().is_some_and(|labels| labels.is_empty())),
        "the kubelet's are not the pods'"
    );
    pods.sort_by_key(|pod| pod.name.clone());
    let found = pods.iter().map(|pod| {
        let mut names: Vec<_> = pod.containers.iter().map(|container| &*container.name).collect();
        names.sort_unstable();
        format!("{} {}/{} {} {}", pod.uid, pod.namespace, pod.name, pod.sandboxes.len(), names.join(","))
    });
    let expected = [
        "52a555a1-e6fc-4c24-8158-7c43481f8ef0 default/be3 1 ",
        "4ce460df-70a2-449a-8029-1af099760144 default/burst 1 c1,c2",
        "bb39aa6cf6c9e17cdab712aa89a86f89 default/static-node1 1 st1",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let c2 = id("cfaeb3decc86b85d60829ce1795180c521d804c2ecae266171829eb201760851");
    assert!(pods[1].containers.iter().any(|container| &*container.name == "c2" && container.ids == [c2]));
}
