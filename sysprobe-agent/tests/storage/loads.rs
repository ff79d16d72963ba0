//! Programs that connect and accept, fork, or open files many times, and record failures and the time of each
//! call.

use std::fmt;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::support::cgroup::Cgroup;
use crate::support::network::Namespace;
use crate::support::place::{Flag, Place, sleep_forever};
use crate::support::process::Load;
use crate::support::{SharedNumbers, shared, until};

/// Connections of one process, which needs two descriptors for each.
const OF_A_PROCESS: u64 = 8_000;
/// Descriptors of a process, its other ones included; as many as a host allows without privileges.
const DESCRIPTORS: u64 = 20_000;
/// More memory than a connection needs: two sockets, each with its file.
const CONNECTION_BYTES: u64 = 12 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) forks: u64,
    pub(crate) opens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Connect,
    Fork,
    Open,
}

/// The result of a load. The times are only logged, not asserted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) done: u64,
    pub(crate) failures: u64,
    /// `ListenDrops` of the namespace, which has no other connections.
    pub(crate) listen_drops: u64,
    p50_ns: u64,
    p999_ns: u64,
    longest_ns: u64,
}

#[derive(Debug)]
struct Told {
    done: AtomicU64,
    failures: AtomicU64,
    listen_drops: AtomicU64,
    times: [AtomicU64; 3],
}

// SAFETY: atomic numbers, for which zero is a value.
unsafe impl SharedNumbers for Told {}

/// Whether to run the full load, which takes minutes on an emulated machine and a gigabyte of memory for
/// sockets.
pub(crate) fn is_full() -> bool {
    std::env::var_os("SYSPROBE_TEST_FULL").is_some()
}

impl Counts {
    /// A part of the full load, unless the full one is requested. Storage for all of its sockets, some 600
    /// bytes for each, would take more than the test's `ROOM`, so an agent that exceeds its budget is killed.
    pub(crate) fn of_environment() -> Self {
        let full = Self { connections: 50_000, forks: 20_000, opens: 20_000 };
        if is_full() {
            return full;
        }
        Self { connections: full.connections / 4, forks: full.forks / 10, opens: full.opens / 10 }
    }

    const fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Connect => self.connections,
            Kind::Fork => self.forks,
            Kind::Open => self.opens,
        }
    }
}

/// As many connections as fit into half of the available memory, but no more than `most`.
pub(crate) fn that_fit(most: u64) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).expect("what is available");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    most.min((kib << 10) / 2 / CONNECTION_BYTES)
}

/// Runs one kind of load. Everything that it opens stays open until all is done.
pub(crate) fn run(kind: Kind, counts: Counts, cgroup: &Cgroup, namespace: &Namespace) -> Outcome {
    let at_once = if kind == Kind::Connect { OF_A_PROCESS } else { u64::MAX };
    let (mut left, mut all, mut loads) = (counts.of(kind), Vec::new(), Vec::new());
    while left > 0 {
        let count = left.min(at_once);
        left -= count;
        let (load, told) = start(kind, count, cgroup, namespace);
        all.push(told.outcome());
        loads.push(load);
    }
    all.into_iter().reduce(Outcome::and).expect("there is something to do")
}

/// Opens connections that stay open until the result is dropped.
pub(crate) fn hold(counts: Counts, cgroup: &Cgroup, namespace: &Namespace) -> Vec<Load> {
    let processes = counts.connections.div_ceil(OF_A_PROCESS);
    let each = counts.connections / processes;
    (0..processes).map(|_| start(Kind::Connect, each, cgroup, namespace).0).collect()
}

