//! Which cgroup owns a connection.

use std::io::Write;
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use sysprobe_agent::snapshot::Snapshot;

use super::loads::{Exchange, PORT, take};
use super::support::attach_modes::{Watcher, watchers};
use super::support::cgroup::Cgroup;
use super::support::hidden::count_all;
use super::support::network::{Namespace, RIGHT, Wire};
use super::support::place::{Flag, Place, sleep_forever};
use super::support::totals::{missed_runs, workload};
use super::support::{SharedNumbers, figure, shared, until};
use super::{assert_nothing_lost, has_scan, scanning_watchers, tcp};

const FIRST: usize = 10_000;
const SECOND: usize = 20_000;
const THIRD: usize = 6_000;
/// Parts are read in many pieces, so that the connection is busy.
const PIECE: usize = 100;
const BACK: usize = 5_000;

/// The flags that each side waits for.
struct Steps {
    listening: &'static Flag,
    first_read: &'static Flag,
    go_on: &'static Flag,
    second_read: &'static Flag,
    finish: &'static Flag,
    done: &'static Flag,
}

impl Steps {
    fn new() -> Self {
        let [listening, first_read, go_on, second_read, finish, done] = std::array::from_fn(|_| Flag::new());
        Self { listening, first_read, go_on, second_read, finish, done }
    }

    /// Reads three parts, waits after the first two, and answers.
    fn serve(&self) {
        let listener = TcpListener::bind((RIGHT[0], PORT)).expect("the address is ours");
        self.listening.set();
        let (mut connection, _) = listener.accept().expect("a connection");
        let mut take_all = |size: usize| (0..size / PIECE).for_each(|_| take(&mut connection, PIECE));
        take_all(FIRST);
        self.first_read.set();
        self.go_on.wait();
        take_all(SECOND);
        self.second_read.set();
        self.finish.wait();
        take_all(THIRD);
        connection.write_all(&[b'a'; BACK]).expect("it is taken");
        sleep_forever();
    }

    fn ask(&self) {
        self.listening.wait();
        let mut connection = TcpStream::connect((RIGHT[0], PORT)).expect("a server listens");
        connection.write_all(&[b'q'; FIRST]).expect("it is taken");
        self.go_on.wait();
        connection.write_all(&vec![b'q'; SECOND]).expect("it is taken");
        self.finish.wait();
        connection.write_all(&vec![b'q'; THIRD]).expect("it is taken");
        take(&mut connection, BACK);
        self.done.set();
        sleep_forever();
    }
}

/// The agent's numbers once the client has acknowledged the answer that `server` sent.
fn once_answered(watcher: &Watcher, server: &Cgroup) -> Snapshot {
    until("the answer is acknowledged", || {
        let snapshot = watcher.agent.snapshot();
        (tcp(&snapshot, server).ipv4.sent_bytes > 0).then_some(snapshot)
    })
}

/// The bytes received and sent.
fn bytes_of(snapshot: &Snapshot, cgroup: &Cgroup) -> [u64; 2] {
    let traffic = tcp(snapshot, cgroup).ipv4;
    [traffic.received_bytes, traffic.sent_bytes]
}

