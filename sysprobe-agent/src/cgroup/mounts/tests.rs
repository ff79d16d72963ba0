//! Mount tables of many kinds of hosts.

use super::*;

fn mount(point: &str, root: &str) -> Mount {
    Mount { point: point.into(), root: root.to_owned() }
}

fn v2(root: &str) -> KeyHierarchy {
    KeyHierarchy::V2 { root: root.into() }
}

fn v1(root: &str, cpuacct: &str) -> KeyHierarchy {
    let memory = Path::new(root).with_file_name("memory");
    KeyHierarchy::V1 { root: root.into(), cpuacct: Some(cpuacct.into()), memory: Some(memory) }
}

/// systemd on Debian 12.
const UNIFIED: &str = "\
22 28 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
23 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:14 - proc proc rw
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard,errors=remount-ro
33 22 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 \
rw,nsdelegate,memory_recursiveprot
34 22 0:29 / /sys/fs/pstore rw,nosuid,nodev,noexec,relatime shared:10 - pstore pstore rw
36 22 0:31 / /sys/fs/bpf rw,nosuid,nodev,noexec,relatime shared:11 - bpf bpf rw,mode=700
";

/// systemd with the hybrid hierarchy and `SELinux` labels.
const HYBRID: &str = "\
30 24 0:27 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:4 - tmpfs tmpfs ro,seclabel,mode=755,inode64
31 30 0:28 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:5 - cgroup2 cgroup2 \
rw,seclabel,nsdelegate
32 30 0:29 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:6 - cgroup cgroup \
rw,seclabel,xattr,name=systemd
35 30 0:32 / /sys/fs/cgroup/cpuset rw,nosuid,nodev,noexec,relatime shared:7 - cgroup cgroup \
rw,seclabel,cpuset,clone_children
36 30 0:33 / /sys/fs/cgroup/net_cls,net_prio rw,nosuid,nodev,noexec,relatime shared:8 - cgroup cgroup \
rw,seclabel,net_cls,net_prio
37 30 0:34 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:9 - cgroup cgroup \
rw,seclabel,cpu,cpuacct
38 30 0:35 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:10 - cgroup cgroup \
rw,seclabel,memory
";

/// A Docker host without v2.
const LEGACY: &str = "\
29 23 0:25 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:8 - tmpfs tmpfs ro,mode=755
30 29 0:26 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:9 - cgroup cgroup \
rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd
32 29 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:11 - cgroup cgroup \
rw,cpu,cpuacct
33 29 0:29 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:12 - cgroup cgroup rw,memory
480 28 0:28 /docker/3f4ac1f0 /var/lib/docker/tmp/cpu rw,relatime shared:200 - cgroup cgroup rw,cpu,cpuacct
481 28 0:47 / /var/lib/docker/overlay2/0c1d/merged rw,relatime shared:201 - overlay overlay \
rw,lowerdir=/var/lib/docker/overlay2/l/AB
";

/// A virtual machine that mounts every controller separately.
const SEPARATE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resv_strict,resuid=65534,resgid=65534
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

/// A container with a cgroup namespace, which sees only its own cgroup.
const NAMESPACED: &str = "\
1190 1187 0:30 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
1196 1190 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup \
rw,nsdelegate,memory_recursiveprot
";

/// A pod with a cgroup namespace and the host's hierarchy mounted in.
const HOST_MOUNTED: &str = "\
2288 2210 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate
2295 2208 0:28 /../../../.. /host/sys/fs/cgroup ro,relatime - cgroup2 cgroup2 rw,nsdelegate
2296 2208 0:28 /../../../../system.slice /host/units ro,relatime - cgroup2 cgroup2 rw,nsdelegate
";

/// The same on a v1 host: the host's whole `/sys`, in a container without a cgroup namespace.
const HOST_MOUNTED_V1: &str = "\
900 880 0:60 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,mode=755
901 900 0:28 /kubepods/burstable/podaaaa/bbbb /sys/fs/cgroup/cpu,cpuacct ro,nosuid,relatime master:11 - \
cgroup cgroup rw,cpu,cpuacct
902 900 0:29 /kubepods/burstable/podaaaa/bbbb /sys/fs/cgroup/memory ro,nosuid,relatime master:12 - cgroup \
cgroup rw,memory
910 881 0:25 / /host/sys/fs/cgroup ro,nosuid,nodev,noexec master:8 - tmpfs tmpfs ro,mode=755
911 910 0:28 / /host/sys/fs/cgroup/cpu,cpuacct rw,nosuid,relatime master:11 - cgroup cgroup rw,cpu,cpuacct
912 910 0:29 / /host/sys/fs/cgroup/memory rw,nosuid,relatime master:12 - cgroup cgroup rw,memory
";

/// `unshare --cgroup` without a new mount: the same mounts, now seen from below.
const UNSHARED: &str = "33 22 0:28 /../../.. /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

/// A v1 controller beside v2 that has nothing to do with the CPU.
const UNIFIED_WITH_NET_CLS: &str = "\
33 22 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
911 33 0:47 / /sys/fs/cgroup/net_cls rw,relatime shared:476 - cgroup net_cls rw,net_cls
";

