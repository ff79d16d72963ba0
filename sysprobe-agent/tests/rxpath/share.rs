//! One agent follows all packets, others a share of them: by default, and with the records of sockets in a
//! hash. All must report the same for the same traffic, however long requests take and in whichever stage.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use sysprobe_agent::snapshot::{HistogramSample, Snapshot};
use sysprobe_common::rxpath::RxpathLoss;

use super::loads::{Transport, wait_for_something};
use super::path::Path;
use super::support::agent::Agent;
use super::support::cgroup::Cgroup;
use super::support::network::Wire;
use super::support::place::Place;
use super::support::process::{self, Load, cpus};
use super::support::totals::{lost, missed_runs};
use super::support::{figure, left_out, shared};
use super::{right, spared, unseen_at_most};

const PORT: u16 = 7777;
/// Each agent measures the other agents' programs as a part of a request. Those that follow a share rarely
/// run all of a program, which takes longer then. With this nap, a request takes much longer than the
/// programs.
const LEAST_NAP: (u32, Duration) = (1, Duration::from_millis(1));
const SHORT_NAP: (u32, Duration) = (8, Duration::from_millis(8));
/// The longest are longer than the time for which the same flows are followed.
const NAPS: [(u32, Duration); 3] = [(25, Duration::from_millis(400)), SHORT_NAP, LEAST_NAP];
/// Longer than the intervals in which packets are recorded, for a share that is recorded only part of the
/// time.
const LONG_NAPS: [(u32, Duration); 3] = [(25, Duration::from_millis(2500)), SHORT_NAP, LEAST_NAP];
/// One quantile each among requests with the least nap, with the short nap, and with the long nap.
const QUANTILES: [f64; 3] = [0.75, 0.93, 0.98];
/// At least some twenty intervals of flows are followed, some with more requests than others: two standard
/// deviations of their number are a half. At one in 8, all flows are followed in some four seconds of 30.
const TOLERANCE: f64 = 0.75;
/// The allowed difference in buckets, by quantile. In emulation, a request with the least nap still takes no
/// longer than the other agents' programs.
const APART: [f64; QUANTILES.len()] = [2.5, 1.5, 1.5];

/// The attach modes of the agents that follow a share, as the configuration has them.
const MODES: [&str; 2] = ["", "attach = \"raw_tp\""];

/// In emulation, a task waits long for a CPU.
const LONGEST: Duration = Duration::from_secs(30);

struct Scenario {
    name: &'static str,
    connections: u32,
    /// Requests on each connection, or as many as fit into the time.
    requests: u32,
    /// The size of a request in bytes.
    length: usize,
    /// Naps of the reader before it reads a request: one in so many requests, and how long.
    naps: &'static [(u32, Duration)],
    /// The shares to compare, each with both [`MODES`].
    one_in: &'static [u64],
}

impl Scenario {
    fn nap(&self, number: u32) -> Duration {
        let nap = self.naps.iter().find(|(every, _)| number.is_multiple_of(*every));
        nap.map_or(Duration::ZERO, |(_, nap)| *nap)
    }

    fn serve(&self, listener: &TcpListener) {
        thread::scope(|scope| {
            for _ in 0..self.connections {
                let (mut connection, _) = listener.accept().expect("a connection");
                scope.spawn(move || {
                    let mut request = vec![0; self.length];
                    for number in 1.. {
                        wait_for_something(&connection);
                        sleep(self.nap(number));
                        if connection.read_exact(&mut request).is_err() {
                            return;
                        }
                        connection.write_all(b"a").expect("it is taken");
                    }
                });
            }
        });
    }