#[test]
fn a_connection_that_is_handed_on_is_the_new_readers_from_what_it_reads_on() {
    let wire = Wire::new("handed");
    let Some(watchers) = scanning_watchers() else { return };
    let (old, new, client) =
        (Cgroup::new("handed-old"), Cgroup::new("handed-new"), Cgroup::new("handed-client"));
    let steps = Steps::new();
    let server = Place { cgroup: &old, namespace: &wire.right }.run(|| steps.serve());
    let _client = Place { cgroup: &client, namespace: &wire.left }.run(|| steps.ask());
    steps.first_read.wait();
    new.adopt(server.pid);
    steps.go_on.set();
    steps.second_read.wait();
    old.adopt(server.pid);
    steps.finish.set();
    steps.done.wait();
    for watcher in &watchers {
        let name = watcher.mode.name();
        let snapshot = once_answered(watcher, &old);
        let bytes = [&old, &new].map(|cgroup| bytes_of(&snapshot, cgroup));
        assert_eq!(bytes, [[(FIRST + THIRD) as u64, BACK as u64], [SECOND as u64, 0]], "by {name}");
        let has_both = |snapshot: &Snapshot| {
            let states = tcp(snapshot, &old).sockets.by_state;
            ["listen", "established"].iter().all(|state| states.get(*state) == Some(&1)) && states.len() == 2
        };
        // A snapshot does not wait for a scan that takes long.
        until(&format!("a scan of {name} finds each with its owner"), || {
            let snapshot = watcher.agent.snapshot();
            let has_none = tcp(&snapshot, &new).sockets.by_state.is_empty();
            (has_both(&snapshot) && has_none).then_some(())
        });
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn connections_older_than_the_agent_are_known_and_their_past_is_not_counted() {
    let wire = Wire::new("older");
    let (server, client) = (Cgroup::new("older-server"), Cgroup::new("older-client"));
    let steps = Steps::new();
    let _server = Place { cgroup: &server, namespace: &wire.right }.run(|| steps.serve());
    let _client = Place { cgroup: &client, namespace: &wire.left }.run(|| steps.ask());
    steps.first_read.wait();
    let Some(watchers) = scanning_watchers() else { return };
    steps.go_on.set();
    steps.finish.set();
    steps.done.wait();
    for watcher in &watchers {
        let name = watcher.mode.name();
        let snapshot = once_answered(watcher, &server);
        let bytes = [&server, &client].map(|cgroup| bytes_of(&snapshot, cgroup));
        let (rest, back) = ((SECOND + THIRD) as u64, BACK as u64);
        assert_eq!(bytes, [[rest, back], [back, rest]], "by {name}");
    }
    assert_nothing_lost(&watchers);
}

#[test]
fn what_is_sent_after_its_cgroup_has_gone_is_still_its_own() {
    count_all(remove_cgroup_of_sender);
}

fn remove_cgroup_of_sender() {
    const SIZE: usize = 1 << 20;
    let wire = Wire::new("orphan");
    wire.narrow();
    let watchers = watchers("tcp");
    let (server, client) = (Cgroup::new("orphan-server"), Cgroup::new("orphan-client"));
    let (ready, done) = (Flag::new(), Flag::new());
    let _server = Place { cgroup: &server, namespace: &wire.right }.run(|| {
        let listener = TcpListener::bind((RIGHT[0], PORT)).expect("the address is ours");
        ready.set();
        take(&mut listener.accept().expect("a connection").0, SIZE);
        done.set();
        sleep_forever();
    });
    ready.wait();
    Place { cgroup: &client, namespace: &wire.left }
        .run(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_send_buffer_size(4 * SIZE).expect("a buffer");
            let address = SocketAddrV4::new(RIGHT[0].parse().expect("an address"), PORT);
            socket.connect(&address.into()).expect("a server listens");
            TcpStream::from(socket).write_all(&vec![b'q'; SIZE]).expect("there is room for it");
        })
        .finish();
    let was_early = !done.is_set();
    let name = client.name.clone();
    client.remove();
    done.wait();
    for watcher in &watchers {
        let sent = until("all is acknowledged", || {
            let snapshot = watcher.agent.snapshot();
            let tcp = workload(&snapshot, &name)?.tcp.as_ref()?;
            let is_over = tcp.sockets.by_state.is_empty() && tcp.ipv4.sent_bytes >= SIZE as u64;
            is_over.then_some(tcp.ipv4.sent_bytes)
        });
        assert_eq!(sent, SIZE as u64, "by {}", watcher.mode.name());
    }
    figure(&format!("the cgroup went before its last byte: {was_early}"));
    assert_nothing_lost(&watchers);
}

/// The number of connections that each of two servers got.
struct Shares([AtomicU64; 2]);

// SAFETY: atomic numbers, for which zero is a value.
unsafe impl SharedNumbers for Shares {}

#[test]
fn of_several_who_listen_on_one_port_each_has_its_own() {
    count_all(share_a_port);
}

fn share_a_port() {
    const TIMES: u64 = 40;
    let wire = Wire::new("reuse");
    let watchers = watchers("tcp");
    let servers = [Cgroup::new("reuse-one"), Cgroup::new("reuse-two")];
    let client = Cgroup::new("reuse-client");
    let shares: &Shares = shared();
    let _servers = [0, 1].map(|at| {
        let ready = Flag::new();
        let server = Place { cgroup: &servers[at], namespace: &wire.right }.run(|| {
            let listener = listen_together();
            ready.set();
            for connection in listener.incoming() {
                take(&mut connection.expect("a connection"), FIRST);
                shares.0[at].fetch_add(1, Ordering::Release);
            }
        });
        ready.wait();
        server
    });
    Place { cgroup: &client, namespace: &wire.left }
        .run(|| {
            for _ in 0..TIMES {
                let mut connection = TcpStream::connect((RIGHT[0], PORT)).expect("a server listens");
                connection.write_all(&[b'q'; FIRST]).expect("it is taken");
            }
        })
        .finish();
    let counts = until("all are served", || {
        let counts = [0, 1].map(|at| shares.0[at].load(Ordering::Acquire));
        (counts.iter().sum::<u64>() == TIMES).then_some(counts)
    });
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    for watcher in &watchers {
        let name = watcher.mode.name();
        let expected = counts.map(|count| count * FIRST as u64);
        // Connections that are just being closed may not be counted yet.
        let received = until("all is booked", || {
            let snapshot = watcher.agent.snapshot();
            let received = [0, 1].map(|at| tcp(&snapshot, &servers[at]).ipv4.received_bytes);
            (received.iter().sum::<u64>() >= expected.iter().sum()).then_some(received)
        });
        assert_eq!(received, expected, "by {name}");
    }
    assert_nothing_lost(&watchers);
}

fn listen_together() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_port(true).expect("it can share its port");
    let address = SocketAddrV4::new(RIGHT[0].parse().expect("an address"), PORT);
    socket.bind(&address.into()).and_then(|()| socket.listen(128)).expect("the address is ours");
    socket.into()
}

