//! The agent from its start to its end, the bad ends included: what it leaves in the kernel and on the disk.

mod support;

use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::agent::{Agent, Options};
use support::bpf::Objects;
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::totals::Totals;
use support::{command, figure, http, until};

/// Waits until the kernel has freed what an agent held: it does so after a grace period of its own.
fn assert_gone(objects: &Objects) {
    assert!(objects.programs.len() >= 4 && objects.maps.len() >= 4, "an agent holds more: {objects:?}");
    until("the kernel frees programs and maps", || objects.left().is_empty().then_some(()));
}

#[test]
fn an_agent_that_is_killed_leaves_no_program_or_map_behind() {
    let agent = Agent::start();
    let objects = Objects::of_process(agent.pid());
    assert_eq!(objects.left(), objects, "they are loaded");
    agent.kill();
    assert_gone(&objects);
}

#[test]
fn an_agent_that_is_asked_to_stop_detaches_and_removes_its_socket() {
    let mut agent = Agent::start();
    let objects = Objects::of_process(agent.pid());
    agent.terminate();
    assert_eq!(agent.wait().code(), Some(0));
    assert!(!agent.socket().exists(), "the socket is removed");
    assert_gone(&objects);
}

#[test]
fn the_socket_of_a_killed_agent_is_taken_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("agent.sock");
    let options = Options { socket: Some(&socket), ..Options::default() };
    Agent::with(options).kill();
    assert!(socket.exists(), "a killed agent cannot remove its socket");
    let agent = Agent::with(options);
    assert!(!agent.snapshot().workloads.is_empty());
    let mode = socket.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is for root alone");
}

#[test]
fn a_second_agent_on_the_same_port_says_which_and_what_to_do() {
    let agent = Agent::start();
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("agent.sock");
    let address = format!("127.0.0.1:{}", agent.port);
    let mut second = command::sysprobe();
    second.args(["agent", "--listen", &address, "--socket"]).arg(&socket);
    command::run(&mut second).fails_with(1, &[&address, "--listen"]);
    assert_eq!(agent.get("/readyz").expect("the first one lives").status, 200);
}

#[test]
fn a_second_agent_on_the_same_socket_says_which_and_what_to_do() {
    let agent = Agent::start();
    let socket = agent.socket().to_str().expect("UTF-8");
    let second = command::run_with(&["agent", "--listen", "127.0.0.1:0", "--socket", socket]);
    second.fails_with(1, &[socket, "--socket"]);
    assert!(!agent.snapshot().workloads.is_empty(), "the first one still answers there");
}

#[test]
fn two_agents_on_one_node_have_the_same_numbers() {
    let agents = [Agent::start(), Agent::start()];
    let cgroup = Cgroup::new("two");
    let load = Load::stopped(&cgroup, &cpus(), process::sleep_often);
    let of = |agent: &Agent| Totals::of_workload(&agent.snapshot(), &cgroup.name);
    let before = [of(&agents[0]), of(&agents[1])];
    load.resume();
    until("it has run", || (load.totals().voluntary > 100).then_some(()));
    load.freeze();
    let [one, other] = [of(&agents[0]).since(before[0]), of(&agents[1]).since(before[1])];
    figure(&format!("two agents: {one:?}"));
    assert!(one.arrivals > 100);
    assert_eq!(one, other);
}

#[test]
fn readiness_is_told_as_it_is() {
    let agent = Agent::spawn(Options::default());
    let mut seen = Vec::new();
    until("the agent is ready", || {
        let answer = agent.get("/readyz").expect("it listens");
        seen.push(answer.status);
        if answer.status == 200 {
            return Some(());
        }
        assert_eq!(answer.status, 503, "{}", answer.body);
        None
    });
    figure(&format!("readyz: {seen:?}"));
    assert_eq!(agent.get("/metrics").expect("an answer").status, 200, "ready is ready for a scrape");
    assert_eq!(agent.get("/healthz").expect("an answer").status, 200);
    let nothing = agent.get("/nothing").expect("an answer");
    assert_eq!(nothing.status, 404);
    assert!(nothing.body.contains("/metrics"), "it says what there is: {}", nothing.body);
}

/// Scrapes until nobody answers; every answer is a whole one.
fn scrape_to_the_end(port: u16, started: &AtomicBool) -> usize {
    let mut answers = 0;
    loop {
        match http::get(port, "/metrics", "application/openmetrics-text") {
            Ok(answer) => {
                assert_eq!(answer.status, 200, "{}", answer.body);
                assert!(answer.body.ends_with("# EOF\n"), "torn: {}", answer.body);
                answers += 1;
                started.store(true, Ordering::Relaxed);
            }
            // A connection that the agent had not taken up yet.
            Err(error) => match error.kind() {
                ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                    return answers;
                }
                _ => panic!("{error}"),
            },
        }
    }
}

#[test]
fn a_scrape_that_meets_the_end_is_answered_whole_or_not_at_all() {
    for _ in 0..3 {
        let mut agent = Agent::start();
        let objects = Objects::of_process(agent.pid());
        let (port, started) = (agent.port, AtomicBool::new(false));
        let answers: usize = thread::scope(|scope| {
            let scrapers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| scrape_to_the_end(port, &started))).collect();
            until("scrapes are under way", || started.load(Ordering::Relaxed).then_some(()));
            agent.terminate();
            scrapers.into_iter().map(|scraper| scraper.join().expect("whole answers")).sum()
        });
        figure(&format!("SIGTERM: {answers} whole answers"));
        assert_eq!(agent.wait().code(), Some(0), "{}", agent.log());
        assert_gone(&objects);
    }
}

#[test]
fn a_reader_that_hangs_does_not_keep_the_agent_from_ending() {
    let mut agent = Agent::start();
    let silent = http::connect(agent.port).expect("a connection");
    let mut hanging = http::connect(agent.port).expect("a connection");
    hanging.write_all(b"GET /metrics HTTP/1.1\r\nhost: ").expect("half a request");
    // Somebody else is answered meanwhile.
    assert_eq!(agent.get("/readyz").expect("an answer").status, 200);
    agent.terminate();
    assert_eq!(agent.wait().code(), Some(0), "{}", agent.log());
    drop((silent, hanging));
}
