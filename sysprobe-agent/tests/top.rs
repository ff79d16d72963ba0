//! `sysprobe top`, `sysprobe io` and `sysprobe check` as a user or a script runs them.

mod support;
#[path = "top/windows.rs"]
mod windows;

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::agent::Agent;
use support::cgroup::{Cgroup, is_v1};
use support::command::{self, CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, Outcome};
use support::process::{self, Load, cpus};
use support::{SharedNumbers, document, figure, until};
use sysprobe_agent::config::FILE_DOMAINS;
use sysprobe_agent::probe::PROBES;
use tempfile::TempDir;

/// One window of `io` as JSON, from the agent at this socket.
fn io(socket: &str) -> Value {
    let arguments = ["--once", "--interval", "500ms", "-o", "json", "--all", "--socket", socket];
    document::of("io", &command::run(command::sysprobe().arg("io").args(arguments)))
}

fn row<'a>(document: &'a Value, container: &str) -> &'a Value {
    let rows = document["workloads"].as_array().expect("rows");
    rows.iter().find(|row| row["container"] == container).expect("the cgroup has a row")
}

/// Only one spinner at a time, because all use the same CPU.
static CPU: Mutex<()> = Mutex::new(());

/// The drop order matters: the load before its cgroup.
struct Spinner {
    load: Load,
    cgroup: Cgroup,
    _cpu: MutexGuard<'static, ()>,
}

/// A load that gets nearly a whole CPU, because its cgroup has a high weight.
fn spinner(name: &str) -> Spinner {
    let cpu = CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let cgroup = Cgroup::new(name);
    cgroup.set_weight_high();
    let all = cpus();
    Spinner { load: Load::running(&cgroup, &all[all.len() - 1..], process::spin), cgroup, _cpu: cpu }
}

#[test]
fn top_shows_a_running_agents_numbers() {
    let agent = Agent::start();
    let spinner = spinner("top-agent");
    let socket = agent.socket().to_str().expect("UTF-8");
    let document = windows::assert_cpu_time(socket, &spinner.load, &spinner.cgroup.name);
    assert_eq!(document["source"], format!("agent at {socket}"));
    let domains = document["domains"].as_array().expect("domains");
    // Cgroup v1 has no pressure stall information.
    let is_up = |domain: &Value| domain["up"] == true || (domain["name"] == "pressure" && is_v1());
    assert!(domains.iter().all(is_up), "{domains:?}");
    assert_eq!(document["version"], 2);
}

#[test]
fn top_without_an_agent_loads_the_programs_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let spinner = spinner("top-alone");
    let socket = directory.path().join("agent.sock");
    let at = socket.to_str().expect("UTF-8");
    let document = windows::assert_cpu_time(at, &spinner.load, &spinner.cgroup.name);
    assert_eq!(document["source"], "no agent is running: programs loaded by this command");
    assert!(!socket.exists(), "top is no agent");
}

#[test]
fn the_table_fits_into_eighty_columns() {
    let agent = Agent::start();
    let _spinner = spinner("top-table");
    let socket = agent.socket().to_str().expect("UTF-8");
    let outcome = command::run_with(&["top", "--once", "--interval", "200ms", "--socket", socket]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("top-table"), "{}", outcome.stdout);
    let first = outcome.stdout.lines().next().expect("a line");
    assert!(first.contains("agent at /"), "it says where the numbers come from: {first}");
    let widest = outcome.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains('\u{1b}'), "no colours into a pipe");
}

/// How many fsync calls a load has begun and ended.
struct Flushes {
    begun: AtomicU64,
    ended: AtomicU64,
}

// SAFETY: atomic numbers, for which zero is a value.
unsafe impl SharedNumbers for Flushes {}

const BLOCK: [u8; 4096] = [1; 4096];

