//! Files as the runtimes write them, in temporary directories.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const A: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";
const B: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";

/// A directory that stands for `/`, and a reader of its files.
struct Host {
    root: TempDir,
    runtime: Runtime,
}

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let at = |path: &str| vec![root.path().join(path)];
        let plan = RuntimePlan {
            containerd: at("run/containerd"),
            crio: at("run/containers/storage"),
            docker: at("var/lib/docker"),
            podman: at("var/lib/containers/storage"),
        };
        Self { root, runtime: Runtime::new(plan) }
    }

    /// `{A}`, `{B}` and `{UID}` stand for the constants.
    fn file(&self, path: &str, text: &str) -> PathBuf {
        let expand = |text: &str| text.replace("{A}", A).replace("{B}", B).replace("{UID}", UID);
        let path = self.root.path().join(expand(path));
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, expand(text)).expect("a file");
        path
    }

    /// `namespace/pod/container of UID`, or the plain name.
    fn look_up(&self, id: &str, pod_uid: Option<&str>) -> Option<String> {
        let id = ContainerId::parse(id).expect("an id");
        Some(match self.runtime.look_up(id, pod_uid)? {
            Found::Plain(name) => name.to_string(),
            Found::InPod(pod) => {
                let container = match &pod.containers[..] {
                    [] => "sandbox",
                    [container] => &container.name,
                    _ => panic!("one container: {pod:?}"),
                };
                assert!(pod.has_id(&id));
                format!("{}/{}/{container} of {}", pod.namespace, pod.name, pod.uid)
            }
        })
    }
}

const BUNDLE: &str = "run/containerd/io.containerd.runtime.v2.task/k8s.io/{A}/config.json";

#[test]
fn containerd_containers_and_sandboxes_of_pods() {
    let host = Host::new();
    assert_eq!(host.look_up(A, Some(UID)), None);
    host.file(
        BUNDLE,
        r#"{"ociVersion": "1.1.0", "process": {"env": ["A=b"]}, "annotations": {
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "web", "io.kubernetes.cri.sandbox-id": "{B}",
            "io.kubernetes.cri.sandbox-name": "web-0", "io.kubernetes.cri.sandbox-namespace": "shop",
            "io.kubernetes.cri.sandbox-uid": "{UID}"}}"#,
    );
    let expected = format!("shop/web-0/web of {UID}");
    assert_eq!(host.look_up(A, Some(UID)), Some(expected.clone()));
    assert_eq!(host.look_up(A, None), Some(expected), "a path without the pod");
    assert_eq!(host.look_up(A, Some("other")), None, "the path is right");
    host.file(
        BUNDLE,
        r#"{"annotations": {"io.kubernetes.cri.container-type": "sandbox",
            "io.kubernetes.cri.sandbox-id": "{A}",
            "io.kubernetes.cri.sandbox-name": "web-0", "io.kubernetes.cri.sandbox-namespace": "shop"}}"#,
    );
    assert_eq!(host.look_up(A, Some(UID)), Some(format!("shop/web-0/sandbox of {UID}")), "without a UID");
    assert_eq!(host.look_up(A, None), None, "a pod without a UID");
}

#[test]
fn containerd_containers_that_are_in_no_pod() {
    let host = Host::new();
    let bundle = |namespace: &str| {
        format!("run/containerd/io.containerd.runtime.v2.task/{namespace}/{{A}}/config.json")
    };
    host.file(&bundle("moby"), r#"{"annotations": null, "hostname": "x"}"#);
    assert_eq!(host.look_up(A, None), None, "Docker has the name");
    fs::remove_file(host.file(&bundle("moby"), "")).expect("gone");
    host.file(
        &bundle("default"),
        r#"{"annotations": {"nerdctl/name": "web", "nerdctl/namespace": "default"}}"#,
    );
    assert_eq!(host.look_up(A, None).as_deref(), Some("web"));
}

#[test]
fn crio_containers_and_sandboxes() {
    let host = Host::new();
    let file = |kind: &str, container: &str| {
        host.file(
            "run/containers/storage/overlay-containers/{A}/userdata/config.json",
            &format!(
                r#"{{"annotations": {{"io.kubernetes.cri-o.ContainerType": "{kind}",
                     "io.kubernetes.pod.name": "web-0",
                     "io.kubernetes.container.name": "{container}", "io.kubernetes.pod.namespace": "shop",
                     "io.kubernetes.pod.uid": "{{UID}}", "io.kubernetes.cri-o.SandboxID": "{{B}}"}}}}"#
            ),
        );
    };
    file("container", "web");
    assert_eq!(host.look_up(A, Some(UID)), Some(format!("shop/web-0/web of {UID}")));
    assert_eq!(host.look_up(A, None), None, "Podman's, and annotated by its user");
    file("sandbox", "POD");
    assert_eq!(host.look_up(A, Some(UID)), Some(format!("shop/web-0/sandbox of {UID}")));
}

