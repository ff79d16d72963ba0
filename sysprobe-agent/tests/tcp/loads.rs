//! Servers and clients with known behaviour.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::support::place::{Flag, Place};
use super::support::process::Load;

pub(crate) const PORT: u16 = 5000;

/// The bytes that one connection carries in each direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: usize,
    pub(crate) response: usize,
}

impl Place<'_> {
    /// Answers one connection after the other until it is killed. Returns once it listens.
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

    /// Sends every byte of one connection back. Returns once it listens.
    pub(crate) fn echo(&self, address: &str) -> Load {
        let ready = Flag::new();
        let load = self.run(|| {
            let listener = TcpListener::bind((address, PORT)).expect("the address is ours");
            ready.set();
            let (mut connection, _) = listener.accept().expect("a connection");
            let mut byte = [0];
            while connection.read_exact(&mut byte).and_then(|()| connection.write_all(&byte)).is_ok() {}
        });
        ready.wait();
        load
    }

    /// Makes this many connections, one after the other.
    pub(crate) fn ask(&self, address: &str, times: u32, exchange: Exchange) {
        self.run(|| {
            for _ in 0..times {
                let mut connection = TcpStream::connect((address, PORT)).expect("a server listens");
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

/// Reads exactly `size` bytes.
pub(crate) fn take(connection: &mut TcpStream, size: usize) {
    connection.read_exact(&mut vec![0; size]).expect("so much comes");
}
