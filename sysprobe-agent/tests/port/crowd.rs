//! Five hundred workloads under the chart's memory limit, and all kinds of readers at once.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::agent::{Agent, Options};
use crate::support::cgroup::Cgroup;
use crate::support::process::{self, Load, cpus};
use crate::support::reader::{self, Answer, Kept, LOCALHOST, SCRAPE};
use crate::support::{figure, until};

/// The number of pods on a large node.
const WORKLOADS: usize = 500;
/// The chart's default memory limit.
const LIMIT: u64 = 256 << 20;
/// The interval at which a workload is active.
const WORKS_EVERY: Duration = Duration::from_secs(4);
const READERS: usize = 32;
const TIME: Duration = Duration::from_secs(15);
const MIB: f64 = 1_048_576.0;

/// Two thousand connections a second without a request, each open for a tenth of a second.
pub(crate) struct Flood {
    over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Flood {
    pub(crate) fn start(port: u16) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let over = Arc::clone(&over);
            thread::spawn(move || connect_often(port, &over))
        };
        Self { over, thread }
    }

    /// Ends the flood; returns the number of connections.
    pub(crate) fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ends")
    }
}

/// Real clients run on other machines. Here they share the agent's CPUs, so the calling thread lowers its
/// priority.
fn stand_back() {
    // SAFETY: plain numbers. A test that may not do so only has more load.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

fn connect_often(port: u16, over: &AtomicBool) -> usize {
    stand_back();
    let (start, mut made) = (Instant::now(), 0);
    let mut open = VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        // Catches up on missed connections, as far as the machine allows.
        let due = usize::try_from(start.elapsed().as_millis() * 2).expect("seconds");
        let more = due.saturating_sub(made).min(100);
        for _ in 0..more {
            open.extend(reader::connect_from(LOCALHOST, port));
            if open.len() > 200 {
                open.pop_front().into_iter().for_each(reader::reset);
            }
        }
        made += more;
        thread::sleep(Duration::from_millis(1));
    }
    open.into_iter().for_each(reader::reset);
    made
}

/// Forks a child every second, as a busy shell does, and does a little of everything else that has series:
/// storage, datagrams, connections.
fn work_now_and_then() {
    let path = std::env::temp_dir().join(format!("sysprobe-crowd-{}", std::process::id()));
    loop {
        process::in_child(|| process::spin_for(Duration::from_micros(100)));
        drop(store(&path));
        drop(talk());
        thread::sleep(WORKS_EVERY);
    }
}

fn store(path: &Path) -> io::Result<()> {
    let mut file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
    file.write_all(b"something")?;
    file.sync_data()?;
    fs::read(path)?;
    fs::remove_file(path)
}

fn talk() -> io::Result<()> {
    let socket = UdpSocket::bind((LOCALHOST, 0))?;
    socket.send_to(b"a datagram", socket.local_addr()?)?;
    socket.recv(&mut [0; 16])?;
    let server = TcpListener::bind((LOCALHOST, 0))?;
    let mut client = TcpStream::connect(server.local_addr()?)?;
    client.write_all(b"a request")?;
    server.accept()?.0.read_exact(&mut [0; 9])
}

/// One test at a time uses the node: 500 workloads are enough load.
static NODE: Mutex<()> = Mutex::new(());

/// A node with its workloads, and an agent with the chart's memory limit. The fields are dropped in this
/// order.
struct Node {
    agent: Agent,
    own: Cgroup,
    _loads: Vec<Load>,
    _cgroups: Vec<Cgroup>,
    _alone: MutexGuard<'static, ()>,
}

impl Node {
    fn start() -> Self {
        // A test that failed has cleaned up too.
        let alone = NODE.lock().unwrap_or_else(PoisonError::into_inner);
        let cgroups: Vec<_> = (0..WORKLOADS).map(|number| Cgroup::new(&format!("crowd-{number}"))).collect();
        let loads = cgroups.iter().map(|cgroup| Load::running(cgroup, &cpus(), work_now_and_then)).collect();
        let own = Cgroup::with_memory("crowd-agent");
        own.set_memory_limit(LIMIT);
        // Real clients run on other machines, and on this one other tests and processes run, too.
        own.set_weight_high();
        let agent = Agent::prepared(Options::default(), |command| process::inside(command, &own));
        until("all workloads are known", || (agent.snapshot().workloads.len() > WORKLOADS).then_some(()));
        // Each workload has been active since, so its series exist.
        thread::sleep(WORKS_EVERY * 2);
        Self { agent, own, _loads: loads, _cgroups: cgroups, _alone: alone }
    }

