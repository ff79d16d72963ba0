//! Takes capabilities away and compares the effect with the table of rights (`RIGHTS`). The named
//! capabilities must suffice for everything that root gets, each missing one must have the effect that the
//! table names, and no other may matter.
//!
//! The agent and the commands run as in a container: user 0, a bounding set, no new privileges.

mod support;

#[path = "rights/container.rs"]
mod container;
#[path = "rights/limited.rs"]
mod limited;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use caps::Capability;
use limited::{
    Set, asked_for, assert_limited, everything, is_guarded, limit, lock_little, needed, said_of, with,
    without,
};
use serde_json::{Value, json};
use support::agent::{self, Agent, Options};
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::samples::Samples;
use support::totals::{Totals, workload};
use support::{command, document, figure, left_out, until};
use sysprobe_agent::host::{Need, RIGHTS};
use sysprobe_agent::snapshot::DomainState;

/// `EX_NOPERM`.
const MISSING_PRIVILEGES: i32 = 77;

/// The output of `sysprobe check` with only these capabilities and little locked memory.
fn check(kept: &Set, arguments: &[&str]) -> command::Outcome {
    let mut check = command::sysprobe();
    check.args(["check", "--socket", "/nonexistent/agent.sock"]).args(arguments);
    lock_little(&mut check);
    limit(&mut check, kept);
    command::run(&mut check)
}

fn check_json(kept: &Set, arguments: &[&str]) -> Value {
    document::of("check", &check(kept, &[&["-o", "json"], arguments].concat()))
}

/// For each domain, why it is off or which attach mode the kernel accepts.
fn judged(check: &Value) -> Vec<Value> {
    let trials = check["trials"].as_array().expect("the kernel was asked");
    let domains = check["plan"]["domains"].as_array().expect("domains");
    let judged = domains.iter().map(|domain| {
        let mut mine = trials.iter().filter(|trial| trial["domain"] == domain["name"]);
        let taken = mine.find(|trial| trial["verdict"] == "taken").map(|trial| &trial["tier"]);
        json!([domain["name"], domain["decision"]["off"], taken])
    });
    judged.collect()
}

fn limited_agent(kept: &Set, config: &str) -> Agent {
    let agent = Agent::prepared(Options { config, ..Options::default() }, |command| {
        lock_little(command);
        limit(command, kept);
    });
    assert_limited(agent.pid(), kept);
    agent
}

/// The domains of an agent with all capabilities.
static ROOTS: LazyLock<Vec<DomainState>> = LazyLock::new(|| Agent::start().snapshot().domains);

/// A container id, with which a cgroup's name ends.
const ID: &str = "7f3c0000000000000000000000000000000000000000000000000000000000a1";

/// containerd's state of the container, which only root can read.
fn bundle() -> tempfile::TempDir {
    let state = tempfile::tempdir().expect("a directory for its owner only");
    let task = state.path().join("io.containerd.runtime.v2.task/k8s.io").join(ID);
    fs::create_dir_all(&task).expect("made");
    let key = |name: &str| format!("io.kubernetes.cri.{name}");
    let annotations = json!({
        key("container-type"): "container", key("container-name"): "web", key("sandbox-name"): "web-0",
        key("sandbox-namespace"): "shop", key("sandbox-uid"): "6c1ff1a6-0001-0002-0003-000000000004",
    });
    fs::write(task.join("config.json"), json!({ "annotations": annotations }).to_string()).expect("written");
    state
}

/// Any user without capabilities will do.
const NOBODY: u32 = 65_534;

