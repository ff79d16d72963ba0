//! Servers that read in different ways.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use super::loads::{PORT, Transport, spin_for_something, wait_for_something};
use super::path::Path;
use super::support::network::RIGHT;
use super::{Stage, TIMES, ask, assert_nothing_lost, right};

fn answer(socket: &UdpSocket, request: &mut [u8]) {
    let (size, from) = socket.recv_from(request).expect("a request");
    socket.send_to(&request[..size], from).expect("it is taken");
}

/// Sends a request, and waits for its answer.
fn exchange(socket: &UdpSocket, request: &mut [u8]) {
    socket.send_to(request, (right(), PORT)).expect("it is taken");
    socket.recv(request).expect("an answer");
}

/// The reader never sleeps, so no task has to wake it.
#[test]
fn a_reader_that_polls_without_sleeping_is_never_woken() {
    let stage = Stage::new("polls");
    // With a reader that sleeps, each attach mode shows every stage that it can tell.
    drop(ask(&stage, Transport::Udp, RIGHT[0]));
    let woken = stage.received(Transport::Udp, u64::from(TIMES));
    let _server = stage.there().answer_datagrams(right(), |socket, request| {
        socket.set_nonblocking(true).expect("ours");
        while let Ok((size, from)) = socket.recv_from(request) {
            socket.send_to(&request[..size], from).expect("it is taken");
        }
    });
    stage.here().ask(Transport::Udp, right(), TIMES, || {});
    for (watcher, woken) in woken {
        // Where a datagram is first seen when the reader is notified, one that is read before that is not
        // seen.
        let all = if woken.tells("udp") {
            stage.arrived(watcher, &stage.reader, Transport::Udp, u64::from(2 * TIMES))
        } else {
            Path::of(&watcher.agent.snapshot(), &stage.reader, Transport::Udp)
        };
        let path = all.since(&woken);
        if path.count() > 0 {
            path.assert_complete();
            assert_eq!(if path.tells("wakeup") { path.until("wakeup") } else { 0 }, 0, "it is not woken");
        }
    }
}

/// Each request is read by one of several threads.
#[test]
fn each_request_is_one_however_many_readers_there_are() {
    let stage = Stage::new("several");
    let _server = stage.there().answer_datagrams(right(), |socket, _| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        answer(socket, &mut [0; 100]);
                    }
                });
            }
        });
    });
    stage.here().ask(Transport::Udp, right(), TIMES, || {});
    for (_, path) in stage.received(Transport::Udp, u64::from(TIMES)) {
        path.assert_complete();
    }
    assert_nothing_lost(&stage.watchers);
}

/// Peeked data has not been read.
#[test]
fn to_peek_is_not_to_read() {
    const NAP: Duration = Duration::from_millis(2);
    let stage = Stage::new("peeks");
    let _server = stage.there().answer_datagrams(right(), |socket, request| {
        socket.peek(request).expect("a request");
        thread::sleep(NAP);
        answer(socket, request);
    });
    stage.here().ask(Transport::Udp, right(), TIMES, || {});
    for (watcher, path) in stage.received(Transport::Udp, u64::from(TIMES)) {
        path.assert_complete();
        let each_ns = path.until("read");
        assert!(Duration::from_nanos(each_ns) >= NAP, "by {}: {each_ns} ns", watcher.mode.name());
    }
    assert_nothing_lost(&stage.watchers);
}

/// The reader sleeps more often than the agent remembers: all time in which it did not wait for a CPU counts
/// as its own.
#[test]
fn a_reader_that_does_much_else_before_it_reads_has_that_time_itself() {
    const NAP: Duration = Duration::from_micros(500);
    let stage = Stage::new("much-else");
    let _server = stage.there().answer_datagrams(right(), |socket, request| {
        wait_for_something(socket);
        for _ in 0..10 {
            thread::sleep(NAP);
        }
        answer(socket, request);
    });
    stage.here().ask(Transport::Udp, right(), TIMES, || {});
    for (watcher, path) in stage.received(Transport::Udp, u64::from(TIMES)) {
        path.assert_complete();
        let each_ns = path.until("read");
        assert!(Duration::from_nanos(each_ns) >= 10 * NAP, "by {}: {each_ns} ns", watcher.mode.name());
        path.assert_others_take_less("read", 10 * NAP);
        if path.tells("wakeup") {
            assert_eq!(path.until("wakeup"), 0, "how it was woken is not known any more");
        }
    }
    assert_nothing_lost(&stage.watchers);
}

