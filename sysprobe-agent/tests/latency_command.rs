//! `sysprobe latency` as a user or a script runs it.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use support::agent::Agent;
use support::cgroup::Cgroup;
use support::command::{self, Outcome};
use support::process::{Load, cpus, spin};
use support::{SharedNumbers, figure, left_out, shared, until};

/// A number that forked children share; initially 0.
struct Port(AtomicU32);

// SAFETY: an atomic number, for which zero is a value.
unsafe impl SharedNumbers for Port {}

impl Port {
    fn get(&self) -> Option<u16> {
        u16::try_from(self.0.load(Ordering::Acquire)).ok().filter(|port| *port != 0)
    }
}

/// A server that echoes requests, and a client that sends a thousand a second over loopback. The drop order
/// matters: the loads before their cgroups.
struct Echo {
    loads: [Load; 2],
    port: u16,
    /// The number of requests that the server has read.
    read: &'static AtomicU64,
    server: Cgroup,
    _client: Cgroup,
    _alone: MutexGuard<'static, ()>,
}

/// One load at a time: slow messages of all workloads share a ring.
static ECHO: Mutex<()> = Mutex::new(());

impl Echo {
    fn new(name: &str) -> Self {
        let alone = ECHO.lock().unwrap_or_else(PoisonError::into_inner);
        let [server, client] = ["server", "client"].map(|role| Cgroup::new(&format!("{name}-{role}")));
        let (port, read): (&Port, &AtomicU64) = (shared(), shared());
        let answers = Load::running(&server, &cpus(), || serve(port, read));
        let number = until("the server listens", || port.get());
        let asks = Load::running(&client, &cpus(), || ask(number));
        Self { loads: [answers, asks], port: number, read, server, _client: client, _alone: alone }
    }

    fn server(&self) -> &Load {
        &self.loads[0]
    }
}

fn serve(port: &Port, read: &AtomicU64) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    port.0.store(listener.local_addr().expect("it listens").port().into(), Ordering::Release);
    let (mut connection, _) = listener.accept().expect("a client");
    let mut request = [0; 64];
    while connection.read_exact(&mut request).is_ok() {
        read.fetch_add(1, Ordering::Release);
        connection.write_all(&request).expect("it is taken");
    }
}

fn ask(port: u16) {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server listens");
    loop {
        connection.write_all(&[7; 64]).expect("it is taken");
        connection.read_exact(&mut [0; 64]).expect("an answer");
        thread::sleep(Duration::from_millis(1));
    }
}

fn latency(socket: &str, arguments: &[&str]) -> Outcome {
    let window = ["--once", "--interval", "1s", "--socket", socket];
    command::run(command::sysprobe().arg("latency").args(arguments).args(window))
}

fn document(socket: &str, name: &str) -> Value {
    let outcome = latency(socket, &[name, "-o", "json"]);
    support::document::of("latency", &outcome)
}

/// An agent that measures the receive path, if this kernel supports it.
fn agent() -> Option<Agent> {
    let agent = Agent::start();
    let snapshot = agent.snapshot();
    let domain = snapshot.domain("rxpath").expect("a domain");
    if domain.up {
        return Some(agent);
    }
    left_out("where what is received loses time", &domain.reason);
    None
}

fn socket(agent: &Agent) -> &str {
    agent.socket().to_str().expect("UTF-8")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn sum(parts: &Value, field: &str) -> f64 {
    list(parts).iter().map(|part| number(&part[field])).sum()
}

fn names<'a>(parts: &'a Value, field: &str) -> Vec<&'a str> {
    list(parts).iter().filter_map(|part| part[field].as_str()).collect()
}

/// Checks that the stages follow one another from the device to the reader.
fn assert_is_way(stages: &Value) {
    let mut at = "device";
    for stage in names(stages, "stage") {
        let (from, to) = stage.split_once("_to_").expect("two points");
        assert_eq!(from, at, "{stages}");
        at = to;
    }
    assert_eq!(at, "read", "{stages}");
}

/// What was received by TCP in a window.
fn received_by_tcp(document: &Value) -> Option<&Value> {
    list(&document["received"]).iter().find(|path| path["protocol"] == "tcp")
}

/// A window in which the server reads many requests. On a busy machine it may read few in a second.
fn busy_window(socket: &str, server: &str) -> Value {
    until("it reads many requests in a window", || {
        let document = document(socket, server);
        let is_busy = received_by_tcp(&document).is_some_and(|tcp| number(&tcp["count"]) > 20.0);
        is_busy.then_some(document)
    })
}