/// Becomes that user, and reads a file now and then.
fn as_nobody() {
    // SAFETY: system calls on plain values, a string and a buffer that live; this child has only this thread.
    unsafe {
        if libc::setgroups(0, std::ptr::null()) + libc::setgid(NOBODY) + libc::setuid(NOBODY) != 0 {
            return;
        }
        loop {
            let file = libc::open(c"/etc/passwd".as_ptr(), libc::O_RDONLY);
            libc::read(file, [0_u8; 64].as_mut_ptr().cast(), 64);
            libc::close(file);
            // Rarely, because an emulated machine has to start an agent at the same time.
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn sum(scrape: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    scrape.select(name, labels).map(|sample| sample.value).sum()
}

#[test]
fn what_the_table_names_is_enough_for_everything_that_root_gets() {
    // Before any load starts, which would slow an emulated machine.
    let root = ROOTS.clone();
    let state = bundle();
    let (cgroup, container) = (Cgroup::with_memory("other-user"), Cgroup::new(ID));
    let _loads = [&cgroup, &container].map(|cgroup| Load::running(cgroup, &cpus(), as_nobody));
    let config =
        format!("[pods]\nsources = [\"runtime\"]\n[pods.runtime]\ncontainerd = [{:?}]", state.path());
    let agent = limited_agent(&needed(), &config);
    figure(&format!("enough: {:?}: {:?}", needed(), agent.snapshot().domains));
    assert_eq!(agent.snapshot().domains, root);
    let unit = [("namespace", ""), ("pod", ""), ("container", &*cgroup.name)];
    let pod = [("namespace", "shop"), ("pod", "web-0"), ("container", "web")];
    until("both have numbers from programs and files", || {
        let scrape = agent.scrape();
        let both = [
            "sysprobe_sched_on_cpu_seconds_total",
            "sysprobe_vfs_operations_total",
            "sysprobe_cpu_usage_seconds_total",
        ];
        let all = both.iter().all(|name| sum(&scrape, name, &unit) > 0.0 && sum(&scrape, name, &pod) > 0.0);
        (all && sum(&scrape, "sysprobe_memory_usage_bytes", &unit) > 0.0).then_some(())
    });
    assert!(!agent.log().contains("ERROR") && !agent.log().contains("lacks"), "{}", agent.log());
}

#[test]
fn each_right_that_is_missing_is_named_with_what_it_costs() {
    let all: Set = asked_for().map(|right| right.capability.index()).collect();
    assert_eq!(check_json(&all, &["--no-load"])["lacks"], json!([]), "{all:?} is all");
    for missing in asked_for() {
        let mut kept = without(all.clone(), missing.capability);
        if missing.need == Need::Programs {
            // CAP_SYS_ADMIN would grant it too.
            kept = without(kept, Capability::CAP_SYS_ADMIN);
        }
        let expected: Vec<_> =
            asked_for().filter(|right| !kept.contains(&right.capability.index())).collect();
        let lacks: Vec<_> = expected
            .iter()
            .map(|right| {
                json!({ "capability": right.capability.to_string(), "need": right.need, "does": right.does,
                        "without": right.without })
            })
            .collect();
        assert_eq!(
            check_json(&kept, &["--no-load"])["lacks"],
            json!(lacks),
            "without {}",
            missing.capability
        );
        let text = check(&kept, &["--no-load"]).stdout;
        let said: Vec<_> =
            text.lines().filter(|line| line.trim_start().starts_with("without CAP_")).collect();
        figure(&said.join("\n"));
        let expected: Vec<_> = expected.iter().map(|right| said_of(right)).collect();
        assert_eq!(said.iter().map(|line| line.trim()).collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn without_what_programs_need_only_files_are_read() {
    for right in asked_for().filter(|right| right.need == Need::Programs) {
        let name = right.capability.to_string();
        let kept = without(without(needed(), right.capability), Capability::CAP_SYS_ADMIN);
        let directory = tempfile::tempdir().expect("a directory");
        let mut agent = command::sysprobe();
        agent.args(["agent", "--listen", "127.0.0.1:0", "--socket"]).arg(directory.path().join("agent.sock"));
        limit(&mut agent, &kept);
        let outcome = command::run(&mut agent);
        outcome.fails_with(MISSING_PRIVILEGES, &[&name]);
        figure(&outcome.stderr);
        let others = ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"].into_iter().filter(|other| *other != name);
        assert!(others.into_iter().all(|other| !outcome.stderr.contains(other)), "{}", outcome.stderr);

        let agent = limited_agent(&kept, &agent::with_only(&[]));
        let states = agent.snapshot().domains;
        let up: Vec<_> = states.iter().filter(|state| state.up).map(|state| &*state.name).collect();
        let files: Vec<_> = ROOTS.iter().filter(|state| state.up && state.mode == "file").collect();
        assert_eq!(up, files.iter().map(|state| &*state.name).collect::<Vec<_>>(), "{states:?}");
    }
}

#[test]
fn without_room_for_maps_it_says_so_and_goes_on() {
    let kept = without(needed(), Capability::CAP_SYS_RESOURCE);
    let Some(right) = asked_for().find(|right| right.need == Need::Room) else {
        assert!(kept.len() == needed().len(), "no test with it");
        left_out("too little locked memory", "this kernel charges maps to no limit (Linux 5.11)");
        return;
    };
    let agent = limited_agent(&kept, "");
    let warning = format!("missing {}, and RLIMIT_MEMLOCK is 64 KiB: {}", right.capability, right.without);
    assert!(agent.log().contains(&warning), "{}", agent.log());
    let states = agent.snapshot().domains;
    figure(&format!("without room: {states:?}"));
    assert!(states.iter().any(|state| !state.up), "{states:?}");
    for file in ROOTS.iter().filter(|state| state.mode == "file") {
        assert!(states.contains(file), "{} does without: {states:?}", file.name);
    }
    let text = check(&kept, &[]).stdout;
    assert!(text.contains(&format!("Warning: {warning}")), "{text}");
}

#[test]
fn without_the_right_to_kprobes_only_what_they_hook_is_missed() {
    let kept = without(needed(), Capability::CAP_SYS_ADMIN);
    if !is_guarded() {
        assert_eq!(kept, needed());
        left_out("kprobes that take a right", "kernel.perf_event_paranoid is not above 2");
        return;
    }
    let forced = check_json(&kept, &["--no-load", "--attach", "kprobe"]);
    let says = |off: &str| off.contains("CAP_SYS_ADMIN") && off.contains("perf_event_paranoid");
    let sched = &forced["plan"]["domains"][1];
    assert!(sched["name"] == "sched" && sched["decision"]["off"].as_str().is_some_and(says), "{sched}");
    let agent = limited_agent(&kept, "");
    for (ours, root) in agent.snapshot().domains.iter().zip(&*ROOTS) {
        figure(&format!("without kprobes: {ours:?}"));
        if root.mode == "kprobe" {
            assert!(!ours.up && says(&ours.reason), "{ours:?}");
        } else {
            assert_eq!((&ours.name, ours.up, &ours.mode), (&root.name, root.up, &root.mode));
        }
        if kept == needed() {
            assert_eq!(ours.reason, root.reason, "nothing is hooked by them here");
        }
    }
}

/// `no_other_capability_is_of_any_use` covers that it grants nothing else.
#[test]
fn sys_admin_gives_timings_of_programs() {
    let without = without(needed(), Capability::CAP_SYS_ADMIN);
    let with = with(without.clone(), Capability::CAP_SYS_ADMIN);
    let probes = |kept: &Set| {
        let mut probes = command::sysprobe();
        probes.args(["probes", "--once", "--interval", "200ms", "-o", "json"]);
        probes.args(["--socket", "/nonexistent/agent.sock"]);
        limit(&mut probes, kept);
        document::of("probes", &command::run(&mut probes))
    };
    assert_eq!(probes(&with)["measuring"], "on");
    let refused = probes(&without);
    figure(&format!("without CAP_SYS_ADMIN: measuring {}: {}", refused["measuring"], refused["reason"]));
    assert_eq!(refused["measuring"], "refused");
    assert!(!refused["programs"].as_array().expect("programs").is_empty(), "{refused}");
}

#[test]
fn a_cgroup_that_its_owner_has_closed_takes_a_right_to_look_into() {
    let (closed, inner) = (Cgroup::new("closed"), Cgroup::new("closed/inner"));
    let _load = Load::running(&inner, &cpus(), process::sleep_often);
    chown(closed.directory(), Some(NOBODY), None).expect("given away");
    fs::set_permissions(closed.directory(), Permissions::from_mode(0o700)).expect("closed");
    let config = agent::with_only(&["sched"]);
    let agent = limited_agent(&needed(), &config);
    until("it has looked for what runs there", || {
        let snapshot = agent.snapshot();
        assert_eq!(Totals::of_workload(&snapshot, &inner.name), Totals::default());
        assert!(workload(&snapshot, &inner.name).is_none());
        agent.log().contains("cgroup directories could not be read").then_some(())
    });
    drop(agent);
    let agent = limited_agent(&with(needed(), Capability::CAP_DAC_READ_SEARCH), &config);
    until("it has its name and its files", || {
        let snapshot = agent.snapshot();
        let files = workload(&snapshot, &inner.name)?.cpu.as_ref()?.usage_ns?;
        (files > 0 && Totals::of_workload(&snapshot, &inner.name).voluntary > 100).then_some(())
    });
}

/// If one check takes longer, removing capabilities one by one would take minutes, as in emulation. Then all
/// are removed at once, which proves the same, because no capability forbids anything.
const TOO_LONG: Duration = Duration::from_secs(12);

fn assert_same_without(number: u8, all: &Set, mode: &[&str], root: &[Value]) {
    let mut kept = all.clone();
    kept.remove(&number);
    assert_eq!(judged(&check_json(&kept, mode)), root, "without capability {number}");
}

#[test]
fn no_other_capability_is_of_any_use() {
    let (all, start) = (everything(), Instant::now());
    let root = judged(&check_json(&all, &[]));
    let took = start.elapsed();
    assert_eq!(judged(&check_json(&needed(), &[])), root, "{:?} is not enough", needed());
    if took > TOO_LONG {
        left_out(
            "every capability by itself",
            &format!("a check takes {took:?} here; all at once were tried"),
        );
        return;
    }
    // One attach mode takes half the time; that all are the same was checked above.
    let mode = ["--attach", "tp_btf"];
    let root = judged(&check_json(&all, &mode));
    let others: Vec<u8> = all.difference(&needed()).copied().collect();
    thread::scope(|scope| {
        for half in others.chunks(others.len().div_ceil(2)) {
            let (all, root) = (&all, &root);
            scope
                .spawn(move || half.iter().for_each(|number| assert_same_without(*number, all, &mode, root)));
        }
    });
    figure(&format!("{} capabilities were tried in {:?}", others.len(), start.elapsed()));
}

/// The manifests are generated from the chart, so these are the chart's defaults.
#[test]
fn the_manifests_give_what_every_kernel_asks_for_and_no_more() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kustomize/base/sysprobe.yaml");
    let manifests = fs::read_to_string(path).expect("the manifests");
    let (_, rest) = manifests.split_once("drop: [ALL]\n").expect("capabilities are dropped");
    let added = rest.lines().skip(1).map_while(|line| line.trim().strip_prefix("- "));
    let needed = RIGHTS.iter().filter(|right| right.need == Need::Programs);
    let needed: Vec<_> = needed.map(|right| right.capability.to_string()).collect();
    assert_eq!(added.map(|name| format!("CAP_{name}")).collect::<Vec<_>>(), needed);
}
