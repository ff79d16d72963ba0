//! Provoked failures: programs that the kernel rejects, and lost samples. A rejection turns off no more than
//! necessary and is reported everywhere in the same words; a loss is counted.

mod support;

#[path = "faults/disturbance.rs"]
mod disturbance;
#[path = "faults/objects.rs"]
mod objects;

use std::fs;
use std::io;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::Value;
use support::agent::{self, Agent, Options};
use support::attach_modes::kernel;
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::samples::Samples;
use support::totals::{Totals, lost};
use support::{command, document, figure, until};
use sysprobe_agent::config::FILE_DOMAINS;
use sysprobe_agent::probe::{AttachMode, PROBES, ProgramSet, program_set};
use sysprobe_agent::snapshot::DomainState;

use objects::{REFUSAL, broken};

/// A program of every attach mode of the domain.
const ALL_OF_SCHED: [(&str, &str); 2] = [("sched.o", "sched_flush"), ("sched_hash.o", "sched_flush")];

/// The JSON output of `sysprobe check`.
fn check(arguments: &[&str]) -> Value {
    let outcome = command::run(command::sysprobe().args(["check", "--output", "json"]).args(arguments));
    document::of("check", &outcome)
}

/// The attach modes of a domain in the order in which they were tried, with the reason for each rejection.
fn trials(check: &Value, domain: &str) -> Vec<(String, Option<String>)> {
    let all = check["trials"].as_array().expect("the kernel was asked").iter();
    let mine = all.filter(|trial| trial["domain"] == domain);
    let refused = |trial: &Value| trial["verdict"]["refused"].as_str().map(str::to_owned);
    mine.map(|trial| (trial["tier"].as_str().expect("a name").to_owned(), refused(trial))).collect()
}

fn taken(check: &Value, domain: &str) -> Vec<String> {
    trials(check, domain).into_iter().filter(|(_, refused)| refused.is_none()).map(|(mode, _)| mode).collect()
}

fn state(agent: &Agent, domain: &str) -> DomainState {
    let domains = agent.snapshot().domains;
    domains.into_iter().find(|state| state.name == domain).expect("a domain")
}

#[test]
fn a_refused_program_turns_off_its_domain_only_and_all_say_why() {
    let objects = broken(&ALL_OF_SCHED);
    let arguments = ["--objects", objects.path().to_str().expect("UTF-8")];
    let agent = Agent::with(Options { arguments: &arguments, ..Options::default() });
    assert_eq!(agent.get("/readyz").expect("an answer").status, 200);
    for (domain, up) in [("sched", false), ("cgroup", true), ("cpu", true)] {
        assert_eq!(state(&agent, domain).up, up, "{domain}");
    }
    let scrape: Samples = agent.scrape();
    let up = |domain| scrape.get("sysprobe_agent_domain_up", &[("domain", domain)]);
    assert!(up("sched") < 0.5 && up("cgroup") > 0.5 && up("cpu") > 0.5, "{scrape:?}");
    let info = scrape.select("sysprobe_agent_domain_info", &[("domain", "sched")]).next().expect("a reason");
    let says = ["the kernel refuses sched_flush", REFUSAL];
    let log = agent.log();
    for text in says {
        assert!(info.labels["reason"].contains(text), "`{text}` is not in {info:?}");
        assert!(log.contains(text), "`{text}` is not in the log: {log}");
    }
    assert_eq!(scrape.select("sysprobe_sched_on_cpu_seconds_total", &[]).count(), 0);
    for (mode, refused) in trials(&check(&arguments), "sched") {
        let reason = refused.unwrap_or_else(|| panic!("{mode} was taken"));
        // An unsupported attach mode is rejected before its programs are checked.
        assert!(reason.contains(REFUSAL) || mode == AttachMode::Fentry.name(), "{mode}: {reason}");
    }
    let text = command::run_with(&[&["check"], &arguments[..]].concat()).stdout;
    for says in ["off: the kernel accepts none of its attach modes", REFUSAL] {
        assert!(text.contains(says), "`{says}` is not in: {text}");
    }
}

