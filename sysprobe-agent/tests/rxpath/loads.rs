//! Servers that read in a known way, and clients that wait for each answer.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::support::place::{Flag, Place, sleep_forever};
use super::support::process::Load;
use super::support::until;

pub(crate) const PORT: u16 = 5000;
const REQUEST: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// The size of a request, and of the part that one call reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    pub(crate) size: usize,
    pub(crate) at_a_time: usize,
}

impl Place<'_> {
    /// Echoes requests until it is killed. Before each read, it calls `before` once there is something to
    /// read.
    pub(crate) fn echo(&self, transport: Transport, address: IpAddr, before: impl Fn()) -> Load {
        self.serve(|ready| match transport {
            Transport::Tcp => {
                let listener = listen(address, ready);
                for connection in listener.incoming() {
                    echo_on(connection.expect("a connection"), &before);
                }
            }
            Transport::Udp => {
                let socket = UdpSocket::bind((address, PORT)).expect("the address is ours");
                ready.set();
                let mut request = [0; REQUEST];
                loop {
                    wait_for_something(&socket);
                    before();
                    let (size, from) = socket.recv_from(&mut request).expect("a request");
                    socket.send_to(&request[..size], from).expect("it is taken");
                }
            }
        })
    }

    /// Sends this many requests. Returns after the last answer.
    pub(crate) fn ask(&self, transport: Transport, address: IpAddr, times: u32, between: impl Fn()) {
        self.run(|| match transport {
            Transport::Tcp => {
                let mut connection = connect(address);
                for number in 0..times {
                    connection.write_all(&request(number)).expect("it is taken");
                    connection.read_exact(&mut [0; REQUEST]).expect("an answer");
                    between();
                }
            }
            Transport::Udp => {
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any).expect("a free port");
                socket.connect((address, PORT)).expect("there is a way");
                for number in 0..times {
                    socket.send(&request(number)).expect("it is taken");
                    socket.recv(&mut [0; REQUEST]).expect("an answer");
                    between();
                }
            }
        })
        .finish();
    }

    pub(crate) fn run_to_end(&self, body: impl FnOnce()) {
        self.run(body).finish();
    }

    /// Sends this many requests on one connection, from these CPUs, and calls `before` before each.
    pub(crate) fn ask_after(&self, address: IpAddr, times: u32, cpus: &[usize], before: impl Fn()) {
        Load::running(self.cgroup, cpus, || {
            self.namespace.enter();
            let mut connection = connect(address);
            for number in 0..times {
                before();
                connection.write_all(&request(number)).expect("it is taken");
                connection.read_exact(&mut [0; REQUEST]).expect("an answer");
            }
        })
        .finish();
    }

    /// Like [`Self::ask_after`], but also calls `around` while the request is on its way.
    pub(crate) fn ask_amid(&self, address: IpAddr, times: u32, cpus: &[usize], around: impl Fn()) {
        Load::running(self.cgroup, cpus, || {
            self.namespace.enter();
            let mut connection = connect(address);
            for number in 0..times {
                around();
                connection.write_all(&request(number)).expect("it is taken");
                around();
                connection.read_exact(&mut [0; REQUEST]).expect("an answer");
            }
        })
        .finish();
    }

    /// Answers datagrams: `receive` waits for one, reads it and answers.
    pub(crate) fn answer_datagrams(&self, address: IpAddr, receive: impl Fn(&UdpSocket, &mut [u8])) -> Load {
        self.serve(|ready| {
            let socket = UdpSocket::bind((address, PORT)).expect("the address is ours");
            ready.set();
            let mut request = [0; REQUEST];
            loop {
                receive(&socket, &mut request);
            }
        })
    }

    /// Runs until it is killed; returns once it is ready.
    pub(crate) fn serve(&self, body: impl FnOnce(&Flag)) -> Load {
        let ready = Flag::new();
        let load = self.run(|| body(ready));
        ready.wait();
        load
    }

    /// Reads requests in pieces, and answers each with a byte.
    pub(crate) fn read_in_pieces(&self, address: IpAddr, pieces: Pieces) -> Load {
        self.serve(|ready| {
            let mut connection = accept(address, ready);
            let mut piece = vec![0; pieces.at_a_time];
            loop {
                for _ in 0..pieces.size / pieces.at_a_time {
                    if connection.read_exact(&mut piece).is_err() {
                        return;
                    }
                }
                connection.write_all(&[0]).expect("it is taken");
            }
        })
    }

    pub(crate) fn send_for_each_answer(&self, address: IpAddr, pieces: Pieces, times: u32) {
        self.run(|| {
            let mut connection = connect(address);
            for _ in 0..times {
                connection.write_all(&vec![0; pieces.size]).expect("it is taken");
                connection.read_exact(&mut [0]).expect("an answer");
            }
        })
        .finish();
    }

    /// Reads whole requests, each a while after it became readable, and answers each with a byte.
    pub(crate) fn read_late(&self, address: IpAddr, size: usize, nap: Duration) -> Load {
        self.serve(|ready| {
            let mut connection = accept(address, ready);
            let mut request = vec![0; size];
            loop {
                wait_for_something(&connection);
                thread::sleep(nap);
                if connection.read_exact(&mut request).is_err() {
                    return;
                }
                connection.write_all(&[0]).expect("it is taken");
            }
        })
    }

    /// Serves one connection after the other.
    pub(crate) fn serve_connections(&self, address: IpAddr) -> Load {
        self.serve(|ready| {
            let listener = listen(address, ready);
            loop {
                let (mut connection, _) = listener.accept().expect("a connection");
                let mut request = [0; REQUEST];
                while connection.read_exact(&mut request).is_ok() {
                    connection.write_all(&request).expect("it is taken");
                }
            }
        })
    }

    /// Serves one connection, which it closes for sending, and counts the requests that it has read.
    pub(crate) fn serve_half_closed(&self, address: IpAddr, has_read: &AtomicU64) -> Load {
        self.serve(|ready| {
            let mut connection = accept(address, ready);
            connection.shutdown(Shutdown::Write).expect("connected");
            while connection.read_exact(&mut [0; REQUEST]).is_ok() {
                has_read.fetch_add(1, Ordering::Release);
            }
        })
    }

    /// Sends each request on its own connection, with the acknowledgement that completes the handshake.
    pub(crate) fn ask_with_the_handshake(&self, address: IpAddr, times: u32) {
        self.run(|| {
            for number in 0..times {
                let mut connection = connect_lazily(address);
                connection.write_all(&request(number)).expect("it is taken");
                connection.read_exact(&mut [0; REQUEST]).expect("an answer");
            }
        })
        .finish();
    }

    /// Sends to a server that does not answer, each request after the previous one was read.
    pub(crate) fn tell(&self, address: IpAddr, times: u32, has_read: &AtomicU64) {
        self.run(|| {
            let mut connection = connect(address);
            assert_eq!(connection.read(&mut [0]).expect("the other half's end"), 0);
            for number in 0..times {
                connection.write_all(&request(number)).expect("it is taken");
                until("it is read", || (has_read.load(Ordering::Acquire) > u64::from(number)).then_some(()));
            }
        })
        .finish();
    }

    /// Accepts a connection and does nothing with it.
    pub(crate) fn never_read(&self, address: IpAddr) -> Load {
        self.serve(|ready| {
            let _connection = accept(address, ready);
            sleep_forever();
        })
    }

    pub(crate) fn send_and_leave(&self, address: IpAddr, size: usize) {
        self.run(|| connect(address).write_all(&vec![0; size]).expect("it is taken")).finish();
    }
}

