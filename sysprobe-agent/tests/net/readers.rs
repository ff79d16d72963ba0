//! Tasks that wait in a read of TCP. A kretprobe follows only few calls at a time (on some kernels as many as
//! there are CPUs), so hooks that TCP shares with other protocols would lose datagrams.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use procfs::process::Process;

use super::support::attach_modes::watchers;
use super::support::cgroup::Cgroup;
use super::support::network::{LEFT, RIGHT, Wire};
use super::support::place::{Flag, Place, sleep_forever};
use super::support::totals::lost;
use super::support::until;
use super::{Datagrams, PORT, give, taker, traffic};

const READERS: usize = 64;
const DATAGRAMS: Datagrams = Datagrams { count: 300, size: 100 };

#[test]
fn readers_of_tcp_that_wait_take_no_datagram_away() {
    let wire = Wire::new("readers");
    let watchers = watchers("net");
    let (giver, getter) = (Cgroup::new("readers-giver"), Cgroup::new("readers-getter"));
    let there = Place { cgroup: &getter, namespace: &wire.right };
    let ready = Flag::new();
    let _readers = there.run(|| read_in_vain(ready));
    ready.wait();
    let getting = taker(there, RIGHT[0], PORT, DATAGRAMS);
    give(Place { cgroup: &giver, namespace: &wire.left }, LEFT[0], RIGHT[0], PORT, DATAGRAMS, &getting);
    getting.finish();
    for watcher in &watchers {
        let (name, snapshot) = (watcher.mode.name(), watcher.agent.snapshot());
        assert_eq!(traffic(&snapshot, &giver, "udp", "ipv4"), DATAGRAMS.sent(), "by {name}");
        assert_eq!(traffic(&snapshot, &getter, "udp", "ipv4"), DATAGRAMS.received(), "by {name}");
        assert_eq!(lost(&snapshot, "net", "end_missed"), 0, "by {name}");
    }
}

/// Many threads read from connections that send nothing, until the process is killed.
fn read_in_vain(ready: &Flag) {
    let listener = TcpListener::bind((RIGHT[0], PORT)).expect("the address is ours");
    let connect = |_| TcpStream::connect((RIGHT[0], PORT)).expect("it listens");
    let clients: Vec<_> = (0..READERS).map(connect).collect();
    let (sender, threads) = mpsc::channel();
    thread::scope(|scope| {
        for _ in &clients {
            let (mut connection, _) = listener.accept().expect("a connection");
            let sender = sender.clone();
            scope.spawn(move || {
                // SAFETY: it takes no argument.
                sender.send(unsafe { libc::gettid() }).expect("it is awaited");
                connection.read(&mut [0]).expect("it is never closed")
            });
        }
        let threads: Vec<_> = threads.iter().take(READERS).collect();
        until("all readers wait", || threads.iter().all(|thread| is_asleep(*thread)).then_some(()));
        ready.set();
        sleep_forever();
    });
}

fn is_asleep(thread: i32) -> bool {
    let task = Process::myself().and_then(|process| process.task_from_tid(thread)).expect("it lives");
    task.stat().expect("it lives").state == 'S'
}
