//! Totals across creation, deletion and return of cgroups.

use sysprobe_common::block::{BlockStats, Operation};
use sysprobe_common::hist::{self, Times};
use sysprobe_common::reclaim::ReclaimStats;
use sysprobe_common::rxpath::RxpathStats;
use sysprobe_common::sched::SchedStats;
use sysprobe_common::sched::threads::State;

use super::*;
use crate::cgroup::name::name_of;
use crate::cgroup::tree::Origin;
use crate::cli::fixture;
use crate::config::metrics::MetricsConfig;
use crate::domain::slots::Counters;
use crate::metrics;
use crate::pods::Answer;
use crate::snapshot::{CpuSample, Snapshot, Throttling};

mod admission;
mod blame;

const GRACE: Duration = Duration::from_secs(60);

fn gathered(on_cpu_ns: u64) -> SchedStats {
    let mut wait = [0; hist::BUCKETS];
    wait[3] = 1;
    SchedStats { wait_ns: 10, on_cpu_ns, voluntary: 1, wait, ..SchedStats::ZERO }
}

fn owner(name: &str) -> Owner {
    Owner::of_path(&name_of(&format!("/{name}")))
}

fn cpu(usage_ns: u64, throttled_ns: u64) -> CpuSample {
    let throttling = Throttling { periods: 10, throttled_periods: 1, throttled_ns };
    CpuSample { usage_ns: Some(usage_ns), throttling: Some(throttling), ..CpuSample::default() }
}

#[test]
fn an_idle_slot_makes_no_workload() {
    let mut registry = Registry::default();
    registry.add(&owner("a"), &SchedStats::ZERO);
    assert!(registry.samples().is_empty());
}

/// A program adds one number after the other, and the agent may read in between.
#[test]
fn an_update_that_is_read_in_part_is_not_lost() {
    let parts: [&dyn Charge; 3] = [
        &ReclaimStats { took_ns: 5, ..ReclaimStats::ZERO },
        &BlockStats { queued_ns: [5; Operation::COUNT], ..BlockStats::ZERO },
        &RxpathStats { total: Times { sum_ns: 5, ..Times::ZERO }, ..RxpathStats::ZERO },
    ];
    for (number, part) in parts.into_iter().enumerate() {
        let mut registry = Registry::default();
        registry.add(&owner("a"), part);
        assert_eq!(registry.samples().len(), 1, "part {number}");
    }
}

#[test]
fn several_cgroups_of_one_workload_add_up() {
    let mut registry = Registry::default();
    let new = || CpuSample::default().first_seen(Origin::Born);
    let (mut first, mut second) = (new(), new());
    registry.add_reading(&owner("a"), &cpu(100, 7), &mut first);
    registry.add_reading(&owner("a"), &cpu(50, 0), &mut second);
    registry.add_reading(&owner("a"), &cpu(130, 9), &mut first);
    let samples = registry.samples();
    let total = samples[0].cpu.as_ref().expect("has cpu");
    assert_eq!(total.usage_ns, Some(180));
    assert_eq!(total.throttling.map(|throttling| throttling.throttled_ns), Some(9));
    assert_eq!(total.throttling.map(|throttling| throttling.periods), Some(20));
}

#[test]
fn totals_survive_a_cgroup_and_end_with_the_grace() {
    let start = Instant::now();
    let mut registry = Registry::default();
    registry.add(&owner("a"), &gathered(5));
    assert!(!registry.samples()[0].gone);
    registry.expire(|_| false, start, GRACE);
    assert_eq!(registry.samples().len(), 1);
    assert!(registry.samples()[0].gone);
    registry.expire(|_| false, start + GRACE / 2, GRACE);
    registry.add(&owner("a"), &gathered(6));
    assert_eq!(registry.samples()[0].sched.as_ref().map(|sched| sched.on_cpu_ns), Some(11));
    registry.expire(|_| false, start + GRACE, GRACE);
    assert!(registry.samples().is_empty());
}

#[test]
fn one_that_comes_back_within_the_grace_starts_it_anew() {
    let start = Instant::now();
    let mut registry = Registry::default();
    registry.add(&owner("a"), &gathered(5));
    registry.expire(|_| false, start, GRACE);
    registry.expire(|_| true, start + GRACE / 2, GRACE);
    registry.expire(|_| false, start + GRACE, GRACE);
    assert_eq!(registry.samples().len(), 1);
}

#[test]
fn what_is_gone_has_totals_but_no_settings() {
    let mut registry = Registry::default();
    let mut seen = CpuSample::default().first_seen(Origin::Born);
    registry.add_reading(&owner("a"), &CpuSample { quota_cores: Some(2.0), ..cpu(100, 7) }, &mut seen);
    registry.expire(|_| false, Instant::now(), GRACE);
    let cpu = registry.samples().remove(0).cpu.expect("it is kept");
    assert_eq!((cpu.quota_cores, cpu.usage_ns), (None, Some(100)));
}

#[test]
fn totals_are_counted_since_the_cgroup_is_known_or_all_was_last_taken_in() {
    let ago =
        |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).expect("the machine is older");
    let (early, collected, late) = (ago(9), ago(6), ago(3));
    let mut registry = Registry::default();
    registry.note_collection(collected);
    registry.add(&owner("early").since(early), &gathered(5));
    registry.add(&owner("late").since(late), &gathered(5));
    registry.add(&Owner::kernel(), &gathered(5));
    registry.note_collection(Instant::now());
    registry.add(&owner("early").since(early), &gathered(5));
    for (name, moment) in [("/early", collected), ("/late", late), ("kernel", collected)] {
        let samples = registry.samples();
        let sample = samples.iter().find(|sample| sample.workload.container == name).expect("it is there");
        assert!(sample.created_ms.abs_diff(host::unix_ms(moment)) < 1000, "{name}: {}", sample.created_ms);
    }
}

