//! The agent from start to end, including abnormal ends: what it leaves behind in the kernel and on disk.

mod support;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::agent::{Agent, Options};
use support::bpf::Objects;
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::totals::Totals;
use support::{command, figure, http, until};

/// Waits until the kernel has freed an agent's objects, which happens after an RCU grace period.
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
fn an_agent_whose_socket_was_removed_keeps_its_name() {
    let agent = Agent::start();
    fs::remove_file(agent.socket()).expect("it is there");
    second_agent_on(agent.socket()).fails_with(1, &["another agent", "--socket"]);
}

#[test]
fn a_hangup_does_not_end_the_agent() {
    let agent = Agent::start();
    agent.signal(libc::SIGHUP);
    until("the agent says so", || agent.log().contains("SIGHUP is ignored").then_some(()));
    assert_eq!(agent.get("/readyz").expect("an answer").status, 200);
}

#[test]
fn an_agent_that_has_lost_its_log_goes_on() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let agent = Agent::prepared(Options::default(), |command| {
        command.stderr(writer);
        drop(reader);
    });
    // The signal makes it write to the log.
    agent.signal(libc::SIGHUP);
    assert_eq!(agent.get("/readyz").expect("it lives").status, 200);
    assert!(!agent.snapshot().workloads.is_empty());
}

fn second_agent_on(socket: &Path) -> command::Outcome {
    let mut second = command::sysprobe();
    command::run(second.args(["agent", "--listen", "127.0.0.1:0", "--socket"]).arg(socket))
}

#[test]
fn a_file_that_is_no_socket_is_never_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("important.txt");
    fs::write(&file, "important").expect("written");
    let link = directory.path().join("link");
    let abandoned = directory.path().join("abandoned.sock");
    symlink(&abandoned, &link).expect("made");
    drop(UnixListener::bind(&abandoned).expect("bound"));
    for path in [&file, &link] {
        let says = [path.to_str().expect("UTF-8"), "not a socket", "--socket"];
        second_agent_on(path).fails_with(1, &says);
    }
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "important");
    assert!(link.is_symlink() && abandoned.exists());
}

#[test]
fn a_socket_that_is_too_busy_to_answer_is_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("agent.sock");
    let listener = UnixListener::bind(&socket).expect("bound");
    // SAFETY: the descriptor is open; this only makes the queue shorter.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let _in_the_queue = UnixStream::connect(&socket).expect("one fits");
    let socket_name = socket.to_str().expect("UTF-8");
    second_agent_on(&socket).fails_with(1, &[socket_name, "in use", "--socket"]);
    assert!(socket.exists());
    let top = command::run_with(&["top", "--once", "--socket", socket_name]);
    top.fails_with(1, &[socket_name, "cannot connect to the agent"]);
}

#[test]
fn an_agent_that_ends_leaves_the_socket_of_its_successor() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("agent.sock");
    let options = Options { socket: Some(&socket), ..Options::default() };
    let mut first = Agent::with(options);
    // As programs do that clean up directories.
    for file in [&socket, &directory.path().join("agent.sock.lock")] {
        fs::remove_file(file).expect("it is there");
    }
    let second = Agent::with(options);
    first.terminate();
    assert_eq!(first.wait().code(), Some(0), "{}", first.log());
    assert!(!second.snapshot().workloads.is_empty(), "it still answers there");
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
    // Some of the hundred were counted before.
    assert!(one.arrivals > 50);
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

/// Scrapes until the agent no longer answers; every answer must be complete.
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
            // The agent had not accepted this connection yet.
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
    // Another client gets an answer meanwhile.
    assert_eq!(agent.get("/readyz").expect("an answer").status, 200);
    agent.terminate();
    assert_eq!(agent.wait().code(), Some(0), "{}", agent.log());
    drop((silent, hanging));
}

/// Sends half a request on `count` connections each to the agent's port and socket.
fn hang(agent: &Agent, count: usize) -> (Vec<TcpStream>, Vec<UnixStream>) {
    const HALF: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: ";
    let tcp = (0..count).map(|_| {
        let mut stream = http::connect(agent.port).expect("a connection");
        stream.write_all(HALF).expect("half a request");
        stream
    });
    let local = (0..count).map(|_| {
        let mut stream = UnixStream::connect(agent.socket()).expect("a connection");
        stream.write_all(HALF).expect("half a request");
        stream
    });
    (tcp.collect(), local.collect())
}