/// Each request is different, as in most protocols.
fn request(number: u32) -> [u8; REQUEST] {
    let mut request = [b'q'; REQUEST];
    request[..4].copy_from_slice(&number.to_be_bytes());
    request
}

fn listen(address: IpAddr, ready: &Flag) -> TcpListener {
    let listener = TcpListener::bind((address, PORT)).expect("the address is ours");
    ready.set();
    listener
}

fn accept(address: IpAddr, ready: &Flag) -> TcpStream {
    let (connection, _) = listen(address, ready).accept().expect("a connection");
    connection.set_nodelay(true).expect("connected");
    connection
}

/// Echoes requests until the client closes the connection.
fn echo_on(mut connection: TcpStream, before: impl Fn()) {
    connection.set_nodelay(true).expect("connected");
    let mut request = [0; REQUEST];
    loop {
        wait_for_something(&connection);
        before();
        if connection.read_exact(&mut request).is_err() {
            return;
        }
        connection.write_all(&request).expect("it is taken");
    }
}

fn connect(address: IpAddr) -> TcpStream {
    let connection = TcpStream::connect((address, PORT)).expect("a server listens");
    connection.set_nodelay(true).expect("connected");
    connection
}

/// Delays the last acknowledgement of the handshake until there is data: the client side of
/// `TCP_DEFER_ACCEPT`.
fn connect_lazily(address: IpAddr) -> TcpStream {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address((address, PORT).into()),
        socket2::Type::STREAM,
        None,
    );
    let socket = socket.expect("a socket");
    let seconds: libc::c_int = 1;
    // SAFETY: the address is of a live value of the length that is given.
    let result = unsafe {
        let length = libc::socklen_t::try_from(size_of_val(&seconds)).expect("a few bytes");
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            length,
        )
    };
    assert_eq!(result, 0, "TCP_DEFER_ACCEPT");
    socket.connect(&SocketAddr::from((address, PORT)).into()).expect("a server listens");
    socket.set_tcp_nodelay(true).expect("connected");
    socket.into()
}

/// Sleeps until a socket is readable.
pub(crate) fn wait_for_something(socket: &impl AsRawFd) {
    poll(socket, -1);
}

/// Waits until a socket is readable without giving up the CPU.
pub(crate) fn spin_for_something(socket: &impl AsRawFd) {
    while poll(socket, 0) == 0 {}
}

/// The number of readable sockets (0 or 1), after at most this many milliseconds.
fn poll(socket: &impl AsRawFd, milliseconds: i32) -> i32 {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the address is of a live value.
    unsafe { libc::poll(&raw mut wanted, 1, milliseconds) }
}