/// Writes a block and syncs it, a thousand times a second at most.
fn flush_often(name: &CStr, flushes: &Flushes) {
    // SAFETY: a name and a block that live.
    unsafe {
        let file = libc::open(name.as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600);
        while libc::pwrite(file, BLOCK.as_ptr().cast(), BLOCK.len(), 0) == 4096 {
            flushes.begun.fetch_add(1, Ordering::SeqCst);
            if libc::fsync(file) != 0 {
                return;
            }
            flushes.ended.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn io_shows_what_a_workload_flushes() {
    let agent = Agent::start();
    let directory = tempfile::tempdir().expect("a directory");
    let name = CString::new(directory.path().join("file").as_os_str().as_bytes()).expect("no NUL");
    let flushes: &Flushes = support::shared();
    let cgroup = Cgroup::new("io-flushes");
    let _load = Load::running(&cgroup, &cpus(), || flush_often(&name, flushes));
    until("it flushes", || (flushes.ended.load(Ordering::SeqCst) > 0).then_some(()));
    let socket = agent.socket().to_str().expect("UTF-8");
    // A disk may be busy for longer than a window.
    let (document, at_most) = until("a window has a flush", || {
        let before = flushes.ended.load(Ordering::SeqCst);
        let document = io(socket);
        let at_most = flushes.begun.load(Ordering::SeqCst) - before;
        let rate = row(&document, &cgroup.name)["fsync"]["operations_per_second"].as_f64();
        (rate > Some(0.0)).then_some((document, at_most))
    });
    assert_eq!(document["version"], 2);
    let row = row(&document, &cgroup.name);
    let number = |operation: &str, field: &str| row[operation][field].as_f64().expect("a number");
    let window = document["window_seconds"].as_f64().expect("a number");
    assert!(window >= 0.5, "the window is not shorter than asked for: {window}");
    let calls = number("fsync", "operations_per_second") * window;
    figure(&format!("io: {calls} fsyncs of at most {at_most}: {row}"));
    // The window covers only calls during the command's run.
    assert!(calls <= at_most as f64 + 0.5, "{calls} of at most {at_most}: {row}");
    assert_eq!(row["fsync"]["errors_per_second"], 0.0);
    assert!(number("fsync", "latency_p50_seconds") <= number("fsync", "latency_p99_seconds"), "{row}");
    assert!(number("fsync", "latency_p99_seconds") <= number("fsync", "latency_max_seconds"), "{row}");
    let blocks = number("write", "bytes_per_second") / BLOCK.len() as f64;
    // A call may be counted between the reads of its latency and its bytes.
    assert!((blocks - number("write", "operations_per_second")).abs() <= 4.0, "{row}");
    assert!(row.get("read").is_none() && row.get("unlink").is_none(), "it only writes and flushes: {row}");
}

#[test]
fn options_for_programs_have_no_effect_on_a_running_agent_and_the_command_says_so() {
    let agent = Agent::start();
    let socket = agent.socket().to_str().expect("UTF-8");
    let plain = ["top", "--once", "--interval", "200ms", "--socket", socket];
    let said = |more: &[&str]| {
        let outcome = command::run_with(&[&plain, more].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.stderr
    };
    assert_eq!(said(&[]), "");
    let warning = "sysprobe: --attach has no effect: the numbers are those of the running agent.\n";
    assert_eq!(said(&["--attach", "raw_tp"]), warning);
}

#[test]
fn io_says_why_there_is_nothing() {
    // `block` is off too, because another process may use a disk at the same time.
    let agent = Agent::configured("[domains]\nvfs = false\nblock = false");
    let socket = agent.socket().to_str().expect("UTF-8");
    let outcome = command::run_with(&["io", "--once", "--interval", "200ms", "--socket", socket]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let says_why = |line: &str| line.strip_prefix("vfs is off: ").is_some_and(|reason| !reason.is_empty());
    assert!(outcome.stdout.lines().any(says_why), "{}", outcome.stdout);
    assert!(outcome.stdout.lines().last().is_some_and(|head| head.starts_with("NAME")), "{}", outcome.stdout);
}

#[test]
fn every_table_is_what_its_schema_says_and_nothing_else() {
    let agent = Agent::start();
    let socket = agent.socket().to_str().expect("UTF-8");
    let tables: [(&str, &[&str]); 5] = [
        ("net", &["net"]),
        ("io", &["top", "--view", "io"]),
        ("net", &["top", "--view", "net", "--containers"]),
        ("top-latency", &["top", "--view", "latency"]),
        ("top", &["top", "--containers"]),
    ];
    for (schema, words) in tables {
        let arguments = ["--once", "--interval", "200ms", "-o", "json", "--all", "--socket", socket];
        let outcome = command::run_with(&[words, &arguments].concat());
        let mut table = document::of(schema, &outcome);
        let fields = table.as_object_mut().expect("an object");
        let length = fields.remove("window_seconds").expect("a length");
        fields.insert("window_length".to_owned(), length);
        let faults = document::faults(schema, &table);
        assert_eq!(faults.len(), 2, "one is missing, and one too many: {faults:?}");
    }
}

/// Makes the command run as the first process of a new PID namespace.
fn in_pid_namespace(command: &mut Command) {
    let enter = || {
        // SAFETY: system calls on plain values. The parent, which `spawn` waits for, only waits for the
        // child: it gives up the pipe by which `spawn` learns of the exec, and leaves as the child did.
        unsafe {
            if libc::unshare(libc::CLONE_NEWPID) != 0 {
                return Err(io::Error::last_os_error());
            }
            let child = libc::fork();
            if child > 0 {
                libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                libc::_exit(libc::WEXITSTATUS(status));
            }
            if child < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        }
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(enter) };
}

#[test]
fn what_works_less_well_without_an_agent_is_said_on_standard_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = command::sysprobe();
    command.args(["top", "--once", "--interval", "200ms", "--socket"]);
    command.arg(directory.path().join("agent.sock"));
    in_pid_namespace(&mut command);
    let outcome = command::run(&mut command);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("PID namespace"), "{}", outcome.stderr);
    let first = outcome.stdout.lines().next().expect("a line");
    assert!(first.contains("no agent is running"), "{first}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let agent = Agent::start();
    let socket = agent.socket().to_str().expect("UTF-8");
    let commands: [&[&str]; 5] = [
        &["top", "--once", "--interval", "200ms", "--socket", socket],
        &["io", "--once", "--interval", "200ms", "--socket", socket],
        &["top", "--interval", "200ms", "-o", "json", "--socket", socket],
        &["check"],
        &["check", "--output", "json"],
    ];
    for arguments in commands {
        let mut command = command::sysprobe();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

/// `check`, with its own working directory and socket path.
fn check(directory: &TempDir, arguments: &[&str], without: &'static [libc::c_ulong]) -> Outcome {
    let mut command = command::sysprobe();
    command.arg("check").args(arguments).arg("--socket").arg(directory.path().join("run/agent.sock"));
    command::without(&mut command, without);
    let outcome = command::run(command.current_dir(directory.path()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(fs::read_dir(directory.path()).expect("it exists").count(), 0, "check made a file");
    outcome
}

#[test]
fn check_names_every_domain_in_both_forms() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = check(&directory, &[], &[]).stdout;
    let with_programs: Vec<_> = PROBES.iter().map(|probe| probe.domain).collect();
    for domain in with_programs.iter().copied().chain(["cpu", "memory"]) {
        // A domain with programs has `on, by` and the attach modes.
        let is_on = |line: &str| {
            let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
            words.next() == Some(domain) && words.next() == Some("on")
        };
        assert!(text.lines().any(is_on), "{domain} is not on in: {text}");
    }
    let json = document::of("check", &check(&directory, &["-o", "json"], &[]));
    let domains = json["plan"]["domains"].as_array().expect("domains");
    let names: Vec<_> = domains.iter().filter_map(|domain| domain["name"].as_str()).collect();
    assert_eq!(names, [&with_programs[..], &FILE_DOMAINS].concat());
    // Pressure exists only on cgroup v2, so it depends on the host.
    let others = domains.iter().filter(|domain| domain["name"] != "pressure");
    assert!(others.into_iter().all(|domain| domain["decision"].get("on").is_some()), "{json}");
}

#[test]
fn check_takes_no_rights_and_so_cannot_change_the_kernel() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = check(&directory, &[], &[CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON]).stdout;
    for domain in ["cgroup", "sched"] {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(domain)).expect("a line");
        assert!(line.contains("off") && line.contains("CAP_BPF and CAP_PERFMON"), "{line}");
    }
    assert!(text.lines().any(|line| line.split_whitespace().eq(["cpu", "on"])), "{text}");
    let json = check(&directory, &["-o", "json"], &[CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON]);
    assert_eq!(document::of("check", &json)["agent"], "none");
}

#[test]
fn check_tells_what_a_running_agent_does() {
    let agent = Agent::start();
    let socket = agent.socket().to_str().expect("UTF-8");
    let outcome = command::run_with(&["check", "--no-load", "-o", "json", "--socket", socket]);
    let document = document::of("check", &outcome);
    let domains = document["agent"]["running"]["domains"].as_array().expect("it answers");
    assert!(domains.iter().any(|domain| domain["name"] == "sched" && domain["up"] == true), "{domains:?}");
    assert_eq!(document["trials"], Value::Null);
}

#[test]
fn a_window_longer_than_the_interval_moves_on_with_it() {
    let agent = Agent::start();
    let socket = agent.socket().to_str().expect("UTF-8");
    let arguments = ["--interval", "100ms", "--window", "1", "-o", "json", "--socket", socket];
    let start = Instant::now();
    let mut first_line = None;
    let mut top =
        command::sysprobe().arg("top").args(arguments).stdout(Stdio::piped()).spawn().expect("started");
    let lines = BufReader::new(top.stdout.take().expect("a pipe")).lines();
    let lengths: Vec<f64> = lines
        .take(30)
        .inspect(|_| _ = first_line.get_or_insert_with(Instant::now))
        .map(|line| serde_json::from_str::<Value>(&line.expect("a line")).expect("JSON"))
        .map(|document| document["window_seconds"].as_f64().expect("a number"))
        .collect();
    let [took, since_first] =
        [start, first_line.expect("there are lines")].map(|begun| begun.elapsed().as_secs_f64());
    top.kill().expect("it runs");
    top.wait().expect("it ends");
    let whole: f64 = lengths.iter().sum();
    figure(&format!("window: thirty of one second are {whole} s long, within {took} s"));
    // Windows that do not overlap are together no longer than the time in which they lie.
    assert!(whole > took, "they overlap: {lengths:?}");
    assert!(lengths[29] < since_first, "the first second has left it: {lengths:?}");
}

#[test]
fn a_window_that_does_not_fit_is_a_wrong_argument() {
    let outcome = command::run_with(&["top", "--window", "1"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("must not be shorter than the interval, which is 2s"),
        "{}",
        outcome.stderr
    );
    let outcome = command::run_with(&["top", "--window", "2h"]);
    assert!(outcome.stderr.contains("at most 1h"), "{}", outcome.stderr);
}