/// The program at the context switch, which differs between attach modes.
fn switch(set: &ProgramSet) -> &'static str {
    let program = set.programs.iter().find(|program| program.name.starts_with("sched_switch"));
    program.expect("every attach mode has one").name
}

#[test]
fn a_refused_attach_mode_is_passed_over_and_all_say_why() {
    let modes = taken(&check(&[]), "sched");
    let [first, second, ..] = &*modes else { panic!("only {modes:?} can be had") };
    let mode = AttachMode::from_str(first, false).expect("an attach mode");
    let set = program_set("sched", mode).expect("in the table");
    let objects = broken(&[(set.object.file, switch(set))]);
    let arguments = ["--objects", objects.path().to_str().expect("UTF-8")];
    let agent = Agent::with(Options { arguments: &arguments, ..Options::default() });
    let state = state(&agent, "sched");
    assert!(state.up && state.mode == *second, "{state:?}");
    let refused = format!("{first}: the kernel refuses {}", switch(set));
    assert!(state.reason.contains(&refused) && state.reason.contains(REFUSAL), "{state:?}");
    assert!(agent.log().contains(REFUSAL), "{}", agent.log());
    assert_eq!(taken(&check(&arguments), "sched"), modes[1..]);
    assert!(agent.snapshot().workloads.iter().any(|workload| workload.sched.is_some()), "it works");
}

#[test]
fn a_refused_scan_costs_its_own_series_only_and_is_told() {
    let objects = broken(&["sched.o", "sched_hash.o"].map(|object| (object, "sched_scan")));
    let arguments = ["--objects", objects.path().to_str().expect("UTF-8")];
    let agent = Agent::with(Options { arguments: &arguments, ..Options::default() });
    let state = state(&agent, "sched");
    assert!(
        state.up && state.mode == taken(&check(&[]), "sched")[0],
        "the attach mode is the same: {state:?}"
    );
    assert!(state.reason.contains("sched_scan") && state.reason.contains(REFUSAL), "{state:?}");
    until("the rest is seen", || {
        agent.metrics().contains("sysprobe_sched_on_cpu_seconds_total{").then_some(())
    });
    let text = agent.metrics();
    for name in ["sysprobe_sched_threads{", "sysprobe_sched_load_average{"] {
        assert!(!text.contains(name), "{name}");
    }
    assert!(!agent.log().contains("could not be counted"), "the agent does not try: {}", agent.log());
}

#[test]
fn an_agent_that_could_export_nothing_ends_and_says_why() {
    let objects = broken(&ALL_OF_SCHED);
    let config = objects.path().join("sysprobe.toml");
    let domains = agent::domains(|name| !FILE_DOMAINS.contains(&name));
    let text = format!("objects = {:?}\n{domains}", objects.path());
    fs::write(&config, text).expect("written");
    let mut agent = command::sysprobe();
    agent.args(["agent", "--listen", "127.0.0.1:0", "--socket"]).arg(objects.path().join("agent.sock"));
    let outcome = command::run(agent.arg("--config").arg(&config));
    outcome.fails_with(1, &["nothing would be exported", "sched", REFUSAL, "domains.cpu"]);
}

#[test]
fn an_object_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let agent = Agent::with(Options { arguments: &["--objects", path], ..Options::default() });
    for (domain, object) in [("cgroup", "cgroup.o"), ("sched", "sched_hash.o")] {
        let state = state(&agent, domain);
        assert!(!state.up && state.reason.contains(&format!("{path}/{object}")), "{state:?}");
    }
    let relative = command::run_with(&["check", "--objects", "target/ebpf"]);
    relative.fails_with(2, &["--objects", "the path must be absolute"]);
}

/// Whether a kernel without kprobes may reject this: it cannot patch function entries, which `fentry` needs
/// too. No file shows that directly.
fn may_be_refused(mode: &str, facts: &Value) -> bool {
    mode == AttachMode::Fentry.name() && facts["offers"]["kprobes"] == false
}

