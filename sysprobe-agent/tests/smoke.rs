//! Checks that every domain loads and counts in every attach mode of this kernel, in a time that every change
//! can afford: one small load and one exact count each. The tests of each domain check the meaning of the
//! numbers.
//!
//! One domain runs at a time: several agents at once are enough for an emulated machine.

mod support;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use support::attach_modes::{Watcher, watchers};
use support::cgroup::Cgroup;
use support::device::Loop;
use support::hidden::count_all;
use support::process::{Load, cpus, inside};
use support::storage::run;
use support::totals::{Totals, lost, missed_runs, workload};
use support::{SharedNumbers, figure, shared, until};
use sysprobe_agent::snapshot::{Snapshot, WorkloadSample};

/// The server's port, in shared memory; 0 until it listens.
struct Port(AtomicU16);

// SAFETY: an atomic number, for which zero is a value.
unsafe impl SharedNumbers for Port {}

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    // A test that failed has cleaned up too.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many times each load performs its operation.
const TIMES: u64 = 50;
const SIZE: usize = 100;

/// Waits until each watcher's count for the cgroup is complete, and checks it.
fn assert_counted(
    watchers: &[Watcher],
    cgroup: &Cgroup,
    expected: u64,
    count: impl Fn(&WorkloadSample) -> Option<u64>,
) {
    let of = |snapshot: &Snapshot| workload(snapshot, &cgroup.name).and_then(&count).unwrap_or(0);
    for watcher in watchers {
        let name = watcher.mode.name();
        let counted = until(&format!("{name} counts {expected} of {}", cgroup.name), || {
            Some(of(&watcher.agent.snapshot())).filter(|counted| *counted >= expected)
        });
        figure(&format!("{} by {name}: {counted}", cgroup.name));
        assert_eq!(counted, expected, "{} by {name}", cgroup.name);
    }
}

#[test]
fn cgroups_are_heard_of() {
    let _turn = turn();
    let watchers = watchers("cgroup");
    let born = |watcher: &Watcher| {
        let snapshot = watcher.agent.snapshot();
        snapshot.agent.cgroups_born + missed_runs(&snapshot, "cgroup")
    };
    let before: Vec<u64> = watchers.iter().map(born).collect();
    drop((0..TIMES).map(|at| Cgroup::new(&format!("smoke-{at}"))).collect::<Vec<_>>());
    // Other processes may create cgroups at the same time.
    for (watcher, before) in watchers.iter().zip(before) {
        assert!(born(watcher) - before >= TIMES, "by {}", watcher.mode.name());
    }
}

#[test]
fn waits_are_counted_as_the_kernel_counts_them() {
    let _turn = turn();
    let watchers = watchers("sched");
    let cgroup = Cgroup::new("smoke-sched");
    let load = Load::stopped(&cgroup, &cpus()[..1], || {
        for _ in 0..TIMES {
            thread::sleep(Duration::from_millis(1));
        }
        // Stays alive, so that its counters can be read.
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    });
    let before = load.totals();
    let ours_before: Vec<Totals> = watchers.iter().map(|watcher| of_workload(watcher, &cgroup)).collect();
    load.resume();
    until("it has slept often enough", || {
        (load.totals().voluntary - before.voluntary >= TIMES).then_some(())
    });
    load.freeze();
    let truth = load.totals().since(before).arrivals;
    for (watcher, before) in watchers.iter().zip(ours_before) {
        let ours = of_workload(watcher, &cgroup).since(before).arrivals;
        // The agent leaves out waits that the kernel counts while a delayed-dequeue task sleeps on the run
        // queue (Linux 6.12).
        let left_out = lost(&watcher.agent.snapshot(), "sched", "delayed_sleeper");
        figure(&format!("{}: {ours} of {truth} arrivals", watcher.mode.name()));
        assert!(ours <= truth && ours + left_out >= truth, "{ours} {truth} {left_out}");
    }
}

fn of_workload(watcher: &Watcher, cgroup: &Cgroup) -> Totals {
    Totals::of_workload(&watcher.agent.snapshot(), &cgroup.name)
}

