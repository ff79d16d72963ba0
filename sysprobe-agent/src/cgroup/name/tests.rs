//! Cgroup paths of every runtime and driver, and malformed ones.

use proptest::prelude::*;

use super::*;
use WorkloadKind::{Path, Unit};

const A: &str = "5a9f3c0de1b24788a6c3d5e7f9012b4c6d8e0f1a2b3c4d5e6f708192a3b4c5d6";
const B: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";
/// `UID` as systemd's slices write it.
const UID_: &str = "2c48913c_b29f_11e7_9350_020968147796";
/// A static pod's UID, which is a hash.
const HASH: &str = "e7f9012b4c6d8e0f1a2b3c4d5e6f7081";

/// What the names in braces stand for in a path.
const NAMES: &[(&str, &str)] = &[
    ("{BURSTABLE}", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"),
    ("{BEST_EFFORT}", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod"),
    ("{KUBELET}", "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod"),
    ("{USER}", "/user.slice/user-1000.slice/user@1000.service"),
    ("{NSPAWN}", "/machine.slice/systemd-nspawn@web.service/payload"),
    ("{UPPER}", "5A9F3C0DE1B24788A6C3D5E7F9012B4C6D8E0F1A2B3C4D5E6F708192A3B4C5D6"),
    ("{A}", A),
    ("{B}", B),
    ("{UID_}", UID_),
    ("{UID}", UID),
    ("{HASH}", HASH),
];

fn expand(path: &str) -> String {
    NAMES.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value))
}

/// The container `A`.
fn container(pod_uid: &str, is_top: bool) -> Name {
    Name {
        name: A.to_owned(),
        kind: WorkloadKind::Container,
        container_id: Some(A.to_owned()),
        pod_uid: Some(pod_uid.to_owned()).filter(|uid| !uid.is_empty()),
        is_top,
    }
}

const TOP: bool = true;
const PART: bool = false;

/// Path, UID of the pod, whether it is the container's own cgroup.
const CONTAINERS: &[(&str, &str, bool)] = &[
    // The kubelet with the systemd driver.
    ("{BURSTABLE}{UID_}.slice/cri-containerd-{A}.scope", UID, TOP),
    ("{BEST_EFFORT}{UID_}.slice/crio-{A}.scope", UID, TOP),
    ("/kubepods.slice/kubepods-pod{UID_}.slice/docker-{A}.scope", UID, TOP),
    ("{BURSTABLE}{HASH}.slice/cri-containerd-{A}.scope", HASH, TOP),
    ("{BURSTABLE}{UID}.slice/docker-{A}.scope", UID, TOP),
    ("{KUBELET}{UID_}.slice/cri-containerd-{A}.scope", UID, TOP),
    // A runtime that takes systemd's syntax for the name of a directory.
    ("/system.slice/containerd.service/kubepods-besteffort-pod{UID_}.slice:cri-containerd:{A}", UID, TOP),
    ("/kubepods-burstable-pod{HASH}.slice:cri-containerd:{A}/sub", HASH, PART),
    // The kubelet with the cgroupfs driver.
    ("/kubepods/burstable/pod{UID}/{A}", UID, TOP),
    ("/kubepods/pod{HASH}/{A}", HASH, TOP),
    ("/kubepods/besteffort/pod{UID}/crio-{A}", UID, TOP),
    ("/kind/node/kubelet/kubepods/besteffort/pod{UID}/{A}", UID, TOP),
    ("/../../kubepods/besteffort/pod{UID}/{A}", UID, TOP),
    ("/kubepods/burstable/pod{UID}/kata_{A}", UID, TOP),
    ("/kata_overhead/{A}", "", TOP),
    // CRI-O and crun put the processes one level deeper.
    ("/kubepods/besteffort/pod{UID}/crio-{A}/container", UID, PART),
    ("/kubepods.slice/kubepods-pod{UID_}.slice/crio-{A}.scope/container", UID, PART),
    // Without Kubernetes.
    ("/docker/{A}", "", TOP),
    ("/system.slice/docker-{A}.scope", "", TOP),
    ("/default/{A}", "", TOP),
    ("/{A}", "", TOP),
    ("/libpod_parent/libpod-{A}", "", TOP),
    ("/libpod_parent/{B}/libpod-{A}", "", TOP),
    ("/machine.slice/libpod-{A}.scope", "", TOP),
    ("/machine.slice/libpod-{A}.scope/container", "", PART),
    ("/machine.slice/machine-libpod_pod_{B}.slice/libpod-{A}.scope/container", "", PART),
    ("/system.slice/web.service/libpod-payload-{A}", "", TOP),
    ("{USER}/user.slice/libpod-{A}.scope/container", "", PART),
    ("{USER}/user.slice/docker-{A}.scope", "", TOP),
    // Cgroups created inside a container belong to it: an init system, further containers, a whole node.
    ("/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{A}.scope/init.scope", UID, PART),
    ("/docker/{A}/system.slice/foo.service", "", PART),
    ("/docker/{A}/docker/{B}", "", PART),
    ("/kubepods/pod{UID}/{A}/system.slice/docker-{B}.scope", UID, PART),
    ("/docker/{A}/kubelet/kubepods/burstable/pod{UID}/{B}", "", PART),
    ("/docker/{A}/lxc.payload.guest", "", PART),
];

