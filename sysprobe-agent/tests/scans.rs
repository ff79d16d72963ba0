//! Scans of all objects: with a million open files, with as many sockets as fit, of sockets that outlived
//! their cgroup, and of listeners without a file.

#[path = "scans/sockets.rs"]
mod sockets;
mod support;

use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use sysprobe_agent::probe::SOCKET_SCANS;
use sysprobe_agent::snapshot::{ScanSample, Snapshot, TcpSample};

use support::agent::{self, Agent};
use support::attach_modes::kernel;
use support::cgroup::Cgroup;
use support::place::{Flag, sleep_forever};
use support::process::{Load, cpus};
use support::totals::workload;
use support::{figure, left_out, shared, until};

/// The most objects that one read of a kernel iterator visits (`MAX_ITER_OBJECTS`).
const OF_A_READ: u64 = 1_000_000;
const FILES: u64 = OF_A_READ / 10 * 11;

/// One test at a time: agents notice the cgroups and sockets of all.
static HOST: Mutex<()> = Mutex::new(());

fn host() -> MutexGuard<'static, ()> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The other domains with programs are off: to load them takes an emulated machine half a minute.
fn sockets_only() -> String {
    agent::with_only(&["tcp", "net"])
}

/// The agent's numbers for a workload; zeros if it does not know the workload.
fn tcp(snapshot: &Snapshot, cgroup: &Cgroup) -> TcpSample {
    workload(snapshot, &cgroup.name).and_then(|workload| workload.tcp.clone()).unwrap_or_default()
}

fn listening(tcp: &TcpSample) -> u64 {
    tcp.sockets.by_state.get("listen").copied().unwrap_or(0)
}

fn scan(snapshot: &Snapshot, name: &str) -> ScanSample {
    let mut scans = snapshot.agent.scans.iter();
    scans.find(|scan| scan.scan == name).unwrap_or_else(|| panic!("no scan {name}")).clone()
}

/// The scan that covers sockets on this kernel.
fn socket_scan(snapshot: &Snapshot) -> ScanSample {
    let mut scans = snapshot.agent.scans.iter();
    let scan = scans.find(|scan| SOCKET_SCANS.contains(&scan.scan.as_str()));
    let scan = scan.unwrap_or_else(|| panic!("no scan of sockets: {:?}", snapshot.domains)).clone();
    // The fallback is for kernels that refuse iterators over maps. Only one such kernel is known: 6.18 of a
    // machine monitor.
    assert!(scan.scan == SOCKET_SCANS[0] || kernel() == (6, 18), "{} on this kernel", scan.scan);
    scan
}

/// Whether tracing programs can use socket storage; reports it if not.
fn has_socket_scan(what: &str) -> bool {
    let has = kernel() >= (5, 13);
    if !has {
        left_out(what, "this kernel has no socket storage for tracing programs");
    }
    has
}

/// Opens as many descriptors of one file as the process may have; returns their number.
fn open_all() -> u64 {
    raise_limit();
    // SAFETY: it takes a number, and what it gives is closed with the process.
    (0..FILES).take_while(|_| unsafe { libc::dup(0) } >= 0).count() as u64
}

/// Raises this process's descriptor limit to its hard limit.
fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the address is of a live value, and the numbers are plain.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// The number of processes that are needed to open all files.
fn processes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the address is of a live value.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    FILES.div_ceil(limit.rlim_max.saturating_sub(100))
}

#[test]
fn with_more_than_a_million_open_files_the_last_listener_is_known_by_the_best_attach_mode() {
    let _host = host();
    if kernel() < (6, 3) {
        left_out("sockets by tp_btf", "net has it from Linux 6.3 on");
        return;
    }
    let crowd = Cgroup::new("scan-crowd");
    let server = Cgroup::new("scan-server");
    let opened: Vec<(&AtomicU64, Load)> = (0..processes())
        .map(|_| {
            let opened: &AtomicU64 = shared();
            let load = Load::running(&crowd, &cpus(), || {
                opened.store(open_all(), Ordering::Release);
                sleep_forever();
            });
            (opened, load)
        })
        .collect();
    let all_of = |opened: &AtomicU64| {
        until("all files are open", || Some(opened.load(Ordering::Acquire)).filter(|files| *files != 0))
    };
    let files: u64 = opened.iter().map(|(opened, _)| all_of(opened)).sum();
    assert!(files > OF_A_READ, "{files} files");
    // The scan visits processes in the order of their ids: this one comes last.
    let ready = Flag::new();
    let _server = Load::running(&server, &cpus(), || {
        let _listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        ready.set();
        sleep_forever();
    });
    ready.wait();
    let agent = Agent::configured(&sockets_only());
    let snapshot = agent.snapshot();
    figure(&format!("{} processes have {files} files open", opened.len()));
    for name in ["tcp", "net"] {
        let domain = snapshot.domains.iter().find(|domain| domain.name == name).expect("a domain");
        assert_eq!((domain.up, domain.mode.as_str()), (true, "tp_btf"), "{name}: {}", domain.reason);
    }
    // Where the kernel cannot scan sockets alone, a scan of open files takes a while.
    until("the seed came to the last process, and a scan to its listener", || {
        (listening(&tcp(&agent.snapshot(), &server)) == 1).then_some(())
    });
    for program in ["tcp_seed", "net_seed"] {
        let ScanSample { passes, truncated, last_ns, longest_part_ns, .. } = scan(&snapshot, program);
        figure(&format!("{program}: {last_ns} ns, the longest part {longest_part_ns} ns"));
        assert_eq!((passes, truncated), (1, 0), "{program}");
        // Without parts, one read would visit nine of ten files.
        assert!(longest_part_ns < last_ns / 2, "{program} ends no parts");
    }
}