#[test]
fn writes_to_a_file_are_counted() {
    let _turn = turn();
    let watchers = watchers("vfs");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    fs::write(&path, "").expect("written");
    let cgroup = Cgroup::new("smoke-vfs");
    Load::running(&cgroup, &cpus(), || write_often(&path)).finish();
    assert_counted(&watchers, &cgroup, TIMES, |sample| Some(sample.vfs.as_ref()?.write.latency.count()));
}

fn write_often(path: &Path) {
    let mut file = OpenOptions::new().append(true).open(path).expect("there");
    for _ in 0..TIMES {
        file.write_all(&[b'w'; SIZE]).expect("written");
    }
}

#[test]
fn requests_to_a_device_are_counted() {
    let _turn = turn();
    count_all(read_from_device);
}

fn read_from_device() {
    let watchers = watchers("block");
    let device = Loop::new(1 << 20);
    let name = device.path.file_name().expect("a name").to_string_lossy().into_owned();
    let cgroup = Cgroup::new("smoke-block");
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", device.path.display()));
    dd.args(["of=/dev/null", "bs=4k", "iflag=direct", "status=none"]).arg(format!("count={TIMES}"));
    inside(&mut dd, &cgroup);
    run(&mut dd);
    assert_counted(&watchers, &cgroup, TIMES, |sample| {
        Some(sample.block.as_ref()?.devices.get(&name)?.read.requests.latency.count())
    });
}

/// A server that answers this many requests on one connection, and its port.
fn serve(cgroup: &Cgroup) -> (Load, u16) {
    let port: &Port = shared();
    let server = Load::running(cgroup, &cpus(), || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        port.0.store(listener.local_addr().expect("an address").port(), Ordering::Release);
        let (mut connection, _) = listener.accept().expect("a connection");
        let mut request = [0; SIZE];
        while connection.read_exact(&mut request).is_ok() {
            connection.write_all(&request).expect("taken");
        }
    });
    let port = until("the server listens", || Some(port.0.load(Ordering::Acquire)).filter(|port| *port != 0));
    (server, port)
}

fn ask(cgroup: &Cgroup, port: u16) {
    let client = Load::running(cgroup, &cpus(), || {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("a server listens");
        let mut answer = [0; SIZE];
        for _ in 0..TIMES {
            connection.write_all(&[b'r'; SIZE]).expect("taken");
            connection.read_exact(&mut answer).expect("an answer");
        }
    });
    client.finish();
}

#[test]
fn bytes_of_a_connection_are_counted() {
    let _turn = turn();
    let watchers = watchers("tcp");
    let (server, client) = (Cgroup::new("smoke-tcp-server"), Cgroup::new("smoke-tcp-client"));
    let (serving, port) = serve(&server);
    ask(&client, port);
    serving.finish();
    let bytes = TIMES * SIZE as u64;
    for cgroup in [&server, &client] {
        assert_counted(&watchers, cgroup, bytes, |sample| Some(sample.tcp.as_ref()?.ipv4.sent_bytes));
        assert_counted(&watchers, cgroup, bytes, |sample| Some(sample.tcp.as_ref()?.ipv4.received_bytes));
    }
}

#[test]
fn datagrams_are_counted() {
    let _turn = turn();
    let watchers = watchers("net");
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = receiver.local_addr().expect("an address");
    let cgroup = Cgroup::new("smoke-net");
    let sender = Load::running(&cgroup, &cpus(), || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        for _ in 0..TIMES {
            socket.send_to(&[b'd'; SIZE], to).expect("taken");
        }
    });
    sender.finish();
    assert_counted(&watchers, &cgroup, TIMES, |sample| {
        Some(sample.net.as_ref()?.traffic.get("udp")?.get("ipv4")?.sent_packets)
    });
}

#[test]
fn requests_are_followed_to_their_reader() {
    let _turn = turn();
    count_all(follow_requests);
}

fn follow_requests() {
    let watchers = watchers("rxpath");
    let (server, client) = (Cgroup::new("smoke-rx-server"), Cgroup::new("smoke-rx-client"));
    let (serving, port) = serve(&server);
    ask(&client, port);
    serving.finish();
    assert_counted(&watchers, &server, TIMES, |sample| {
        Some(sample.rxpath.as_ref()?.protocols.get("tcp")?.total.count())
    });
}

/// To provoke a reclaim takes longer than this test may take.
#[test]
fn reclaims_could_be_seen() {
    let _turn = turn();
    assert!(!watchers("reclaim").is_empty());
}