/// Woken for one socket, the reader reads another one first. It was not woken for data that arrived there
/// while it was busy.
#[test]
fn a_reader_that_was_woken_for_something_else_is_busy() {
    // Long compared with the wakeup.
    const NAP: Duration = Duration::from_millis(5);
    const BOTH: [u16; 2] = [5001, 5002];
    let stage = Stage::new("other");
    let _server = stage.there().serve(|ready| {
        let [one, other] = BOTH.map(|port| UdpSocket::bind((right(), port)).expect("a free port"));
        ready.set();
        loop {
            wait_for_something(&one);
            // Otherwise it would sleep when the other arrives, as if it were woken for that one.
            spin_for_something(&other);
            thread::sleep(NAP);
            answer(&one, &mut [0; 100]);
            answer(&other, &mut [0; 100]);
        }
    });
    stage.here().run_to_end(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
        for number in 0..TIMES {
            for port in BOTH {
                socket.send_to(&number.to_be_bytes(), (right(), port)).expect("it is taken");
            }
            for _ in BOTH {
                socket.recv(&mut [0; 100]).expect("an answer");
            }
        }
    });
    for (watcher, path) in stage.received(Transport::Udp, u64::from(2 * TIMES)) {
        path.assert_complete();
        let each_ns = path.until("read");
        assert!(Duration::from_nanos(each_ns) >= NAP / 2, "by {}: {each_ns} ns", watcher.mode.name());
        path.assert_others_take_less("read", NAP / 2);
    }
    assert_nothing_lost(&stage.watchers);
}

/// The reader stops between two segments. It is notified again when a third one arrives, but it could have
/// read on before.
#[test]
fn data_that_a_read_leaves_is_readable_since_it_came() {
    const NAP: Duration = Duration::from_millis(100);
    const SEGMENT: usize = 1000;
    const ROUNDS: u32 = 20;
    const AT: u16 = 5003;
    let stage = Stage::new("left");
    let _server = stage.there().serve(|ready| {
        let listener = TcpListener::bind((right(), AT)).expect("a free port");
        ready.set();
        let (mut connection, _) = listener.accept().expect("a connection");
        for size in [SEGMENT, 2 * SEGMENT].into_iter().cycle() {
            let mut two = [0; 2 * SEGMENT];
            while connection.peek(&mut two).expect("connected") < two.len() {
                thread::sleep(Duration::from_millis(1));
            }
            connection.read_exact(&mut two[..size]).expect("they are there");
            connection.write_all(&[0]).expect("it is taken");
        }
    });
    stage.here().run_to_end(|| {
        let mut connection = TcpStream::connect((right(), AT)).expect("it listens");
        connection.set_nodelay(true).expect("connected");
        for _ in 0..ROUNDS {
            connection.write_all(&[0; SEGMENT]).expect("it is taken");
            connection.write_all(&[0; SEGMENT]).expect("it is taken");
            connection.read_exact(&mut [0]).expect("one is read");
            thread::sleep(NAP);
            connection.write_all(&[0; SEGMENT]).expect("it is taken");
            connection.read_exact(&mut [0]).expect("two are read");
        }
    });
    for (watcher, path) in stage.received(Transport::Tcp, u64::from(2 * ROUNDS)) {
        path.assert_complete();
        if path.tells("ready") {
            let each_ns = path.until("ready");
            assert!(Duration::from_nanos(each_ns) < NAP / 4, "by {}: {each_ns} ns", watcher.mode.name());
        }
    }
    assert_nothing_lost(&stage.watchers);
}

/// A datagram must not take the arrival of one that came a moment before. Datagrams of a QUIC connection
/// often begin alike and have the identification 0.
#[test]
fn datagrams_that_begin_alike_have_arrivals_of_their_own() {
    const NAP: Duration = Duration::from_millis(4);
    let stage = Stage::new("alike");
    let _server = stage.there().answer_datagrams(right(), answer);
    stage.here().run_to_end(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
        never_fragment(&socket);
        for number in 0..TIMES {
            let mut request = [0; 40];
            request[20..24].copy_from_slice(&number.to_be_bytes());
            exchange(&socket, &mut request);
            thread::sleep(NAP);
        }
    });
    for (watcher, path) in stage.received(Transport::Udp, u64::from(TIMES)) {
        path.assert_complete();
        path.show(watcher, &stage.reader);
        let middle = Duration::from_secs_f64(path.total().quantile(0.5).expect("there are some"));
        assert!(middle < NAP / 2, "by {}: {middle:?}", watcher.mode.name());
    }
    assert_nothing_lost(&stage.watchers);
}

/// At the device, each fragment is a packet of its own; the socket gets all of them as one.
#[test]
fn a_datagram_in_fragments_is_followed_from_its_first_one() {
    const SIZE: usize = 4000;
    let stage = Stage::new("fragments");
    let _server = stage.there().answer_datagrams(right(), |socket, _| answer(socket, &mut [0; SIZE]));
    stage.here().run_to_end(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
        for number in 0..TIMES {
            let mut request = [0; SIZE];
            request[..4].copy_from_slice(&number.to_be_bytes());
            exchange(&socket, &mut request);
        }
    });
    for (_, path) in stage.received(Transport::Udp, u64::from(TIMES)) {
        path.assert_complete();
    }
    assert_nothing_lost(&stage.watchers);
}

/// A socket that is not connected then sends packets with the identification 0.
fn never_fragment(socket: &UdpSocket) {
    let value = libc::IP_PMTUDISC_DO;
    let size = libc::socklen_t::try_from(size_of_val(&value)).expect("small");
    // SAFETY: the address and the size are those of a live value.
    let result = unsafe {
        let name = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, name, size)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