fn in_pod(container: &str) -> Owner {
    in_pod_named("cart-0", container)
}

fn in_pod_named(pod: &str, container: &str) -> Owner {
    let pod = Pod { namespace: "shop".into(), name: pod.into(), ..Pod::default() };
    let answer = Answer::Container { pod: Arc::new(pod), container: container.into() };
    Owner::of_answer(&answer, &name_of("/"))
}

#[test]
fn a_pods_waits_outlive_its_containers_and_end_with_it() {
    let start = Instant::now();
    let mut registry = Registry::default();
    registry.add(&in_pod("migrate"), &gathered(5));
    registry.add(&in_pod("app"), &gathered(5));
    registry.add(&owner("a"), &gathered(5));
    let app = in_pod("app").workload;
    registry.expire(|workload| *workload == app, start, GRACE);
    registry.expire(|workload| *workload == app, start + GRACE, GRACE);
    let waits = registry.pods();
    assert_eq!(registry.samples().len(), 1, "the init container has gone");
    assert_eq!((waits.len(), waits[0].wait.count(), waits[0].wait.sum_ns), (1, 2, 20));
    registry.expire(|_| false, start + GRACE, GRACE);
    registry.expire(|_| false, start + 2 * GRACE, GRACE);
    assert!(registry.pods().is_empty());
}

#[test]
fn a_container_of_which_only_the_pod_is_known_has_its_id_as_name() {
    let id = "0123456789abcdef".repeat(4);
    let name = name_of(&format!("/kubepods/pod11111111-2222-3333-4444-555555555555/{id}"));
    let pod = Pod { namespace: "shop".into(), name: "cart-0".into(), ..Pod::default() };
    let workload = Owner::of_answer(&Answer::Pod { pod: Arc::new(pod) }, &name).workload;
    assert_eq!((&*workload.namespace, &*workload.pod, workload.container), ("shop", "cart-0", id.clone()));
    assert_eq!(Owner::of_answer(&Answer::Unknown, &name).workload.container, id);
}

/// A container outside of pods.
fn plain(container: &str) -> Owner {
    let name = name_of(&format!("/docker/{}", "0123456789abcdef".repeat(4)));
    Owner::of_answer(&Answer::Plain { name: container.into() }, &name)
}

#[test]
fn a_container_that_is_called_as_what_is_no_workload_is_told_from_it() {
    for own in Workload::OWN_NAMES {
        assert_eq!(plain(own).workload.container, format!("{own}@0123456789ab"));
        assert_eq!(in_pod(own).workload.container, own, "its namespace tells it apart");
    }
    assert_eq!(plain("kernels").workload.container, "kernels");
}

#[test]
fn names_of_containers_make_no_series_twice() {
    let mut registry = Registry::new(Admission::new(&toml::from_str("pods.deny = ['.*']").expect("parses")));
    let owners = Workload::OWN_NAMES.map(plain).into_iter();
    for owner in owners.chain([Owner::kernel(), Owner::unknown(), in_pod("hidden")]) {
        registry.add(&owner, &gathered(5));
    }
    let snapshot = Snapshot {
        workloads: registry.samples(),
        other: registry.other(),
        ..fixture::snapshot(0, Vec::new())
    };
    let text = metrics::render(snapshot, metrics::Format::Plain, &MetricsConfig::default()).expect("encodes");
    let text = String::from_utf8(text).expect("text");
    let line = "sysprobe_sched_on_cpu_seconds_total{";
    let series = text.lines().filter(|has| has.starts_with(line)).filter_map(|has| has.rsplit_once(' '));
    let mut names = HashSet::new();
    for (name, value) in series {
        assert!(names.insert(name), "{name} twice");
        assert_eq!(value, "5e-9", "{name} has no other workload's");
    }
    assert_eq!(names.len(), 6);
}

/// Sleeping threads, and threads that count as load.
fn threads(sleep: u32, load: u32) -> Threads {
    let mut threads = Threads::NONE;
    threads.load = load;
    threads.states[State::Interruptible as usize] = sleep;
    threads.states[State::Runnable as usize] = load;
    threads
}

fn levels(registry: &Registry) -> Option<(u64, u64)> {
    let sched = registry.samples().first()?.sched.clone()?;
    Some((sched.threads?.of(State::Interruptible), sched.load?.fixed[0]))
}

#[test]
fn threads_of_several_cgroups_add_up_and_are_gone_with_the_last() {
    let mut registry = Registry::default();
    registry.add_threads(&owner("a"), &threads(2, 1));
    registry.add_threads(&owner("a"), &threads(3, 2));
    registry.fold_loads(1);
    assert_eq!(levels(&registry), Some((5, 492)));
    registry.forget_threads();
    registry.add_threads(&owner("a"), &Threads::NONE);
    registry.fold_loads(1);
    assert_eq!(levels(&registry), None);
    // A workload that comes back starts from zero.
    registry.add_threads(&owner("a"), &threads(1, 3));
    registry.fold_loads(1);
    assert_eq!(levels(&registry), Some((1, 492)));
    registry.expire(|_| false, Instant::now(), GRACE);
    assert_eq!((registry.samples().len(), levels(&registry)), (1, None), "levels know no grace");
}
