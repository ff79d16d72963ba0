//! As many sockets as fit: each is counted exactly once, and no part of the scan occupies a CPU for long.

use std::env;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sysprobe_agent::snapshot::Snapshot;

use super::support::agent::Agent;
use super::support::cgroup::Cgroup;
use super::support::place::{Flag, sleep_forever};
use super::support::process::{self, Load, cpus};
use super::support::totals::lost;
use super::support::{figure, until};
use super::{has_socket_scan, host, raise_limit, socket_scan, sockets_only, tcp};

/// Few enough for an emulated machine. Set `SYSPROBE_TEST_SOCKETS` for more.
const SOCKETS: usize = 10_000;
/// Connections of a process, which holds both ends of each and a listener. This stays below the descriptor
/// limit of small machines.
const CONNECTIONS: usize = 9_900;
/// The longest time that a part of a scan may take, apart from disturbances of the machine.
const LONGEST_PART: Duration = Duration::from_millis(5);

fn wanted() -> usize {
    env::var("SYSPROBE_TEST_SOCKETS").map_or(SOCKETS, |text| text.parse().expect("a number"))
}

/// Room for the storage of all sockets, even if they come within a second. One takes less than 400 bytes, and
/// each of five stores is granted a fifth of half of the limit.
fn configuration() -> String {
    const EACH: usize = 10 * 400;
    let mebibytes = (wanted() * EACH).div_ceil(1 << 20) + 64;
    format!("storage_mebibytes = {mebibytes}\n{}", sockets_only())
}

/// Makes this many connections to itself. They stay open as long as the returned values live.
fn connect(process: usize, connections: usize) -> (TcpListener, Vec<[TcpStream; 2]>) {
    let [.., high, low] = process.to_be_bytes();
    let listener = TcpListener::bind((Ipv4Addr::new(127, 1, high, low), 0)).expect("the address is ours");
    let address = listener.local_addr().expect("it is bound");
    let connect = |_| {
        let client = TcpStream::connect(address).expect("something listens");
        [client, listener.accept().expect("a connection").0]
    };
    let connections = (0..connections).map(connect).collect();
    (listener, connections)
}

/// Processes with connections to themselves.
struct Crowd {
    cgroup: Cgroup,
    listeners: u64,
    sockets: u64,
    _loads: Vec<Load>,
}

impl Crowd {
    /// Starts the processes and waits until all are connected.
    fn new(name: &str) -> Self {
        raise_limit();
        let processes = wanted().div_ceil(2 * CONNECTIONS);
        let connections = wanted() / 2 / processes;
        let cgroup = Cgroup::new(name);
        let connecting: Vec<(&Flag, Load)> = (0..processes)
            .map(|process| {
                let connected = Flag::new();
                let load = Load::running(&cgroup, &cpus(), || {
                    let _open = connect(process, connections);
                    connected.set();
                    sleep_forever();
                });
                (connected, load)
            })
            .collect();
        let connected = |(connected, load): (&Flag, Load)| {
            connected.wait();
            load
        };
        Self {
            cgroup,
            listeners: processes as u64,
            sockets: (2 * processes * connections) as u64,
            _loads: connecting.into_iter().map(connected).collect(),
        }
    }

    /// Whether an agent has counted all sockets; it must never count more.
    fn is_counted(&self, snapshot: &Snapshot) -> bool {
        let states = tcp(snapshot, &self.cgroup).sockets.by_state;
        let established = states.get("established").copied().unwrap_or(0);
        assert!(established <= self.sockets, "{established} of {} are counted", self.sockets);
        established == self.sockets && states.get("listen") == Some(&self.listeners)
    }
}

/// While `body` runs, a real-time thread on each CPU wakes up every millisecond. Returns its longest delay,
/// or `None` if real-time priority is not allowed.
fn latest(body: impl FnOnce()) -> Option<Duration> {
    const PERIOD: Duration = Duration::from_millis(1);
    let (late, is_over, is_allowed) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(true));
    thread::scope(|scope| {
        for cpu in cpus() {
            let (late, is_over, is_allowed) = (&late, &is_over, &is_allowed);
            scope.spawn(move || {
                process::move_this_thread_to(cpu);
                let parameter = libc::sched_param { sched_priority: 50 };
                // SAFETY: plain numbers and a pointer to one that lives; 0 is the calling thread.
                let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
                is_allowed.fetch_and(result == 0, Ordering::Relaxed);
                while !is_over.load(Ordering::Relaxed) {
                    let due = Instant::now() + PERIOD;
                    thread::sleep(PERIOD);
                    let behind = Instant::now().saturating_duration_since(due);
                    late.fetch_max(u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            });
        }
        body();
        is_over.store(true, Ordering::Relaxed);
    });
    is_allowed.into_inner().then(|| Duration::from_nanos(late.into_inner()))
}

#[test]
fn of_many_sockets_each_is_counted_once_and_no_part_of_a_scan_keeps_a_cpu_for_long() {
    let _host = host();
    if !has_socket_scan("all sockets") {
        return;
    }
    let agent = Agent::configured(&configuration());
    let crowd = Crowd::new("scan-sockets");
    until("all sockets are counted", || crowd.is_counted(&agent.snapshot()).then_some(()));
    let mut passes = Vec::new();
    let begun = Instant::now();
    let scraped = latest(|| {
        while begun.elapsed() < Duration::from_secs(5) || passes.len() < 2 {
            passes.push(socket_scan(&agent.snapshot()));
            passes.dedup();
            thread::sleep(Duration::from_millis(100));
        }
    });
    // For as long as before, because rare disturbances count, too. The agent would scan unasked.
    drop(agent);
    let span = begun.elapsed();
    let idle = latest(|| thread::sleep(span));
    // A virtual machine's host may take the CPU away during a part, so the shortest value of all passes
    // counts.
    let longest = passes.iter().map(|pass| pass.longest_part_ns).min().map(Duration::from_nanos);
    let longest = longest.expect("there were passes");
    let took = passes.iter().map(|pass| pass.last_ns).min().map(Duration::from_nanos);
    figure(&format!(
        "{} sockets: {} passes, the shortest in {took:?}, with parts of at most {longest:?}; in {span:?}, \
         a thread of real-time priority wakes up at most {scraped:?} late with scans, and {idle:?} without",
        crowd.sockets,
        passes.len(),
    ));
    assert!(passes.iter().all(|pass| pass.truncated == 0), "{passes:?}");
    let disturbed = idle.unwrap_or_default();
    assert!(longest < LONGEST_PART + disturbed, "a part took {longest:?}, disturbances {disturbed:?}");
}

/// The kernel creates a socket's storage when the first program needs it. If two need it at the same time,
/// the kernel refuses one of them (`bpf_local_storage_alloc`).
#[test]
fn agents_that_start_at_the_same_time_know_all_sockets() {
    const AGENTS: usize = 4;
    let _host = host();
    if !has_socket_scan("sockets that agents meet at the same time") {
        return;
    }
    let crowd = Crowd::new("scan-together");
    let agents: Vec<Agent> = thread::scope(|scope| {
        let starts = [(); AGENTS].map(|()| scope.spawn(|| Agent::configured(&sockets_only())));
        starts.into_iter().map(|start| start.join().expect("the agent starts")).collect()
    });
    for agent in agents {
        let known = until("all sockets are known", || {
            let snapshot = agent.snapshot();
            crowd.is_counted(&snapshot).then_some(snapshot)
        });
        for domain in ["tcp", "net"] {
            assert_eq!(lost(&known, domain, "no_memory"), 0, "{domain}");
        }
    }
}