    /// Connections begin one after the other. If they began together, they would also nap together and send
    /// requests in a few bursts. The result of a share would then depend on the part of a burst that it
    /// happens to follow.
    fn ask(&self, asked: &AtomicU64) {
        let longest = self.naps.iter().map(|(_, nap)| *nap).max().unwrap_or_default();
        thread::scope(|scope| {
            for number in 0..self.connections {
                scope.spawn(move || {
                    let mut connection = TcpStream::connect((right(), PORT)).expect("it listens");
                    let request = vec![b'q'; self.length];
                    sleep(longest * number / self.connections);
                    let begun = Instant::now();
                    for _ in (0..self.requests).take_while(|_| begun.elapsed() < LONGEST) {
                        connection.write_all(&request).expect("it is taken");
                        connection.read_exact(&mut [0]).expect("an answer");
                        asked.fetch_add(1, Ordering::Relaxed);
                        sleep(Duration::from_millis(1));
                    }
                });
            }
        });
    }

    /// What all agents report. `None` if this kernel cannot.
    fn run(&self, wire: &Wire, prepare: impl FnOnce(&Load)) -> Option<Paths> {
        let asked: &AtomicU64 = shared();
        let all = agent("", 1)?;
        let kinds = self.one_in.iter().flat_map(|one_in| MODES.map(|mode| (mode, *one_in)));
        let name = |mode, one_in| format!("one in {one_in} {mode}");
        let shares = kinds.map(|(mode, one_in)| Some((name(mode, one_in), agent(mode, one_in)?)));
        let shares = shares.collect::<Option<Vec<_>>>()?;
        let [reader, asker] = ["reader", "asker"].map(|end| Cgroup::new(&format!("{}-{end}", self.name)));
        let there = Place { cgroup: &reader, namespace: &wire.right };
        let server = there.serve(|ready| {
            let listener = TcpListener::bind((right(), PORT)).expect("the address is ours");
            ready.set();
            self.serve(&listener);
        });
        prepare(&server);
        let since = spared();
        Place { cgroup: &asker, namespace: &wire.left }.run_to_end(|| self.ask(asked));
        let (asked, hidden) = (asked.load(Ordering::Relaxed), unseen_at_most(since));
        let path = |snapshot: &Snapshot| Path::of(snapshot, &reader, Transport::Tcp);
        let shares = shares.into_iter().map(|(name, agent)| {
            let snapshot = agent.snapshot();
            assert_no_arrival_lost(&name, &snapshot);
            (name, path(&snapshot))
        });
        let shares = shares.collect();
        let all = all.snapshot();
        let unseen = hidden + missed_runs(&all, "rxpath");
        Some(Paths { shares, all: path(&all), asked, unseen })
    }
}

/// The receive path by an agent that follows all packets, and by one for each share and each of [`MODES`].
struct Paths {
    all: Path,
    /// By name.
    shares: Vec<(String, Path)>,
    /// The number of requests, and how many of them the kernel may have hidden or says that it has skipped.
    asked: u64,
    unseen: u64,
}

fn agent(mode: &str, one_in: u64) -> Option<Agent> {
    let agent = Agent::configured(&format!(
        "{mode}\nrx_follow_one_in = {one_in}\n[domains]\ntcp = false\nnet = false\nvfs = false"
    ));
    let snapshot = agent.snapshot();
    let state = snapshot.domain("rxpath").expect("a domain");
    if !state.up {
        left_out("a share of the packets", &state.reason);
        return None;
    }
    assert_eq!(snapshot.agent.rx_followed_ratio, Some(1.0 / one_in as f64));
    Some(agent)
}

/// What is not followed is not lost: an agent that follows a share cannot know of a missing arrival.
fn assert_no_arrival_lost(name: &str, share: &Snapshot) {
    for loss in [RxpathLoss::NoDevice, RxpathLoss::ArrivalOverwritten] {
        assert_eq!(lost(share, "rxpath", loss.reason()), 0, "{name}: {}", loss.reason());
    }
}

/// The quantiles as a number of buckets above one second; there are four buckets to a power of two.
fn buckets(times: &HistogramSample) -> [f64; QUANTILES.len()] {
    QUANTILES.map(|quantile| 4.0 * times.quantile(quantile).expect("there are some").log2())
}