#[test]
fn check_says_of_every_attach_mode_what_the_agent_does() {
    for mode in AttachMode::value_variants() {
        let arguments = ["--attach", mode.name()];
        let check = check(&arguments);
        let agent = Agent::with(Options { arguments: &arguments, ..Options::default() });
        for domain in PROBES.iter().map(|probe| probe.domain) {
            let state = state(&agent, domain);
            figure(&format!("{domain} by {}: up {}, {}", mode.name(), state.up, state.reason));
            assert_eq!(taken(&check, domain).first(), state.up.then(|| mode.name().to_owned()).as_ref());
            for reason in trials(&check, domain).into_iter().filter_map(|(_, refused)| refused) {
                assert!(state.reason.contains(&reason), "the agent: {}; check: {reason}", state.reason);
                assert!(may_be_refused(mode.name(), &check["facts"]), "the facts should tell: {reason}");
            }
        }
    }
}

#[test]
fn check_tells_what_a_running_agent_does() {
    let agent = Agent::with(Options { arguments: &["--attach", "raw_tp"], ..Options::default() });
    let socket = agent.socket().to_str().expect("UTF-8");
    let check = check(&["--socket", socket, "--no-load"]);
    assert!(check["trials"].is_null(), "the kernel is not asked");
    let domains = check["agent"]["running"]["domains"].as_array().expect("it runs");
    for domain in ["cgroup", "sched"] {
        let told = domains.iter().find(|told| told["name"] == domain).expect("a domain");
        assert!(told["up"] == true && told["hook"] == "raw_tp", "{told}");
    }
    let text = command::run_with(&["check", "--socket", socket]).stdout;
    assert!(text.contains("Running agent") && text.contains("up, by raw_tp"), "{text}");
    let nobody = command::run_with(&["check", "--no-load", "--socket", "/nonexistent/agent.sock"]).stdout;
    assert!(nobody.contains("No agent is running"), "{nobody}");
}

#[test]
fn a_socket_that_is_no_agents_does_not_keep_check_from_the_rest() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent.sock");
    let listener = UnixListener::bind(&path).expect("bound");
    // Runs until the test process ends.
    thread::spawn(move || listener.incoming().for_each(drop));
    let text = command::run_with(&["check", "--no-load", "--socket", path.to_str().expect("UTF-8")]);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    assert!(text.stdout.contains("cannot be asked") && text.stdout.contains("sched"), "{}", text.stdout);
}

/// Before 5.11, the kernel charges maps and programs to this limit, which is 64 KiB by default. Newer kernels
/// ignore it.
#[test]
fn a_low_limit_on_locked_memory_is_raised() {
    for arguments in [&["check"][..], &["top", "--once", "--socket", "/nonexistent/agent.sock"]] {
        let mut sysprobe = command::sysprobe();
        // SAFETY: it makes one system call.
        unsafe { sysprobe.pre_exec(lock_little) };
        let outcome = command::run(sysprobe.args(arguments));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        for refusal in ["none of its attach modes", "Cannot allocate", "sched is off"] {
            assert!(!outcome.stdout.contains(refusal), "{}", outcome.stdout);
        }
    }
}

fn lock_little() -> io::Result<()> {
    let low = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
    // SAFETY: the address is of a live value.
    match unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const low) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts so many tasks that some do not fit into the smallest hash.