#[test]
fn containers_of_every_runtime_and_driver() {
    for &(path, pod_uid, is_top) in CONTAINERS {
        assert_eq!(name_of(&expand(path)), container(pod_uid, is_top), "{path}");
    }
}

/// The kubelet's own levels, above the runtime's. They are the same for every runtime, and for containers and
/// sandboxes alike.
fn pods_of_every_class_and_driver() -> Vec<(String, &'static str)> {
    let mut pods = Vec::new();
    for (uid, uid_) in [(UID, UID_), (HASH, HASH)] {
        for class in ["", "burstable", "besteffort"] {
            let below = if class.is_empty() { String::new() } else { format!("{class}/") };
            pods.push((format!("/kubepods/{below}pod{uid}"), uid));
            pods.push((format!("/some/root/kubepods/{below}pod{uid}"), uid));
            let (slice, dash) = match class {
                "" => (String::new(), String::new()),
                class => (format!("kubepods-{class}.slice/"), format!("{class}-")),
            };
            pods.push((format!("/kubepods.slice/{slice}kubepods-{dash}pod{uid_}.slice"), uid));
            let root = "/some.slice/some-root.slice/some-root-kubepods.slice";
            let slice = slice.replace("kubepods", "some-root-kubepods");
            pods.push((format!("{root}/{slice}some-root-kubepods-{dash}pod{uid_}.slice"), uid));
        }
    }
    pods
}

#[test]
fn every_class_driver_and_runtime_with_and_without_cgroups_inside() {
    let scopes =
        ["cri-containerd", "crio", "docker", "libpod"].map(|runtime| format!("{runtime}-{{A}}.scope"));
    let containers = scopes.into_iter().chain(["{A}", "crio-{A}"].map(str::to_owned)).collect::<Vec<_>>();
    let long = format!("/{}", "n".repeat(250));
    let inside = ["", "/container", "/init.scope", "/system.slice/cron.service", "/..", "/a/b/c/d", &long];
    for (pod, uid) in pods_of_every_class_and_driver() {
        assert_eq!(name_of(&pod).pod_uid.as_deref(), Some(uid), "{pod}");
        for (id, below) in containers.iter().flat_map(|id| inside.map(|below| (id, below))) {
            let path = expand(&format!("{pod}/{id}{below}"));
            assert_eq!(name_of(&path), container(uid, below.is_empty()), "{path}");
        }
    }
}

#[test]
fn a_name_of_250_characters_hides_no_container_and_makes_none() {
    let long = "n".repeat(250);
    for path in
        ["/{long}/kubepods/pod{UID}/{A}", "/docker/{long}/{A}", "/{long}.slice/docker-{A}.scope/{long}"]
    {
        let found = name_of(&expand(&path.replace("{long}", &long)));
        assert_eq!(found.container_id.as_deref(), Some(A), "{path}");
    }
    let nearly = [
        format!("/docker/{}", "a".repeat(250)),
        format!("/docker/{A}{}", "a".repeat(186)),
        format!("/pod{long}"),
    ];
    for path in nearly {
        let found = name_of(&path);
        assert_eq!((found.container_id, found.pod_uid, found.name), (None, None, path.clone()), "{path}");
    }
}

#[test]
fn lxc_containers_have_names_and_hide_the_units_inside() {
    let table = [
        ("/lxc.payload.samba19/system.slice/smbd.service", "lxc/samba19", PART),
        ("/lxc.payload.samba19", "lxc/samba19", TOP),
        ("/lxc.payload/web", "lxc/web", TOP),
        ("/lxc/101/ns/init.scope", "lxc/101", PART),
        ("/lxc/101/docker/{A}", "lxc/101", PART),
        ("/lxc/kernel", "lxc/kernel", TOP),
    ];
    for (path, name, is_top) in table {
        let found = name_of(&expand(path));
        assert_eq!(
            (found.name.as_str(), found.kind, found.is_top),
            (name, WorkloadKind::Container, is_top),
            "{path}"
        );
        assert_eq!(found.container_id, None, "{path}");
    }
}