/// Whether both agents report the same for a stage, or for the whole.
fn are_same([all, share]: [&HistogramSample; 2], what: &str) -> bool {
    let [in_all, in_share] = [all, share].map(buckets);
    let counts = [all.count(), share.count()];
    figure(&format!(
        "{what}: {} requests, {in_all:.1?}; {} by a share, {in_share:.1?}",
        counts[0], counts[1]
    ));
    (0..QUANTILES.len()).all(|at| (in_all[at] - in_share[at]).abs() < APART[at])
}

/// Whether an agent that follows a share reports the same as the one that follows all packets.
fn is_share_of((name, share): &(String, Path), all: &Path, points: &[&str]) -> bool {
    if share.count() == 0 {
        return false;
    }
    share.assert_complete();
    let ratio = share.count() as f64 / all.count() as f64;
    let is_same =
        are_same([all.total(), share.total()], &format!("total, {name}")) && (1.0 - ratio).abs() < TOLERANCE;
    // In some modes a stage is a part of the next one.
    let stages = points.iter().filter_map(|point| Some((point, all.stage(point)?, share.stage(point)?)));
    is_same && stages.into_iter().all(|(point, all, share)| are_same([all, share], point))
}

/// A stall of the machine delays all requests of that moment, of which the share may hold more or fewer than
/// its part: one good attempt of three is enough. A biased selection of packets fails every time.
fn assert_same(attempt: impl Fn() -> Option<Paths>, points: &[&str]) -> Option<Paths> {
    let mut good = BTreeSet::new();
    for _ in 0..3 {
        let paths = attempt()?;
        let now = paths.shares.iter().filter(|share| is_share_of(share, &paths.all, points));
        good.extend(now.map(|(name, _)| name.clone()));
        if good.len() == paths.shares.len() {
            return Some(paths);
        }
    }
    panic!("three times, a share says something else; the same say {good:?}");
}

#[test]
fn a_share_of_the_packets_tells_the_same_as_all_of_them() {
    let scenario =
        Scenario { name: "share", connections: 16, requests: 600, length: 1, naps: &NAPS, one_in: &[4] };
    let wire = Wire::alone("share");
    let Some(Paths { all, asked, unseen, .. }) = assert_same(|| scenario.run(&wire, |_| {}), &[]) else {
        return;
    };
    let count = all.count();
    assert!(count <= asked && count + unseen >= asked, "{count} of {asked}, where {unseen} may be missing");
}

/// For small shares, packets are recorded in one second of eight: all of them, or a share.
#[test]
fn a_share_that_is_noted_a_part_of_the_time_tells_the_same() {
    let scenario = Scenario {
        name: "slices",
        connections: 128,
        requests: u32::MAX,
        length: 1,
        naps: &LONG_NAPS,
        one_in: &[8, 64],
    };
    let wire = Wire::alone("slices");
    assert_same(|| scenario.run(&wire, |_| {}), &[]);
}

/// A pod with one connection, whose reader waits for its CPU each time.
#[test]
fn a_share_of_one_connection_tells_the_same_of_waits_for_a_cpu() {
    let scenario =
        Scenario { name: "single", connections: 1, requests: 2000, length: 1, naps: &[], one_in: &[2] };
    let wire = Wire::alone("single");
    let hog = Cgroup::new("single-hog");
    hog.set_weight_high();
    let one = &cpus()[..1];
    let _hogs = Load::running(&hog, one, process::spin);
    let there = |server: &Load| server.move_to(one[0]);
    assert_same(|| scenario.run(&wire, there), &["run"]);
}

/// A segment that is lost before the first device arrives there once, later.
#[test]
fn a_share_of_the_packets_tells_the_same_where_segments_are_sent_again() {
    let scenario =
        Scenario { name: "again", connections: 8, requests: 60, length: 20_000, naps: &[], one_in: &[4] };
    let wire = Wire::alone("again");
    wire.narrow();
    if assert_same(|| scenario.run(&wire, |_| {}), &[]).is_some() {
        assert!(wire.left.counters().get("TcpRetransSegs") > 0, "nothing was lost");
    }
}