/// Whether a probe, a scrape and `top` are all answered within the limit. On a busy machine they may take
/// longer by chance, so one of three attempts is enough.
fn answers_within(agent: &Agent, limit: Duration) -> bool {
    let start = Instant::now();
    for path in ["/healthz", "/metrics"] {
        assert_eq!(agent.get(path).expect("an answer").status, 200);
    }
    assert!(!agent.snapshot().workloads.is_empty());
    figure(&format!("answers beside hanging readers: {:?}", start.elapsed()));
    start.elapsed() < limit
}

#[test]
fn readers_that_hang_do_not_keep_others_from_their_answers() {
    let agent = Agent::start();
    // Three times the agent's connection limit, and a time far below the five seconds that a connection may
    // hang.
    let is_in_time = (0..3).any(|_| {
        let _hanging = hang(&agent, 100);
        answers_within(&agent, Duration::from_secs(4))
    });
    assert!(is_in_time, "three times, answers came too late");
}

/// Limits the descriptors of a process.
fn limit_descriptors(pid: u32, count: u64) {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: the address is of a live value, and no old limit is asked for.
    let result = unsafe {
        libc::prlimit(pid.cast_signed(), libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn an_agent_without_descriptors_goes_on_when_it_has_some_again() {
    let agent = Agent::start();
    let in_use = fs::read_dir(format!("/proc/{}/fd", agent.pid())).expect("it runs").count();
    // A few more, for the files that a scrape reads.
    limit_descriptors(agent.pid(), in_use as u64 + 8);
    let complaints = || agent.log().matches("cannot be accepted").count();
    let is_in_time = (0..3).any(|_| {
        let before = complaints();
        let hanging = hang(&agent, 20);
        until("the agent notices", || (complaints() > before).then_some(()));
        let before = complaints();
        thread::sleep(Duration::from_secs(1));
        let more = complaints() - before;
        assert!(more < 20, "it spins: {more} tries in a second");
        // Their descriptors become free, and the agent notices that queued connections have ended.
        drop(hanging);
        answers_within(&agent, Duration::from_secs(8))
    });
    assert!(is_in_time, "three times, answers came too late");
}

/// One request and answer on a connection that stays open.
fn ask_and_keep(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").expect("the connection is open");
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        answer.push(byte[0]);
    }
    String::from_utf8(answer).expect("UTF-8")
}

#[test]
fn a_connection_is_kept_between_scrapes_but_not_for_half_a_request() {
    let agent = Agent::start();
    let mut kept = http::connect(agent.port).expect("a connection");
    ask_and_keep(&mut kept);
    let start = Instant::now();
    let mut half = http::connect(agent.port).expect("a connection");
    half.write_all(b"GET /metr").expect("half a request");
    assert_eq!(half.read(&mut [0]).expect("an orderly end"), 0);
    let took = start.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(8)).contains(&took), "{took:?}");
    // Longer than the limits for reading a request and sending an answer.
    thread::sleep(Duration::from_secs(11).saturating_sub(took));
    ask_and_keep(&mut kept);
}

/// Sends many requests and reads no answers, until the agent cannot send any more.
fn clog(stream: &mut (impl Write + ?Sized), path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").repeat(100);
    // The kernel's buffers hold a few megabytes on each side.
    let written = (0..20_000).try_for_each(|_| stream.write_all(request.as_bytes()));
    assert!(written.is_err(), "the agent took two million requests");
}

#[test]
fn readers_that_hang_at_both_doors_cost_the_end_one_time_limit() {
    let mut agent = Agent::start();
    let mut port = http::connect(agent.port).expect("a connection");
    let mut socket = UnixStream::connect(agent.socket()).expect("a connection");
    port.set_write_timeout(Some(Duration::from_secs(1))).expect("set");
    socket.set_write_timeout(Some(Duration::from_secs(1))).expect("set");
    clog(&mut socket, "/v1/snapshot");
    clog(&mut port, "/metrics");
    agent.terminate();
    let start = Instant::now();
    assert_eq!(agent.wait().code(), Some(0), "{}", agent.log());
    figure(&format!("the end with clogged readers took {:?}", start.elapsed()));
    assert!(start.elapsed() < Duration::from_secs(10), "two limits take as long: {:?}", start.elapsed());
}
