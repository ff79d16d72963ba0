//! The port on the pod network, which every pod of a cluster can reach. No client may harm the node or other
//! clients.

mod support;

#[path = "port/crowd.rs"]
mod crowd;

use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use support::agent::Agent;
use support::process::Traced;
use support::reader::{self, Answer, Kept, SCRAPE};
use support::samples::Samples;
use support::{figure, until};

const PROBE: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
const REFUSED: &str = "sysprobe_agent_refused_requests_total";
const READINESS: &str = "GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n";

/// A probe that is repeated as the kubelet repeats it, which fails a container after three. If this thread is
/// stopped before it sends its request, the flood may take the connection's place.
fn probe(port: u16) -> io::Result<Answer> {
    let ask = || reader::ask_anew(port, PROBE).inspect_err(|error| figure(&format!("a probe: {error}")));
    ask().or_else(|_| ask()).or_else(|_| ask())
}

#[test]
fn a_flood_of_connections_keeps_no_scrape_and_no_probe_from_its_answer() {
    let agent = Agent::start();
    let mut prometheus = Kept::new(agent.port);
    assert_eq!(prometheus.ask(SCRAPE).expect("an answer").status, 200);
    let flood = crowd::Flood::start(agent.port);
    let mut slowest = Duration::ZERO;
    for scrape in 0..20 {
        for _ in 0..5 {
            let asked = Instant::now();
            let probe = probe(agent.port).expect("a probe is answered");
            assert_eq!(probe.status, 200);
            slowest = slowest.max(asked.elapsed());
        }
        let answer = prometheus.ask(SCRAPE).unwrap_or_else(|error| panic!("scrape {scrape}: {error}"));
        assert!(answer.status == 200 && answer.body.ends_with(b"# EOF\n"), "{}", answer.head);
        thread::sleep(Duration::from_millis(50));
    }
    let connects = flood.end();
    figure(&format!("{connects} connects; the slowest of 100 probes took {slowest:?}"));
    assert_eq!(prometheus.lost, 0, "the connection that is kept gives way to none that is silent");
}

#[test]
fn connections_of_one_address_take_no_place_of_anothers() {
    let agent = Agent::start();
    let ask = |address| {
        let mut stream = reader::connect_from(address, agent.port)?;
        let answer = reader::ask(&mut stream, SCRAPE)?;
        io::Result::Ok((stream, answer.status))
    };
    // Each connection stays open after a scrape: the number for a single address is limited.
    let strangers: Vec<(TcpStream, u16)> = (0..120).filter_map(|_| ask(reader::stranger(1)).ok()).collect();
    let refused = strangers.iter().filter(|(_, status)| *status == 503).count();
    figure(&format!("{} scrapes of one address, {refused} refused", strangers.len()));
    let mut prometheus = Kept::new(agent.port);
    let scrapes = [(); 3].map(|()| prometheus.ask(SCRAPE).expect("an answer"));
    assert!(scrapes.iter().all(|scrape| scrape.status == 200), "{scrapes:?}");
    let samples = Samples::parse(&String::from_utf8_lossy(&scrapes[2].body));
    assert_eq!(
        samples.value(REFUSED, &[("reason", "no_place")]),
        Some(refused as f64),
        "as many as were told"
    );
    drop((0..120).map(|_| ask(reader::stranger(2))).collect::<Vec<_>>());
    assert_eq!(prometheus.ask(SCRAPE).expect("an answer").status, 200);
    assert_eq!(prometheus.lost, 0, "it has its place");
    drop(strangers);
}

/// The id of the thread that owns the engine, found by name. A new thread names itself once it runs, and a
/// list of threads may lack one while others end.
fn engines_thread(pid: u32) -> i32 {
    let is_engine =
        |thread: &Path| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "engine");
    until("the engine's thread has its name", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the agent runs");
        let engine = threads.filter_map(|thread| Some(thread.ok()?.path())).find(|path| is_engine(path))?;
        engine.file_name()?.to_str()?.parse().ok()
    })
}

#[test]
fn an_engine_that_hangs_fails_the_probes_and_nothing_waits_for_it_without_end() {
    let agent = Agent::start();
    let status = |request| reader::ask_anew(agent.port, request).expect("an answer").status;
    assert_eq!((status(PROBE), status(READINESS)), (200, 200));
    let engine = engines_thread(agent.pid());
    let start = Instant::now();
    let thread = Traced::stop(engine);
    let answer = reader::ask_anew(agent.port, SCRAPE).expect("an answer");
    figure(&format!("a scrape of an engine that hangs: {} after {:?}", answer.status, start.elapsed()));
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("retry-after: "), "{}", answer.head);
    assert!(start.elapsed() < Duration::from_secs(12), "Prometheus waits for ten seconds");
    assert_eq!(status(PROBE), 200, "not yet: a scan of a huge node takes its time");
    until("the probes fail", || (status(PROBE) == 503 && status(READINESS) == 503).then_some(()));
    figure(&format!("the probes fail after {:?}", start.elapsed()));
    assert!(start.elapsed() > Duration::from_secs(29), "it may have been a long scan");
    let asked = Instant::now();
    assert_eq!(status(SCRAPE), 503);
    assert!(asked.elapsed() < Duration::from_secs(8), "what is known to hang is not waited for");
    drop(thread);
    // A scrape may be late while the engine catches up.
    until("all find it well again", || {
        [PROBE, READINESS, SCRAPE].into_iter().all(|request| status(request) == 200).then_some(())
    });
    let refused = |reason| agent.scrape().value(REFUSED, &[("reason", reason)]).expect("a series");
    assert!(refused("late") >= 1.0 && refused("engine_hangs") >= 3.0 && refused("no_place") == 0.0);
}