#[test]
fn the_hierarchy_that_tells_tasks_apart_is_found_on_every_host() {
    let both = "/sys/fs/cgroup/cpu,cpuacct";
    let host = "/host/sys/fs/cgroup/cpu,cpuacct";
    let table = [
        ("unified", UNIFIED, v2("/sys/fs/cgroup"), "/"),
        ("hybrid", HYBRID, v1(both, both), "/"),
        ("legacy", LEGACY, v1(both, both), "/"),
        ("separate", SEPARATE, v1("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"), "/"),
        ("namespaced", NAMESPACED, v2("/sys/fs/cgroup"), "/"),
        ("host mounted", HOST_MOUNTED, v2("/host/sys/fs/cgroup"), "/../../../.."),
        ("host mounted, v1", HOST_MOUNTED_V1, v1(host, host), "/"),
        ("unshared", UNSHARED, v2("/sys/fs/cgroup"), "/../../.."),
        ("unified with net_cls", UNIFIED_WITH_NET_CLS, v2("/sys/fs/cgroup"), "/"),
    ];
    for (host, mountinfo, key, root) in table {
        let mounts = Mounts::parse(mountinfo);
        assert_eq!(mounts.key(), Some(key), "{host}");
        assert_eq!(mounts.key_mount().map(|mount| mount.root.as_str()), Some(root), "{host}");
    }
}

#[test]
fn without_cgroups_there_is_no_key() {
    for mountinfo in ["", "\n\n", "no mountinfo at all - really", LEGACY.lines().next().expect("a line")] {
        assert_eq!(Mounts::parse(mountinfo).key(), None, "{mountinfo}");
    }
    let memory_only = "33 29 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    assert_eq!(Mounts::parse(memory_only).key(), None);
}

#[test]
fn controllers_and_names_are_told_from_flags() {
    let mounts = Mounts::parse(HYBRID);
    let v1: Vec<_> = mounts.v1.iter().map(|v1| (v1.controllers.join("+"), v1.name.as_deref())).collect();
    assert_eq!(
        v1,
        [
            (String::new(), Some("systemd")),
            ("cpuset".to_owned(), None),
            ("net_cls+net_prio".to_owned(), None),
            ("cpu+cpuacct".to_owned(), None),
            ("memory".to_owned(), None),
        ]
    );
    assert_eq!(mounts.v2, Some(mount("/sys/fs/cgroup/unified", "/")));
    let labelled = r#"rw,context="system_u:object_r:cgroup_t:s0:c1,c2",cpu,cpuacct,noprefix,name=a\040b"#;
    let controllers = vec!["cpu".to_owned(), "cpuacct".to_owned()];
    assert_eq!(v1_options(labelled), (controllers, Some("a b".to_owned())));
}

#[test]
fn of_several_mounts_of_a_hierarchy_the_whole_and_shortest_is_taken() {
    let line = |root: &str, point: &str| format!("50 30 0:28 {root} {point} rw - cgroup2 cgroup2 rw\n");
    let mut lines = [
        line("/", "/mnt/elsewhere/cgroup"),
        line("/a.slice", "/a"),
        line("/", "/sys/fs/cgroup"),
        line("/", "/var/lib/deep/sys/fs/cgroup"),
    ];
    for _ in 0..lines.len() {
        lines.rotate_left(1);
        assert_eq!(Mounts::parse(&lines.concat()).v2, Some(mount("/sys/fs/cgroup", "/")));
    }
    let mut lines = [
        line("/", "/c"),
        line("/../..", "/long/path"),
        line("/../../..", "/longer/path"),
        line("/../x", "/x"),
    ];
    for _ in 0..lines.len() {
        lines.rotate_left(1);
        assert_eq!(Mounts::parse(&lines.concat()).v2, Some(mount("/longer/path", "/../../..")));
    }
}

#[test]
fn only_mounts_under_the_configured_directory_count() {
    let key = |mountinfo, directory: &str| Mounts::under(mountinfo, Path::new(directory)).key();
    let host = "/host/sys/fs/cgroup/cpu,cpuacct";
    assert_eq!(key(HOST_MOUNTED, "/host/sys/fs/cgroup"), Some(v2("/host/sys/fs/cgroup")));
    assert_eq!(key(HOST_MOUNTED, "/sys/fs/cgroup/"), Some(v2("/sys/fs/cgroup")));
    assert_eq!(key(HOST_MOUNTED_V1, "/host"), Some(v1(host, host)));
    assert_eq!(key(HOST_MOUNTED, "/hos"), None);
    assert_eq!(key(HOST_MOUNTED, "/elsewhere"), None);
}

#[test]
fn a_mount_that_another_one_covers_is_not_used() {
    let mountinfo = "\
33 22 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
40 33 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw
41 40 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    assert_eq!(Mounts::parse(mountinfo).key(), Some(v2("/sys/fs/cgroup/unified")));
}

#[test]
fn escaped_paths_are_decoded() {
    let mountinfo = r"40 30 0:31 /a\040b /mnt/my\040cg\011\134\012x rw - cgroup2 none rw";
    assert_eq!(Mounts::parse(mountinfo).v2, Some(mount("/mnt/my cg\t\\\nx", "/a b")));
    for (field, plain) in [(r"\", r"\"), (r"\04", r"\04"), (r"\999", r"\999"), (r"\\040", r"\ "), ("ä", "ä")]
    {
        assert_eq!(unescape(field), OsString::from(plain), "{field}");
    }
}

#[test]
fn facts_survive_being_recorded() {
    let mounts = Mounts::parse(HYBRID);
    let recorded = serde_json::to_string(&mounts).expect("plain data");
    assert_eq!(serde_json::from_str::<Mounts>(&recorded).expect("what was written"), mounts);
    let key = serde_json::to_value(Mounts::parse(UNIFIED).key()).expect("plain data");
    assert_eq!(key, serde_json::json!({ "v2": { "root": "/sys/fs/cgroup" } }));
}