#[test]
fn tasks_that_find_the_hash_full_are_counted() {
    const TASKS: usize = 1024;
    let agent = Agent::with(Options {
        config: &format!("tasks = {TASKS}"),
        arguments: &["--attach", "raw_tp"],
        ..Options::default()
    });
    let cgroup = Cgroup::new("full");
    let load = Load::stopped(&cgroup, &cpus(), || process::in_threads(TASKS + 200, sleep_for_long));
    let (kernel, before) = (load.totals(), Totals::of_workload(&agent.snapshot(), &cgroup.name));
    load.resume();
    until("the hash is full", || (lost(&agent.snapshot(), "sched", "task_storage_full") > 0).then_some(()));
    load.freeze();
    let truth = load.totals().since(kernel);
    let snapshot = agent.snapshot();
    let ours = Totals::of_workload(&snapshot, &cgroup.name).since(before);
    figure(&format!(
        "full: agent {ours:?}, kernel {truth:?}, {} lost",
        lost(&snapshot, "sched", "task_storage_full")
    ));
    assert!(ours.on_cpu_ns <= truth.on_cpu_ns && ours.arrivals <= truth.arrivals, "{ours:?} {truth:?}");
    let exported = agent
        .scrape()
        .get("sysprobe_agent_lost_updates_total", &[("domain", "sched"), ("reason", "task_storage_full")]);
    assert!(exported > 0.5, "{exported}");
}

fn sleep_for_long() {
    loop {
        thread::sleep(Duration::from_millis(500));
    }
}

/// An agent in its own PID namespace cannot find older tasks outside of it.
#[test]
fn bookings_of_tasks_that_nobody_knows_are_counted() {
    let cgroup = Cgroup::new("unknown");
    let load = Load::running(&cgroup, &cpus(), process::sleep_often);
    let apart = || {
        // SAFETY: this thread's children are in the new namespace, nothing else changes.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0, "{}", io::Error::last_os_error());
        let agent = Agent::start();
        let mode = state(&agent, "sched").mode;
        if mode == "raw_tp" || mode == "kprobe" {
            figure(&format!("unknown: by {mode} every task is met at its first switch"));
            return;
        }
        until("bookings are lost", || (lost(&agent.snapshot(), "sched", "unknown_task") > 100).then_some(()));
        assert!(agent.log().contains("hostPID"), "{}", agent.log());
        let ours = Totals::of_workload(&agent.snapshot(), &cgroup.name);
        assert_eq!(ours, Totals::default(), "what is lost is not charged");
    };
    thread::scope(|scope| scope.spawn(apart).join().expect("all of it holds"));
    drop(load);
}

/// An agent with kprobes, if the kernel has them and counts all of their missed runs (6.7).
fn agent_by_kprobes() -> Option<Agent> {
    let agent = Agent::with(Options { arguments: &["--attach", "kprobe"], ..Options::default() });
    let kernel = kernel();
    if !state(&agent, "sched").up || kernel < (6, 7) {
        figure(&format!("missed: not told by kernel {kernel:?}: {}", state(&agent, "sched").reason));
        return None;
    }
    Some(agent)
}

/// The missed runs of all of the agent's programs, according to the agent.
fn missed(agent: &Agent) -> u64 {
    agent.snapshot().agent.programs.iter().map(|program| program.missed).sum()
}

/// One disturbance at a time: two on a CPU would starve each other, and each would disturb both agents.
static DISTURBANCE: Mutex<()> = Mutex::new(());

/// Asserts that the kernel skips some of the agent's programs meanwhile, and that the agent counts it.
fn assert_counts_what_is_missed(agent: &Agent, work: impl FnMut() + Send) {
    let _alone = DISTURBANCE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = missed(agent);
    disturbance::beside(cpus()[0], work, || {
        let start = Instant::now();
        until("a run is missed", || (missed(agent) > before).then_some(()));
        figure(&format!("missed after {:?}", start.elapsed()));
    });
    for program in agent.snapshot().agent.programs {
        figure(&format!("{} missed {}", program.program, program.missed));
    }
}

#[test]
fn runs_that_are_missed_beside_a_map_are_counted() {
    let Some(agent) = agent_by_kprobes() else { return };
    assert_counts_what_is_missed(&agent, disturbance::map_writer());
}

#[test]
fn runs_that_are_missed_beside_another_kprobe_are_counted() {
    let Some(agent) = agent_by_kprobes() else { return };
    assert_counts_what_is_missed(&agent, disturbance::probed_caller());
}