/// Checks that each of the requests that the server read passed every stage.
fn assert_follows(document: &Value) {
    let tcp = received_by_tcp(document).expect("it read many");
    let (count, total) = (number(&tcp["count"]), number(&tcp["seconds"]));
    figure(&format!("latency: {count} in {} s, sums {}", document["window_seconds"], tcp["sums"]));
    assert!(total > 0.0, "{tcp}");
    assert_is_way(&tcp["stages"]);
    for stage in list(&tcp["stages"]) {
        // A request may be counted between the reads of the numbers.
        assert!((number(&stage["count"]) - count).abs() <= 2.0, "{tcp}");
        assert!(number(&stage["p50_seconds"]) <= number(&stage["p99_seconds"]), "{tcp}");
        assert!(number(&stage["p99_seconds"]) <= number(&stage["max_seconds"]), "{tcp}");
    }
    for parts in [&tcp["stages"], &tcp["sums"]] {
        assert!((sum(parts, "seconds") - total).abs() < 1e-6, "the parts are the whole: {tcp}");
        assert!((sum(parts, "share") - 1.0).abs() < 1e-6, "{tcp}");
    }
    match &names(&tcp["sums"], "sum")[..] {
        ["kernel_network", "scheduler", "application"] => {}
        ["kernel_network", "reader"] => {
            left_out("scheduler and application", "this kernel does not tell when a socket becomes readable");
        }
        other => panic!("{other:?}"),
    }
    assert!(number(&document["waits"]["count"]) > 0.0, "a woken task waits a moment: {document}");
}

#[test]
fn stages_sum_to_the_total_and_shares_to_one() {
    let Some(agent) = agent() else { return };
    let echo = Echo::new("latency");
    let document = busy_window(socket(&agent), &echo.server.name);
    assert_eq!((&document["version"], &document["workload"]["gone"]), (&1.into(), &false.into()));
    assert_eq!(document["workload"]["container"], echo.server.name);
    assert_eq!(document["source"], format!("agent at {}", socket(&agent)));
    assert_follows(&document);
}

#[test]
fn without_an_agent_it_loads_the_programs_itself() {
    if agent().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let echo = Echo::new("latency-alone");
    let socket = directory.path().join("agent.sock");
    let document = busy_window(socket.to_str().expect("UTF-8"), &echo.server.name);
    assert_eq!(document["source"], "no agent is running: programs loaded by this command");
    assert_follows(&document);
}

#[test]
fn the_plain_form_fits_into_eighty_columns() {
    let Some(agent) = agent() else { return };
    let echo = Echo::new("latency-text");
    let outcome = until("something was received in a window", || {
        let outcome = latency(socket(&agent), &[&echo.server.name]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.has_line("TCP ").then_some(outcome)
    });
    figure(&outcome.stdout);
    for start in
        ["Followed to its reader: ", "TCP ", "N device_to_", "  total ", "N kernel network ", "All its waits"]
    {
        assert!(outcome.has_line(start), "`{start}` is missing: {}", outcome.stdout);
    }
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains('\u{1b}'), "no colours into a pipe");
}

/// A load with a higher weight occupies the server's CPU.
#[test]
fn what_takes_long_is_told_one_by_one_with_who_had_the_cpu() {
    let Some(agent) = agent() else { return };
    let echo = Echo::new("latency-slow");
    assert_eq!(document(socket(&agent), &echo.server.name)["slow"], Value::Null, "without `--slow`");
    let hog = Cgroup::new("latency-hog");
    echo.server.set_weight_low();
    echo.server().move_to(cpus()[0]);
    let _hog = Load::running(&hog, &cpus()[..1], spin);
    // Other tests use this CPU too, and a pause of the virtual machine looks like an interrupt. So the hog
    // need not have most of every wait, and need not show in every window.
    let most = (0..10).find_map(|_| {
        let requests = slow_requests(&agent, &echo);
        let shares: Vec<_> = requests.iter().map(|request| share(request, &hog.name)).collect();
        if shares.contains(&None) {
            left_out("occupants of the CPU", "this kernel does not tell when a socket becomes readable");
            return Some(1.0);
        }
        let most = shares.into_iter().flatten().max_by(f64::total_cmp)?;
        figure(&format!("latency --slow: {} requests, the hog had up to {most} of a wait", requests.len()));
        (most > 0.5).then_some(most)
    });
    assert!(most.is_some(), "{} had the CPU for most of no wait", hog.name);
}