/// The case of pods with `hostNetwork: true`.
#[test]
fn two_workloads_of_one_namespace_are_told_apart() {
    count_all(share_a_namespace);
}

fn share_a_namespace() {
    const ANSWER: usize = 1_000;
    let wire = Wire::new("shared");
    let watchers = watchers("tcp");
    let server = Cgroup::new("shared-server");
    let there = Place { cgroup: &server, namespace: &wire.right };
    let _server = there.serve(RIGHT[0], Exchange { request: 0, response: ANSWER });
    let workloads = [(Cgroup::new("shared-fast"), 400_000, 12_u64), (Cgroup::new("shared-slow"), 10_000, 3)];
    thread::scope(|scope| {
        for (cgroup, size, times) in &workloads {
            let here = Place { cgroup, namespace: &wire.left };
            let exchange = Exchange { request: *size, response: ANSWER };
            scope.spawn(move || here.ask(RIGHT[0], u32::try_from(*times).expect("few"), exchange));
        }
    });
    for watcher in &watchers {
        let name = watcher.mode.name();
        for (cgroup, size, times) in &workloads {
            let expected = [times * ANSWER as u64, times * *size as u64];
            let ours = until("all is acknowledged", || {
                let ours = bytes_of(&watcher.agent.snapshot(), cgroup);
                (ours[1] >= expected[1]).then_some(ours)
            });
            assert_eq!(ours, expected, "{} by {name}", cgroup.name);
        }
    }
    assert_nothing_lost(&watchers);
}