/// Path, name, kind, whether it is the top cgroup of that name.
const UNITS_AND_PATHS: &[(&str, &str, WorkloadKind, bool)] = &[
    ("/", "/", Path, TOP),
    ("", "/", Path, TOP),
    ("/init.scope", "init.scope", Unit, TOP),
    ("/system.slice", "system.slice", Unit, TOP),
    ("/system.slice/nginx.service", "nginx.service", Unit, TOP),
    ("/system.slice/systemd-udevd.service/udev", "systemd-udevd.service", Unit, PART),
    ("/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", Unit, TOP),
    (r"/system.slice/system-serial\x2dgetty.slice", r"system-serial\x2dgetty.slice", Unit, TOP),
    ("/system.slice/docker.socket", "docker.socket", Unit, TOP),
    (
        "/system.slice/var-lib-docker-overlay2-{A}-merged.mount",
        "var-lib-docker-overlay2-{A}-merged.mount",
        Unit,
        TOP,
    ),
    ("/system.slice/docker.service/docker/buildkit/x1y2", "docker.service", Unit, PART),
    ("/system.slice/web.service/supervisor", "web.service", Unit, PART),
    // Users.
    ("/user.slice/user-0.slice/session-3.scope", "session-3.scope", Unit, TOP),
    ("/user.slice/user-1000.slice", "user-1000.slice", Unit, TOP),
    ("{USER}", "user@1000.service", Unit, TOP),
    ("{USER}/init.scope", "user@1000.service/init.scope", Unit, TOP),
    ("{USER}/app.slice", "user@1000.service/app.slice", Unit, TOP),
    ("{USER}/app.slice/dbus.service/x", "user@1000.service/dbus.service", Unit, PART),
    // Machines.
    (
        r"/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt/vcpu0",
        r"machine-qemu\x2d1\x2dvm.scope",
        Unit,
        PART,
    ),
    ("{NSPAWN}/system.slice/nginx.service", "systemd-nspawn@web.service", Unit, PART),
    ("{NSPAWN}/system.slice", "systemd-nspawn@web.service", Unit, PART),
    ("/machine.slice", "machine.slice", Unit, TOP),
    // A container's monitor process is not in the container.
    ("/machine.slice/libpod-conmon-{A}.scope", "libpod-conmon-{A}.scope", Unit, TOP),
    ("/kubepods.slice/kubepods-pod{UID_}.slice/crio-conmon-{A}.scope", "crio-conmon-{A}.scope", Unit, PART),
    ("/kubepods/pod{UID}/crio-conmon-{A}", "/kubepods/pod{UID}/crio-conmon-{A}", Path, PART),
    ("/kubepods/pod{UID}/x/pod{UID}", "/kubepods/pod{UID}/x/pod{UID}", Path, PART),
    // The kubelet's levels and Podman's pods are not containers.
    ("/kubepods", "/kubepods", Path, TOP),
    ("/kubepods/burstable/pod{UID}", "/kubepods/burstable/pod{UID}", Path, TOP),
    ("/kubepods.slice/kubepods-pod{UID_}.slice", "kubepods-pod{UID_}.slice", Unit, TOP),
    ("/libpod_parent/{B}", "/libpod_parent/{B}", Path, TOP),
    ("/libpod_parent/conmon", "/libpod_parent/conmon", Path, TOP),
    ("/lxc.monitor.web", "/lxc.monitor.web", Path, TOP),
    ("/lxc", "/lxc", Path, TOP),
    ("/lxc.payload.", "/lxc.payload.", Path, TOP),
    // Names that nearly match.
    ("/system.slice/loose", "/system.slice/loose", Path, TOP),
    ("/my/.service", "/my/.service", Path, TOP),
    ("/docker/{A}0", "/docker/{A}0", Path, TOP),
    ("/docker/{UPPER}", "/docker/{UPPER}", Path, TOP),
    (
        "/process_api/f5d8624fcec2f6aaaaef8ff983dad329",
        "/process_api/f5d8624fcec2f6aaaaef8ff983dad329",
        Path,
        TOP,
    ),
];

#[test]
fn units_and_paths() {
    for &(path, name, kind, is_top) in UNITS_AND_PATHS {
        let found = name_of(&expand(path));
        assert_eq!((found.name, found.kind, found.is_top), (expand(name), kind, is_top), "{path}");
        assert_eq!(found.container_id, None, "{path}");
    }
}

#[test]
fn a_pods_uid_is_found_without_a_container_and_only_in_its_place() {
    let table = [
        ("/kubepods/burstable/pod{UID}", Some(UID)),
        ("/kubepods.slice/kubepods-pod{UID_}.slice/crio-conmon-{A}.scope", Some(UID)),
        ("{BURSTABLE}{HASH}.slice", Some(HASH)),
        ("/kubepods/podcast", None),
        ("/kubepods/pod", None),
        ("/kubepods/pod{UID}0", None),
        ("/machine.slice/machine-libpod_pod_{B}.slice", None),
        ("/user.slice/evil-pod{UID_}.slice", None),
        ("/docker/{A}/kubepods/pod{UID}/{B}", None),
    ];
    for (path, uid) in table {
        assert_eq!(name_of(&expand(path)).pod_uid.as_deref(), uid, "{path}");
    }
}