#[test]
fn docker_containers_with_and_without_pods() {
    let host = Host::new();
    host.file(
        "var/lib/docker/containers/{A}/config.v2.json",
        r#"{"ID": "{A}", "State": {"Running": true}, "Name": "/shop-web-1", "Config": {
            "Hostname": "x", "Labels": {
            "io.kubernetes.container.name": "web", "io.kubernetes.docker.type": "container",
            "io.kubernetes.pod.name": "web-0", "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.uid": "{UID}"}}}"#,
    );
    assert_eq!(host.look_up(A, Some(UID)), Some(format!("shop/web-0/web of {UID}")));
    assert_eq!(host.look_up(A, None).as_deref(), Some("shop-web-1"), "every user may set labels");
    host.file(
        "var/lib/docker/containers/{B}/config.v2.json",
        r#"{"Name": "/plain", "Config": {"Labels": null}}"#,
    );
    assert_eq!(host.look_up(B, None).as_deref(), Some("plain"));
    assert_eq!(host.look_up(B, Some(UID)), None);
}

#[test]
fn podman_containers() {
    let host = Host::new();
    host.file(
        "var/lib/containers/storage/overlay-containers/containers.json",
        r#"[{"id": "{B}", "names": ["other"]}, {"id": "{A}", "names": ["my-web2"],
            "image": "", "layer": "a50d", "metadata": "{\"image-name\":\"\",\"name\":\"my-web2\"}",
            "created": "2026-11-20T16:36:31.473100051Z"}]"#,
    );
    assert_eq!(host.look_up(A, None), None, "without a directory");
    host.file("var/lib/containers/storage/overlay-containers/{A}/userdata/config.json", "{}");
    assert_eq!(host.look_up(A, None).as_deref(), Some("my-web2"));
}

#[test]
fn what_is_no_plain_file_or_makes_no_sense_is_passed_over() {
    let host = Host::new();
    let bundle = r#"{"annotations": {"io.kubernetes.cri.container-name": "c",
                     "io.kubernetes.cri.sandbox-name": "p",
                     "io.kubernetes.cri.sandbox-namespace": "n", "io.kubernetes.cri.sandbox-uid": "u"}}"#;
    let path = host.file(BUNDLE, bundle);
    assert_eq!(host.look_up(A, None).as_deref(), Some("n/p/c of u"));
    fs::write(&path, &bundle[1..]).expect("a file");
    assert_eq!(host.look_up(A, None), None, "no JSON");
    let blanks = " ".repeat(usize::try_from(FILE_MAX).expect("a size"));
    fs::write(&path, blanks + bundle).expect("a file");
    assert_eq!(host.look_up(A, None), None, "too large");
    fs::remove_file(&path).expect("gone");
    std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
    assert_eq!(host.look_up(A, None), None, "a link");
    fs::remove_file(&path).expect("gone");
    fs::create_dir(&path).expect("a directory");
    assert_eq!(host.look_up(A, None), None, "a directory");
}

#[test]
fn names_are_bounded_and_printable() {
    let host = Host::new();
    let name = format!("/a\\u001b[2J{}", "x".repeat(9000));
    host.file("var/lib/docker/containers/{A}/config.v2.json", &format!(r#"{{"Name": "{name}"}}"#));
    let found = host.look_up(A, None).expect("a name");
    assert!(found.len() <= crate::cgroup::name::NAME_MAX && !found.contains('\u{1b}'), "{found}");
}