#[test]
fn an_mptcp_listener_that_is_older_than_the_agent_is_known_with_its_queue_and_its_drops() {
    const ADDRESS: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(127, 0, 26, 2), 4262);
    const BACKLOG: i32 = 5;
    /// A backlog of n lets n + 1 connections wait.
    const LIMIT: u64 = BACKLOG.unsigned_abs() as u64 + 1;
    let _host = host();
    if !has_socket_scan("listeners of MPTCP") {
        return;
    }
    if Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).is_err() {
        left_out("listeners of MPTCP", "this kernel has no MPTCP");
        return;
    }
    let server = Cgroup::new("scan-multipath");
    let ready = Flag::new();
    let _server = Load::running(&server, &cpus(), || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).expect("there is MPTCP");
        socket.bind(&ADDRESS.into()).expect("the address is ours");
        socket.listen(BACKLOG).expect("it listens");
        ready.set();
        sleep_forever();
    });
    ready.wait();
    let _waiting: Vec<_> = (0..3).map(|_| TcpStream::connect(ADDRESS).expect("something listens")).collect();
    let agent = Agent::configured(&sockets_only());
    // A snapshot waits for a scan for a short time only.
    let known = until("a scan has come to it", || {
        Some(tcp(&agent.snapshot(), &server)).filter(|known| listening(known) == 1)
    });
    let queue = (known.sockets.accept_queue, known.sockets.accept_queue_limit);
    assert_eq!((queue, known.accept_drops), ((3, LIMIT), 0));
    // The server accepts none, so most of these are dropped.
    let _too_many: Vec<_> = (0..2 * LIMIT)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_nonblocking(true).expect("it can be");
            drop(socket.connect(&ADDRESS.into()));
            socket
        })
        .collect();
    until("connections are dropped", || (tcp(&agent.snapshot(), &server).accept_drops > 0).then_some(()));
    assert_eq!(tcp(&agent.snapshot(), &server).sockets.accept_queue, LIMIT);
}

#[test]
fn a_socket_that_outlives_its_cgroup_and_the_grace_costs_one_walk_over_the_cgroups() {
    let _host = host();
    if !has_socket_scan("sockets without their cgroup") {
        return;
    }
    let agent = Agent::configured(&format!("grace_seconds = 1\n{}", sockets_only()));
    let (old, new) = (Cgroup::new("scan-orphan-old"), Cgroup::new("scan-orphan-new"));
    let ready = Flag::new();
    let load = Load::running(&old, &cpus(), || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let _client = TcpStream::connect(listener.local_addr().expect("bound")).expect("something listens");
        let _server = listener.accept().expect("a connection");
        ready.set();
        sleep_forever();
    });
    ready.wait();
    until("its sockets are known", || (listening(&tcp(&agent.snapshot(), &old)) == 1).then_some(()));
    new.adopt(load.pid);
    let name = old.name.clone();
    old.remove();
    until("the grace is over", || workload(&agent.snapshot(), &name).is_none().then_some(()));
    let unknown = |snapshot: &Snapshot| {
        let unknown = snapshot.workloads.iter().find(|row| row.workload.container == "unknown");
        unknown.and_then(|row| row.tcp.as_ref()).map_or(0, listening)
    };
    until("its sockets are of unknown owner", || (unknown(&agent.snapshot()) == 1).then_some(()));
    let before = scan(&agent.snapshot(), "cgroups").passes;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        agent.scrape();
        thread::sleep(Duration::from_millis(100));
    }
    let snapshot = agent.snapshot();
    let walks = scan(&snapshot, "cgroups").passes - before;
    figure(&format!("{walks} walks in five seconds"));
    assert!(walks <= 1, "{walks} walks in five seconds");
    assert_eq!(unknown(&snapshot), 1);
}