#[test]
fn names_of_250_characters_are_kept_and_longer_paths_cut_between_characters() {
    let unit = format!("{}.service", "u".repeat(242));
    assert_eq!(name_of(&format!("/system.slice/{unit}")).name, unit);
    let user_unit = name_of(&format!("/user.slice/user-1.slice/user@1.service/app.slice/{unit}"));
    assert_eq!(user_unit.name, format!("user@1.service/{unit}"));
    let cut = name_of(&format!("/{}", "ä".repeat(600))).name;
    assert_eq!(cut, format!("/{}", "ä".repeat(255)));
}

#[test]
fn what_could_steer_a_terminal_or_a_log_is_replaced() {
    let name = name_of("/a\u{1b}[2J\nb\u{7f}c\u{202e}d\u{85}").name;
    assert_eq!(name, "/a\u{fffd}[2J\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}");
    assert_eq!(name_of("/lxc.payload.a\tb").name, "lxc/a\u{fffd}b");
    assert_eq!(name_of("/system.slice/a\tb.service").name, "a\u{fffd}b.service");
}

/// Parts of real paths, mixed with malformed ones.
fn any_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        proptest::sample::select(vec![
            "kubepods",
            "libpod_parent",
            "lxc",
            "machine.slice",
            "user@1.service",
            "a.slice",
            "lxc.payload.x",
            "..",
            "",
        ])
        .prop_map(ToOwned::to_owned),
        "[a-z]{0,6}-?[0-9a-f]{64}(\\.scope)?",
        "(kubepods-)?pod[0-9a-f]{32}(\\.slice)?",
        "(kubepods-burstable-)?pod[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}(\\.slice)?",
        "\\PC{0,40}",
        any::<String>(),
    ];
    proptest::collection::vec(part, 0..24).prop_map(|parts| format!("/{}", parts.join("/")))
}

#[test]
fn what_turns_or_hides_its_surroundings_is_replaced_and_letters_are_not() {
    for hidden in
        ['\u{61c}', '\u{202e}', '\u{ad}', '\u{feff}', '\u{e0041}', '\u{fe0f}', '\u{1b}', '\u{9b}', '\u{3164}']
    {
        assert_eq!(printable(&format!("a{hidden}b")), "a\u{fffd}b", "U+{:04X}", u32::from(hidden));
    }
    for name in ["pod-1.scope", "a$(b)", "\u{e9}\u{df}\u{4e2d}\u{5d0}\u{1f600}"] {
        assert_eq!(printable(name), name);
    }
}

proptest! {
    /// The categories come from another table than ours.
    #[test]
    fn no_control_and_no_format_character_is_printed(name in "[\\p{Cf}\\p{Cc}\\p{Zl}\\p{Zp}]{1,16}") {
        prop_assert!(printable(&name).chars().all(|shown| shown == char::REPLACEMENT_CHARACTER));
    }

    #[test]
    fn any_path_has_a_name_that_is_bounded_and_printable(path in any_path()) {
        let found = name_of(&path);
        prop_assert!(!found.name.is_empty() && found.name.len() <= NAME_MAX);
        prop_assert!(!found.name.chars().any(is_unprintable));
        prop_assert!(found.container_id.is_none_or(|id| id.len() == ID_LENGTH && path.contains(&id)));
        prop_assert_eq!(printable(&found.name), found.name);
    }

    #[test]
    fn any_text_at_all_has_one_too(
        text in any::<String>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        for path in [text, String::from_utf8_lossy(&bytes).into_owned()] {
            let found = name_of(&path);
            prop_assert!(!found.name.is_empty() && found.name.len() <= NAME_MAX);
            prop_assert!(!found.name.chars().any(is_unprintable));
        }
    }

    #[test]
    fn ids_are_digits_and_nothing_else(path in any_path()) {
        let found = name_of(&path);
        let is_hex = |text: &str| text.bytes().all(is_lower_hex);
        prop_assert!(found.container_id.is_none_or(|id| id.len() == ID_LENGTH && is_hex(&id)));
        if let Some(uid) = found.pod_uid {
            let lengths: Vec<_> = uid.split('-').map(str::len).collect();
            prop_assert!(lengths == [32] || lengths == [8, 4, 4, 4, 12], "{}", uid);
            prop_assert!(uid.split('-').all(is_hex), "{}", uid);
        }
    }

    #[test]
    fn a_part_of_a_container_has_the_containers_name(below in any_path()) {
        let top = expand("/kubepods/pod{UID}/{A}");
        let part = name_of(&format!("{top}/x{below}"));
        prop_assert_eq!(part, Name { is_top: false, ..name_of(&top) });
    }
}