/// Returns when all calls are done; the process stays, with everything that it has opened.
fn start(kind: Kind, count: u64, cgroup: &Cgroup, namespace: &Namespace) -> (Load, &'static Told) {
    let (told, done): (&'static Told, _) = (shared(), Flag::new());
    let load = Place { cgroup, namespace }.run(|| {
        raise_limit();
        let mut calls = Calls::default();
        let held = match kind {
            Kind::Connect => calls.connect(count),
            Kind::Fork => calls.fork(count),
            Kind::Open => calls.open(count),
        };
        calls.tell(told);
        done.set();
        sleep_forever();
        drop(held);
    });
    until("the load has done its part", || done.is_set().then_some(()));
    (load, told)
}

/// Raises the descriptor limit of the calling process, if allowed.
fn raise_limit() {
    let limit = libc::rlimit { rlim_cur: DESCRIPTORS, rlim_max: DESCRIPTORS };
    // SAFETY: the address is of a live value. Where it is refused, connections fail, which shows.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}

/// The times of successful calls, and the number of failures.
#[derive(Default)]
struct Calls {
    times: Vec<u64>,
    failures: u64,
}

impl Calls {
    fn note(&mut self, started: Instant, went_well: bool) {
        if went_well {
            self.times.push(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        } else {
            self.failures += 1;
        }
    }

    /// Accepts each connection at once, and sends a byte over it.
    fn connect(&mut self, count: u64) -> Vec<TcpStream> {
        use std::io::{Read as _, Write as _};
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("an address");
        let address = listener.local_addr().expect("it is bound");
        let mut held = Vec::new();
        for _ in 0..count {
            let started = Instant::now();
            let connected = TcpStream::connect(address).and_then(|mut here| {
                let (mut there, _) = listener.accept()?;
                here.write_all(b"?")?;
                there.read_exact(&mut [0])?;
                Ok([here, there])
            });
            self.note(started, connected.is_ok());
            held.extend(connected.into_iter().flatten());
        }
        held
    }

    fn fork(&mut self, count: u64) -> Vec<TcpStream> {
        for _ in 0..count {
            let started = Instant::now();
            // SAFETY: the child ends at once and touches nothing.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: see above.
                unsafe { libc::_exit(0) };
            }
            let mut status = 0;
            // SAFETY: waits for the child that was just made.
            let ended = pid > 0 && unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid;
            self.note(started, ended && status == 0);
        }
        Vec::new()
    }

    fn open(&mut self, count: u64) -> Vec<TcpStream> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        for _ in 0..count {
            let started = Instant::now();
            let opened = File::create(&path).is_ok() && File::open(&path).is_ok();
            self.note(started, opened);
        }
        Vec::new()
    }

    fn tell(mut self, told: &Told) {
        self.times.sort_unstable();
        let at = |per_mille: usize| self.times.get(self.times.len() * per_mille / 1000).copied();
        let longest = self.times.last().copied();
        for (place, time) in told.times.iter().zip([at(500), at(999).or(longest), longest]) {
            place.store(time.unwrap_or(0), Ordering::Relaxed);
        }
        told.done.store(self.times.len() as u64, Ordering::Relaxed);
        told.failures.store(self.failures, Ordering::Relaxed);
        told.listen_drops.store(listen_drops(), Ordering::Relaxed);
    }
}

/// `ListenDrops` of the process's network namespace.
fn listen_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/netstat").expect("netstat");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
    let place = names.split(' ').position(|name| name == "ListenDrops").expect("a kernel since 2.6");
    numbers.split(' ').nth(place).and_then(|number| number.parse().ok()).expect("a number")
}

impl Told {
    fn outcome(&self) -> Outcome {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let [p50_ns, p999_ns, longest_ns] = [0, 1, 2].map(|place| load(&self.times[place]));
        let (done, failures) = (load(&self.done), load(&self.failures));
        Outcome { done, failures, listen_drops: load(&self.listen_drops), p50_ns, p999_ns, longest_ns }
    }
}

impl Outcome {
    /// Adds up the counts and keeps the larger of each quantile: not a real quantile of both, but it shows
    /// what was slow.
    fn and(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            failures: self.failures + other.failures,
            listen_drops: self.listen_drops.max(other.listen_drops),
            p50_ns: self.p50_ns.max(other.p50_ns),
            p999_ns: self.p999_ns.max(other.p999_ns),
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns / 1000;
        write!(
            formatter,
            "{} done, {} failed, ListenDrops {}; median {} us, p99.9 {} us, longest {} us",
            self.done,
            self.failures,
            self.listen_drops,
            us(self.p50_ns),
            us(self.p999_ns),
            us(self.longest_ns),
        )
    }
}