/// Serves on `servers` ports, one thread each: reads a byte from each connection and closes it.
fn take_one_each(servers: u16, ready: &Flag) {
    let bind = |at| TcpListener::bind((RIGHT[0], PORT + at)).expect("the address is ours");
    let listeners: Vec<_> = (0..servers).map(bind).collect();
    ready.set();
    thread::scope(|scope| {
        for listener in &listeners {
            scope.spawn(|| {
                for connection in listener.incoming() {
                    take(&mut connection.expect("a connection"), 1);
                }
            });
        }
    });
}

#[test]
fn connections_that_are_over_leave_nothing_behind() {
    count_all(end_many_connections);
}

fn end_many_connections() {
    const BATCH: usize = 5_000;
    const BATCHES: usize = 10;
    /// In emulation a connection takes milliseconds.
    const ENOUGH: Duration = Duration::from_secs(45);
    /// Several ports, because a closed connection occupies its port for a minute.
    const SERVERS: u16 = 5;
    let wire = Wire::alone("short");
    let watchers = watchers("tcp");
    let (server, client) = (Cgroup::new("short-server"), Cgroup::new("short-client"));
    let ready = Flag::new();
    let _server = Place { cgroup: &server, namespace: &wire.right }.run(|| take_one_each(SERVERS, ready));
    ready.wait();
    let here = Place { cgroup: &client, namespace: &wire.left };
    let batch = || {
        for port in (PORT..PORT + SERVERS).cycle().take(BATCH) {
            let mut connection = TcpStream::connect((RIGHT[0], port)).expect("a server listens");
            connection.write_all(b"q").expect("it is taken");
        }
    };
    let start = Instant::now();
    let mut times = 0;
    while times < BATCHES * BATCH && start.elapsed() < ENOUGH {
        here.run(batch).finish();
        times += BATCH;
    }
    figure(&format!("{times} connections"));
    let times = times as u64;
    // Each connection has one round-trip sample, at its end or before, and one more for each second that
    // begins while it is open. The client has one connection open at a time, so at most one is open when a
    // second begins.
    let straddling = start.elapsed().as_secs() + 1;
    // The client does not wait for the server, which may still have to accept the last connection.
    until("the kernel has no connection left", || {
        let is_over = || [&wire.right, &wire.left].map(Namespace::sockets) == [SERVERS.into(), 0];
        // Twice, because a connection may appear on the right after that was read.
        (is_over() && is_over()).then_some(())
    });
    for watcher in &watchers {
        let name = watcher.mode.name();
        let listening = if has_scan(watcher) { u64::from(SERVERS) } else { 0 };
        let (snapshot, ours) = until("the agent scans the sockets once more", || {
            let snapshot = watcher.agent.snapshot();
            let ours = [&server, &client].map(|cgroup| tcp(&snapshot, cgroup));
            let sockets = [&ours[0], &ours[1]].map(|tcp| tcp.sockets.by_state.values().sum::<u64>());
            (sockets == [listening, 0]).then_some((snapshot, ours))
        });
        let listens = ours[0].sockets.by_state.get("listen").copied().unwrap_or(0);
        assert_eq!(listens, listening, "by {name}");
        // A program is skipped while it is already running on that CPU and gets interrupted.
        let least = times.saturating_sub(missed_runs(&snapshot, "tcp"));
        let [server, client] = &ours;
        let counts = [
            ("received bytes", server.ipv4.received_bytes, times),
            ("sent bytes", client.ipv4.sent_bytes, times),
            ("connect times", client.times.connect.count(), times),
            ("round-trip times", client.times.srtt.count(), times + straddling),
        ];
        for (what, count, most) in counts {
            assert!((least..=most).contains(&count), "{count} {what} of {least}..={most} by {name}");
        }
    }
    assert_nothing_lost(&watchers);
}
