//! `sysprobe blame` as a user or a script runs it.

mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use support::agent::Agent;
use support::cgroup::Cgroup;
use support::command::{self, Outcome};
use support::process::{self, Load, cpus};
use support::{figure, until};

/// Only one pair at a time, because all use the same CPU.
static CPU: Mutex<()> = Mutex::new(());

/// Two loads that always want the same CPU. The drop order matters: the loads before their cgroups.
struct Rivals {
    _loads: [Load; 2],
    victim: Cgroup,
    culprit: Cgroup,
    _cpu: MutexGuard<'static, ()>,
}

impl Rivals {
    fn new(name: &str) -> Self {
        let cpu = CPU.lock().unwrap_or_else(PoisonError::into_inner);
        let [victim, culprit] = ["victim", "culprit"].map(|role| Cgroup::new(&format!("{name}-{role}")));
        let all = cpus();
        let load = |cgroup| Load::running(cgroup, &all[all.len() - 1..], process::spin);
        Self { _loads: [load(&victim), load(&culprit)], victim, culprit, _cpu: cpu }
    }
}

fn blame(socket: &str, arguments: &[&str]) -> Outcome {
    let window = ["--once", "--interval", "1s", "--socket", socket];
    command::run(command::sysprobe().arg("blame").args(arguments).args(window))
}

fn document(socket: &str, name: &str) -> Value {
    let outcome = blame(socket, &[name, "-o", "json"]);
    support::document::of("blame", &outcome)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn sum(parts: &Value, field: &str) -> f64 {
    parts.as_array().expect("parts").iter().map(|part| number(&part[field])).sum()
}

/// A window in which the victim waited, most of the time for the culprit. In a single window, other tasks may
/// have had as much.
fn window_of_rivals(socket: &str, rivals: &Rivals) -> Value {
    until("most of a wait is the culprit's", || {
        let document = document(socket, &rivals.victim.name);
        let first = document["waits"]["culprits"].as_array()?.first()?;
        let is_the_culprits = first["container"] == *rivals.culprit.name && number(&first["share"]) > 0.5;
        is_the_culprits.then_some(document)
    })
}

/// Checks that the parts of the wait add up.
fn assert_adds_up(document: &Value) {
    let waits = &document["waits"];
    let total = number(&waits["seconds"]);
    let found = waits["culprits"].as_array().expect("culprits").first().expect("a culprit");
    figure(&format!("blame: {total} s of {}, first {found}", document["window_seconds"]));
    assert!((sum(&waits["causes"], "seconds") - total).abs() < 1e-6, "the parts are the whole: {document}");
    assert!((sum(&waits["causes"], "share") - 1.0).abs() < 1e-6, "{document}");
    let causes = waits["causes"].as_array().expect("causes");
    let others = causes.iter().filter(|one| one["cause"] == "other_pod" || one["cause"] == "system");
    let of_others: f64 = others.map(|one| number(&one["seconds"])).sum();
    let named = sum(&waits["culprits"], "seconds") + number(&waits["other_culprits_seconds"]);
    assert!((named - of_others).abs() < 1e-6, "culprits are those that are not its own: {document}");
    assert!(number(&waits["count"]) > 0.0, "{document}");
    assert!(number(&waits["p50_seconds"]) <= number(&waits["p99_seconds"]), "{document}");
}

#[test]
fn the_culprit_is_named_and_the_parts_sum_to_the_total() {
    let agent = Agent::start();
    let rivals = Rivals::new("blame");
    let socket = agent.socket().to_str().expect("UTF-8");
    let document = window_of_rivals(socket, &rivals);
    assert_eq!((&document["version"], &document["workload"]["gone"]), (&1.into(), &false.into()));
    assert_eq!(document["workload"]["container"], rivals.victim.name);
    assert_eq!(document["source"], format!("agent at {socket}"));
    assert_adds_up(&document);
}

#[test]
fn without_an_agent_it_loads_the_programs_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let rivals = Rivals::new("blame-alone");
    let socket = directory.path().join("agent.sock");
    let document = window_of_rivals(socket.to_str().expect("UTF-8"), &rivals);
    assert_eq!(document["source"], "no agent is running: programs loaded by this command");
    assert_adds_up(&document);
}

#[test]
fn the_plain_form_fits_into_eighty_columns() {
    let agent = Agent::start();
    let rivals = Rivals::new("blame-text");
    let socket = agent.socket().to_str().expect("UTF-8");
    // The culprit may have run for too short a time in one window.
    let outcome = until("the culprit is named", || {
        let outcome = blame(socket, &[&rivals.victim.name]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.has_line(&format!("S {} ", rivals.culprit.name)).then_some(outcome)
    });
    figure(&outcome.stdout);
    for start in ["Waited ", "CAUSE ", "T throttled ", "? unknown ", "CULPRIT "] {
        assert!(outcome.has_line(start), "`{start}` is missing: {}", outcome.stdout);
    }
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains('\u{1b}'), "no colours into a pipe");
}

#[test]
fn a_name_that_is_unknown_or_ambiguous_is_an_error_with_names() {
    let agent = Agent::start();
    let [one, other] = ["blame-name-one", "blame-name-other"].map(Cgroup::new);
    let socket = agent.socket().to_str().expect("UTF-8");
    let beginning = one.name.strip_suffix("-one").expect("its name");
    blame(socket, &[beginning]).fails_with(1, &["may be more than one workload", &one.name, &other.name]);
    blame(socket, &["no-such-pod"]).fails_with(1, &["no workload is called `no-such-pod`"]);
    blame(socket, &[&one.name, "--container", "x"]).fails_with(1, &["is not a pod: leave out --container"]);
    blame(socket, &[]).fails_with(2, &["POD"]);
}

#[test]
fn one_that_did_not_wait_and_one_that_goes_are_told() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("blame-idle");
    let socket = agent.socket().to_str().expect("UTF-8");
    let name = cgroup.name.clone();
    let outcome = blame(socket, &[&name]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("It did not wait for a CPU"), "{}", outcome.stdout);
    // The workload stays known for some time.
    cgroup.remove();
    let outcome = blame(socket, &[&name]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("gone"), "{}", outcome.stdout);
    assert_eq!(document(socket, &name)["workload"]["gone"], true);
}
