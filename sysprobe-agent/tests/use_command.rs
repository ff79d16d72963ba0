//! `sysprobe use` as a user or a script runs it. The independent source is the kernel's own counters of the
//! machine.

mod support;

use std::fs;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::agent::Agent;
use support::cgroup::Cgroup;
use support::command::{self, Outcome};
use support::process::{Load, cpus, spin};
use support::{figure, left_out};

fn run(socket: &str, arguments: &[&str]) -> Outcome {
    command::run(command::sysprobe().arg("use").args(arguments).args(["--once", "--socket", socket]))
}

fn socket(agent: &Agent) -> &str {
    agent.socket().to_str().expect("UTF-8")
}

fn document(socket: &str, arguments: &[&str]) -> Value {
    let outcome = run(socket, &[&["-o", "json"], arguments].concat());
    support::document::of("use", &outcome)
}

fn measure<'a>(document: &'a Value, resource: &str, what: &str) -> &'a Value {
    let measures = document["measures"].as_array().expect("measures");
    let mut found = measures.iter().filter(|one| one["resource"] == resource && one["what"] == what);
    found.next().unwrap_or_else(|| panic!("{resource}: {what}: {document}"))
}

/// Ticks of all CPUs since boot: those in which something ran, and all. Idle and iowait are the fourth and
/// fifth.
fn ticks() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let line = stat.lines().next().expect("the CPUs");
    // Guest time is already included in the first two.
    let ticks: Vec<f64> =
        line.split_whitespace().skip(1).take(8).map(|tick| tick.parse().expect("a number")).collect();
    let all: f64 = ticks.iter().sum();
    (all - ticks[3] - ticks[4] - ticks[7], all)
}

/// At least one CPU is busy, and the named workload uses at least as much CPU as the spinner.
#[test]
fn the_busy_share_is_the_kernels_and_who_has_most_is_behind_it() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("use-spinner");
    let load = Load::running(&cgroup, &cpus(), spin);
    let begun = Instant::now();
    let (busy, all) = ticks();
    let had = load.fresh_on_cpu_ns();
    let document = document(socket(&agent), &["--interval", "3"]);
    let spun = Duration::from_nanos(load.totals().on_cpu_ns - had).as_secs_f64();
    let (later_busy, later_all) = ticks();
    let elapsed = begun.elapsed().as_secs_f64();
    let kernels = (later_busy - busy) / (later_all - all);
    let ours = measure(&document, "CPU", "busy");
    let value = ours["value"].as_f64().expect("told");
    figure(&format!("use: busy {value:.4}, by /proc/stat around it {kernels:.4}; {}", ours["behind"]));
    let window = document["window_seconds"].as_f64().expect("a length");
    // The command's own start and end are only in the longer window, whether busy or not; a tick is 10 ms.
    let tolerance = 0.02 + (elapsed - window).max(0.0) / elapsed;
    assert!((value - kernels).abs() < tolerance, "{value} and {kernels}, {window} s of {elapsed}");
    // CPU time that the spinner used outside of the window is only in the kernel's number.
    let (most, least) =
        (ours["behind"]["amount"].as_f64().expect("a number"), (spun - (elapsed - window)) / window);
    assert!(most >= least, "{most} cores are the most, and {least} are the spinner's");
    // Other tests and compilers use the CPUs too.
    if ours["behind"]["container"] == cgroup.name.as_str() {
        assert!(most <= spun / window, "{most} cores of {spun} s in {window} s");
    } else {
        left_out("whether the spinner is named", "another workload had more of the CPUs");
    }
}

#[test]
fn memory_is_what_proc_has() {
    let agent = Agent::start();
    let of = |name: &str| {
        let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
        line.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok()).expect("a number")
    };
    let share = || 1.0 - of("MemAvailable") / of("MemTotal");
    let before = share();
    let document = document(socket(&agent), &["--interval", "200ms"]);
    let value = measure(&document, "memory", "in use")["value"].as_f64().expect("told");
    let after = share();
    figure(&format!("use: {value:.4} of the memory, {before:.4} to {after:.4} by /proc/meminfo"));
    // Other tests start and end meanwhile.
    assert!((before.min(after) - 0.03..=before.max(after) + 0.03).contains(&value), "{value}");
}

/// Compared with `/sys`. No workload is named for their activity here.
#[test]
fn every_disk_and_link_of_the_machine_is_there() {
    let agent = Agent::start();
    let document = document(socket(&agent), &["--interval", "200ms"]);
    let with_device = |class: &str| {
        let entries = fs::read_dir(format!("/sys/{class}")).into_iter().flatten().flatten();
        let real = entries.filter(|entry| entry.path().join("device").exists());
        real.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect::<Vec<_>>()
    };
    let (disks, links) = (with_device("block"), with_device("class/net"));
    if disks.is_empty() {
        left_out("disks", "this machine has none");
    }
    for name in disks {
        measure(&document, &format!("disk {name}"), "requests at a time");
    }
    for name in links {
        measure(&document, &format!("link {name}"), "packets dropped");
    }
}

#[test]
fn without_an_agent_it_loads_the_programs_itself_and_fits_a_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent.sock");
    let outcome = run(path.to_str().expect("UTF-8"), &["--interval", "500ms"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    figure(&outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
    for start in ["RESOURCE", "CPU          U busy", "memory       U in use", "network      S accept-queue"] {
        assert!(outcome.has_line(start), "{start}: {}", outcome.stdout);
    }
}
