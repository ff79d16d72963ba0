//! Servers and clients of known behaviour, each in a cgroup and a network namespace of its own. They run in a fork of the
//! test, and so tell what goes wrong by their end only.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::support::cgroup::Cgroup;
use super::support::network::Namespace;
use super::support::process::{Load, cpus};
use super::support::{SharedNumbers, shared, until};

pub(crate) const PORT: u16 = 5000;

/// A flag that forked children share.
#[derive(Debug)]
pub(crate) struct Flag(AtomicU32);

// SAFETY: an atomic number, for which zero is a value.
unsafe impl SharedNumbers for Flag {}

impl Flag {
    pub(crate) fn new() -> &'static Self {
        shared()
    }

    pub(crate) fn set(&self) {
        self.0.store(1, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    pub(crate) fn wait(&self) {
        until("the other side is ready", || self.is_set().then_some(()));
    }
}

/// How much goes each way on one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: usize,
    pub(crate) response: usize,
}

/// Where a load runs.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) cgroup: &'a Cgroup,
    pub(crate) namespace: &'a Namespace,
}

impl Place<'_> {
    pub(crate) fn run(&self, body: impl FnOnce()) -> Load {
        Load::running(self.cgroup, &cpus(), || {
            self.namespace.enter();
            body();
        })
    }

    /// Answers one connection after the other until it is killed. Returns when it listens.
    pub(crate) fn serve(&self, address: &str, exchange: Exchange) -> Load {
        let ready = Flag::new();
        let load = self.run(|| {
            let listener = TcpListener::bind((address, PORT)).expect("the address is ours");
            ready.set();
            for connection in listener.incoming() {
                answer(connection.expect("a connection"), exchange.response);
            }
        });
        ready.wait();
        load
    }

    /// So many connections, one after the other.
    pub(crate) fn ask(&self, address: &str, times: u32, exchange: Exchange) {
        self.run(|| {
            for _ in 0..times {
                let mut connection = TcpStream::connect((address, PORT)).expect("somebody listens");
                connection.write_all(&vec![b'q'; exchange.request]).expect("it is taken");
                connection.shutdown(Shutdown::Write).expect("connected");
                let mut answer = Vec::new();
                connection.read_to_end(&mut answer).expect("an answer");
                assert!(answer.len() == exchange.response);
            }
        })
        .finish();
    }
}

fn answer(mut connection: TcpStream, size: usize) {
    let mut request = Vec::new();
    connection.read_to_end(&mut request).expect("a request");
    connection.write_all(&vec![b'a'; size]).expect("it is taken");
}

/// Reads exactly so much.
pub(crate) fn take(connection: &mut TcpStream, size: usize) {
    connection.read_exact(&mut vec![0; size]).expect("so much comes");
}

/// Until it is killed.
pub(crate) fn sleep_forever() {
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}
