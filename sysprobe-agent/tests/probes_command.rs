//! `sysprobe probes` as a user or a script runs it. The independent source is the kernel's own count of
//! context switches.

mod support;

use std::fs;

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::command::{self, Outcome};
use support::http;
use support::process::{Load, cpus};
use support::{document, figure, until};
use sysprobe_agent::snapshot::{Measuring, Snapshot};

/// Context switches since boot on all CPUs: the number of times that the tracepoint was hit.
fn context_switches() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt ")).expect("context switches");
    line.parse().expect("a number")
}

fn measured(agent: &Agent, lease_ms: u64) -> Snapshot {
    let path = format!("/v1/snapshot?measure=true&lease_ms={lease_ms}");
    let answer = http::get_local(agent.socket(), &path).expect("the agent answers");
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}

fn switch_runs(snapshot: &Snapshot) -> (u64, u64) {
    let programs = snapshot.agent.programs.iter();
    let mut switches = programs.filter(|program| program.program.starts_with("sched_switch_"));
    let program = switches.next().expect("the switch is hooked");
    (program.runs, program.missed)
}

fn probes(socket: &str, arguments: &[&str]) -> Outcome {
    let window = ["--once", "--interval", "1s", "--socket", socket];
    command::run(command::sysprobe().arg("probes").args(arguments).args(window))
}

/// A load that sleeps and wakes all the time.
fn restless(cgroup: &Cgroup) -> Load {
    Load::running(cgroup, &cpus(), || {
        loop {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    })
}

#[test]
fn runs_of_the_switch_are_the_kernels_own_count() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("probes-switches");
    let _load = restless(&cgroup);
    measured(&agent, 60_000);
    let outer = context_switches();
    let (runs, missed) = switch_runs(&measured(&agent, 60_000));
    let inner = context_switches();
    until("ten thousand switches", || (context_switches() > inner + 10_000).then_some(()));
    let inner = context_switches() - inner;
    let (later, later_missed) = switch_runs(&measured(&agent, 60_000));
    let outer = context_switches() - outer;
    let counted = (later - runs) + (later_missed - missed);
    figure(&format!("{counted} runs, between {inner} and {outer} context switches"));
    // On each CPU, a switch in progress may be in one count and not yet in the other.
    let under_way = u64::try_from(cpus().len()).expect("a few");
    assert!(
        (inner..=outer + 2 * under_way).contains(&(counted + under_way)),
        "{counted} of {inner}..={outer}"
    );
}

#[test]
fn the_kernel_measures_while_somebody_asks() {
    let agent = Agent::start();
    assert_eq!(agent.snapshot().agent.measuring, Measuring::Off);
    assert_eq!(measured(&agent, 60_000).agent.measuring, Measuring::On);
    assert_eq!(agent.snapshot().agent.measuring, Measuring::On, "the lease goes on");
    let other = Agent::start();
    // Longer than a busy agent needs for its answer.
    assert_eq!(measured(&other, 3_000).agent.measuring, Measuring::On);
    until("the lease is over", || (other.snapshot().agent.measuring == Measuring::Off).then_some(()));
}

#[test]
fn a_question_without_a_lease_is_refused() {
    let agent = Agent::start();
    for path in
        ["/v1/snapshot?measure=true", "/v1/snapshot?slow_ns=1", "/v1/snapshot?measure=maybe&lease_ms=1"]
    {
        let answer = http::get_local(agent.socket(), path).expect("the agent answers");
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
    }
}

#[test]
fn programs_have_their_cost_and_maps_their_fill() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("probes-json");
    let _load = restless(&cgroup);
    let socket = agent.socket().to_str().expect("UTF-8");
    let outcome = probes(socket, &["-o", "json"]);
    let document = document::of("probes", &outcome);
    assert_eq!((&document["version"], &document["measuring"]), (&1.into(), &"on".into()));
    let programs = document["programs"].as_array().expect("programs");
    let switch = programs.iter().find(|one| one["domain"] == "sched" && one["runs"].as_u64() > Some(1000));
    let switch = switch.unwrap_or_else(|| panic!("no switches: {document}"));
    figure(&switch.to_string());
    let number = |field: &str| switch[field].as_f64().expect("a number");
    assert!((number("seconds") / number("runs") - number("mean_seconds")).abs() < 1e-12, "{switch}");
    let share = number("seconds") / document["window_seconds"].as_f64().expect("a length");
    assert!((share - number("cpu_ratio")).abs() < 1e-9, "{switch}");
    let costs: Vec<_> = programs.iter().map(|one| one["seconds"].as_f64().expect("a number")).collect();
    assert!(costs.is_sorted_by(|one, next| one >= next), "the most expensive first: {costs:?}");
    assert!(
        programs.iter().all(|one| one["hook"].as_str().is_some_and(|hook| hook.contains('/'))),
        "{document}"
    );
    assert!(!document["maps"].as_array().expect("maps").is_empty());
}

#[test]
fn the_plain_form_fits_into_eighty_columns() {
    let directory = tempfile::tempdir().expect("a directory");
    let nobody = directory.path().join("agent.sock");
    let outcome = probes(nobody.to_str().expect("UTF-8"), &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    figure(&outcome.stdout);
    for start in ["All programs: ", "PROGRAM ", "sched_switch_", "MAP "] {
        assert!(outcome.has_line(start), "`{start}` is missing: {}", outcome.stdout);
    }
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
}

#[test]
fn without_the_right_to_it_it_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let nobody = directory.path().join("agent.sock");
    let mut sysprobe = command::sysprobe();
    sysprobe.args(["probes", "--once", "--interval", "200ms", "--socket"]).arg(nobody);
    command::without(&mut sysprobe, &[command::CAP_SYS_ADMIN]);
    let outcome = command::run(&mut sysprobe);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // An agent of another test may have enabled the kernel's statistics: then there are numbers, and the
    // message is missing.
    let measured =
        outcome.stdout.lines().any(|line| line.starts_with("sched_switch_") && !line.contains(" - "));
    let says = outcome.stdout.contains("The kernel refuses to measure its programs: ");
    figure(&outcome.stdout);
    assert!(says || measured, "{}", outcome.stdout);
}