/// The slow requests that the agent reports for a window, after checks that they are complete.
fn slow_requests(agent: &Agent, echo: &Echo) -> Vec<Value> {
    let before = echo.read.load(Ordering::Acquire);
    let outcome = latency(socket(agent), &[&echo.server.name, "--slow", "1ms", "-o", "json"]);
    let document = support::document::of("latency", &outcome);
    let slow = &document["slow"];
    assert_eq!(slow["from_seconds"], 0.001);
    let requests = list(&slow["requests"]);
    for request in requests {
        assert!(number(&request["seconds"]) >= 0.001, "{request}");
        assert!((sum(&request["stages"], "seconds") - number(&request["seconds"])).abs() < 1e-8, "{request}");
        assert_is_way(&request["stages"]);
        let pid: u32 = echo.server().pid.try_into().expect("a process");
        assert_eq!((&request["pid"], &request["tid"]), (&pid.into(), &pid.into()));
        assert_eq!((&request["peer"], &request["port"]), (&"127.0.0.1".into(), &echo.port.into()));
        assert_ne!(request["peer_port"], 0);
    }
    // The window lies within the command's run. The last request may not be counted yet.
    let read = echo.read.load(Ordering::Acquire) - before;
    assert!(requests.len() as u64 <= read + 1, "{} of {read}", requests.len());
    requests.to_vec()
}

/// The share of the reader's wait for a CPU in which `hog` had the CPU. `None` if that is not reported.
fn share(request: &Value, hog: &str) -> Option<f64> {
    let wait = list(&request["stages"]).iter().find(|stage| stage["stage"] == "wakeup_to_run")?;
    let waited = number(&wait["seconds"]);
    // All occupants together cannot have had more than the wait.
    assert!(sum(&request["occupants"], "seconds") <= waited * 1.001, "{request}");
    let ours = list(&request["occupants"]).iter().find(|one| one["container"] == hog);
    Some(ours.map_or(0.0, |ours| {
        assert_eq!(ours["kind"], "workload");
        number(&ours["seconds"]) / waited
    }))
}

/// Every request is slow here, at hundreds a second in each of two processes: the ring holds only some
/// hundreds.
#[test]
fn what_takes_long_and_finds_no_room_is_counted() {
    if agent().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let echo = Echo::new("latency-many");
    // There is no agent, so the command empties the ring only at the end of the window.
    let socket = directory.path().join("agent.sock");
    let socket = socket.to_str().expect("UTF-8");
    let outcome = latency(socket, &[&echo.server.name, "--slow", "1us", "-o", "json"]);
    let document = support::document::of("latency", &outcome);
    let (lost, told) = (number(&document["slow"]["lost"]), list(&document["slow"]["requests"]).len());
    figure(&format!("latency --slow 1us: {told} told, {lost} lost"));
    assert!(told > 0);
    // The ring holds some 400 entries; the client reads as many messages as the server.
    let received = list(&document["received"])[0]["count"].as_u64().expect("a number");
    if received < 500 {
        left_out("a full ring", "this machine is too slow to fill it in a second");
        return;
    }
    assert!(lost > 0.0, "{received} were received");
    let outcome = until("another window loses some", || {
        let outcome = latency(socket, &[&echo.server.name, "--slow", "1us"]);
        let sentence = " more slow requests, of all workloads and commands, are not listed.";
        outcome.stdout.contains(sentence).then_some(outcome)
    });
    assert!(
        outcome.stdout.contains("\nRead recently, 1.00us or longer, the slowest 20 of "),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
}

#[test]
fn a_wrong_limit_is_an_error() {
    for limit in ["0", "x", "-1ms", "2h"] {
        latency("/run/none", &["any", &format!("--slow={limit}")]).fails_with(2, &["from 1us to 1h"]);
    }
}

#[test]
fn a_name_that_is_unknown_is_an_error_with_names() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("latency-name");
    latency(socket(&agent), &["no-such-pod"]).fails_with(1, &["no workload is called `no-such-pod`"]);
    latency(socket(&agent), &[&cgroup.name, "--container", "x"]).fails_with(1, &["is not a pod"]);
    latency(socket(&agent), &[]).fails_with(2, &["POD"]);
}

#[test]
fn one_that_received_nothing_and_one_that_goes_are_told() {
    let Some(agent) = agent() else { return };
    let cgroup = Cgroup::new("latency-idle");
    let name = cgroup.name.clone();
    let outcome = latency(socket(&agent), &[&name]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("Nothing that it received was read"), "{}", outcome.stdout);
    assert_eq!(document(socket(&agent), &name)["received"], Value::Array(Vec::new()));
    // The workload stays known for some time.
    cgroup.remove();
    let outcome = latency(socket(&agent), &[&name]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("gone"), "{}", outcome.stdout);
    assert_eq!(document(socket(&agent), &name)["workload"]["gone"], true);
}

#[test]
fn an_agent_that_does_not_watch_the_way_says_so() {
    let agent = Agent::configured("[domains]\nrxpath = false");
    let cgroup = Cgroup::new("latency-off");
    let outcome = latency(socket(&agent), &[&cgroup.name]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("rxpath is off: "), "{}", outcome.stdout);
    assert_eq!(document(socket(&agent), &cgroup.name)["received"], Value::Null);
}