    /// The peak resident memory in MiB since the last call.
    fn peak(&self) -> f64 {
        let process = PathBuf::from(format!("/proc/{}", self.agent.pid()));
        let status = fs::read_to_string(process.join("status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells");
        let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        // 5 resets the peak (Documentation/filesystems/proc.rst).
        fs::write(process.join("clear_refs"), "5").expect("it is reset");
        kib / 1024.0
    }

    /// The peak during an ordinary scrape. A scrape before it makes all one-time allocations.
    fn peak_of_a_scrape(&self, prometheus: &mut Kept) -> f64 {
        prometheus.ask(SCRAPE).expect("a scrape");
        self.peak();
        let asked = Instant::now();
        let scrape = prometheus.ask(SCRAPE).expect("a scrape");
        let (took, peak) = (asked.elapsed(), self.peak());
        let series = scrape.body.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#")).count();
        let (text, sent) = (scrape.body.len() as f64 / MIB, scrape.sent as f64 / MIB);
        figure(&format!(
            "{series} series, {text:.1} MiB, {sent:.2} compressed, in {took:?}; peak {peak:.1} MiB"
        ));
        peak
    }
}

/// The answers that one kind of well-behaved reader got.
#[derive(Debug, Default)]
struct Seen {
    answers: usize,
    slowest: Duration,
    failures: Vec<String>,
}

impl Seen {
    fn note(&mut self, asked: Instant, answer: io::Result<Answer>) {
        let took = asked.elapsed();
        self.answers += 1;
        self.slowest = self.slowest.max(took);
        match answer {
            Ok(answer) if answer.status == 200 => {}
            Ok(answer) => self.failures.push(format!("after {took:?}: {}", answer.head)),
            Err(error) => self.failures.push(format!("after {took:?}: {error}")),
        }
    }
}

/// Sends probes and Prometheus scrapes beside readers that are slow and readers that disconnect.
fn ask_beside_a_crowd(port: u16, prometheus: &mut Kept) -> [Seen; 2] {
    let over = AtomicBool::new(false);
    let is_over = || over.load(Ordering::Relaxed);
    let without_end = |act: &dyn Fn()| {
        stand_back();
        while !is_over() {
            act();
        }
    };
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| without_end(&|| reader::read_slowly(port, is_over)));
            scope.spawn(|| without_end(&|| reader::ask_and_leave(port)));
        }
        let probes = scope.spawn(|| {
            let mut seen = Seen::default();
            while !is_over() {
                seen.note(Instant::now(), super::probe(port));
                thread::sleep(Duration::from_millis(100));
            }
            seen
        });
        let (start, mut scrapes) = (Instant::now(), Seen::default());
        while start.elapsed() < TIME {
            scrapes.note(Instant::now(), prometheus.ask(SCRAPE));
            thread::sleep(Duration::from_millis(500));
        }
        over.store(true, Ordering::Relaxed);
        [scrapes, probes.join().expect("no panic")]
    })
}

/// The answer for a reader with a small buffer that takes a byte every tenth of a second for the time `slow`
/// after the first one, and then the rest at once.
fn begin_slowly(port: u16, slow: Duration) -> io::Result<Answer> {
    let mut stream = reader::connect_narrow(port)?;
    stream.write_all(SCRAPE.as_bytes())?;
    let mut first = vec![0];
    stream.read_exact(&mut first)?;
    let begun = Instant::now();
    while begun.elapsed() < slow {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        first.extend(byte);
        thread::sleep(Duration::from_millis(100));
    }
    reader::answer(&mut first.chain(stream))
}

#[test]
fn a_large_compressed_scrape_is_taken_in_ten_seconds_or_torn_and_outlives_the_signal_to_stop() {
    // Bindings are dropped in reverse order.
    let Node { _alone, _cgroups, _loads, own, mut agent } = Node::start();
    let is_whole = |answer: &Answer| answer.status == 200 && answer.body.ends_with(b"# EOF\n");
    let in_time = begin_slowly(agent.port, Duration::from_secs(6)).expect("all of it");
    assert!(is_whole(&in_time), "torn: {}", in_time.head);
    figure(&format!("{} bytes, compressed", in_time.sent));
    assert!(in_time.sent > 512 << 10, "the kernel's buffers take no more than twice 128 KiB");
    let late = begin_slowly(agent.port, Duration::from_secs(13));
    assert!(late.is_err(), "it was whole: {}", late.expect("an answer").head);

    let mut stream = reader::connect_narrow(agent.port).expect("a connection");
    stream.write_all(SCRAPE.as_bytes()).expect("it is read");
    let mut first = [0; 4096];
    stream.read_exact(&mut first).expect("a part of the answer");
    agent.terminate();
    thread::sleep(Duration::from_secs(1));
    agent.assert_running();
    let answer = reader::answer(&mut first.chain(&mut stream)).expect("the rest");
    assert!(is_whole(&answer), "torn: {}", answer.head);
    assert!(agent.wait().success(), "{}", agent.log());
    drop(own);
}

#[test]
fn five_hundred_workloads_and_a_hostile_crowd_stay_within_the_charts_memory() {
    let node = Node::start();
    let mut prometheus = Kept::new(node.agent.port);
    let one = node.peak_of_a_scrape(&mut prometheus);
    let flood = Flood::start(node.agent.port);
    let [scrapes, probes] = ask_beside_a_crowd(node.agent.port, &mut prometheus);
    let (connects, crowd, charged) = (flood.end(), node.peak(), node.own.memory());
    figure(&format!(
        "{} scrapes within {:?}, {} probes within {:?}, beside {connects} connects; peak {crowd:.1} MiB, \
         charged {:.1} MiB",
        scrapes.answers,
        scrapes.slowest,
        probes.answers,
        probes.slowest,
        charged.usage as f64 / MIB,
    ));
    assert!(scrapes.failures.is_empty() && probes.failures.is_empty(), "{scrapes:#?} {probes:#?}");
    assert_eq!(prometheus.lost, 0, "its connection is kept");
    assert_eq!(charged.oom_kills, 0);
    assert!(crowd < 2.0 * one, "{crowd} MiB, and {one} with one scrape");
}
