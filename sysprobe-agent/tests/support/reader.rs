//! Clients of the agent's port: a well-behaved one that keeps its connection as Prometheus does, and
//! misbehaving ones.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use flate2::read::GzDecoder;
use socket2::{Domain, Protocol, Socket, Type};

use super::DEADLINE;

/// The answer to one request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    /// The size in bytes as sent.
    pub(crate) sent: usize,
    pub(crate) body: Vec<u8>,
}

/// The request of a scrape.
pub(crate) const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nhost: a\r\naccept: application/openmetrics-text\r\n\
                                 accept-encoding: gzip\r\nx-prometheus-scrape-timeout-seconds: 10\r\n\r\n";
/// A request for the largest possible answer.
pub(crate) const PLAIN: &str = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n";

pub(crate) const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A connection from one of loopback's addresses.
pub(crate) fn connect_from(address: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
    connect_with(address, port, |_| Ok(()))
}

/// A connection with a small receive buffer.
pub(crate) fn connect_narrow(port: u16) -> io::Result<TcpStream> {
    connect_with(LOCALHOST, port, |socket| socket.set_recv_buffer_size(4096))
}

fn connect_with(
    address: Ipv4Addr,
    port: u16,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    prepare(&socket)?;
    socket.bind(&SocketAddr::from((address, 0)).into())?;
    socket.connect(&SocketAddr::from((LOCALHOST, port)).into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// Closes the connection with a reset, so that no port stays in `TIME_WAIT`.
pub(crate) fn reset(stream: TcpStream) {
    drop(Socket::from(stream).set_linger(Some(Duration::ZERO)));
}

/// A client that keeps its connection.
#[derive(Debug)]
pub(crate) struct Kept {
    port: u16,
    stream: Option<TcpStream>,
    /// How many times the agent had closed it.
    pub(crate) lost: usize,
}

impl Kept {
    pub(crate) const fn new(port: u16) -> Self {
        Self { port, stream: None, lost: 0 }
    }

    /// Sends a request as Go's client does: it retries once if a kept connection turns out to be closed.
    pub(crate) fn ask(&mut self, request: &str) -> io::Result<Answer> {
        if let Some(mut stream) = self.stream.take() {
            if let Ok(answer) = ask(&mut stream, request) {
                self.stream = Some(stream);
                return Ok(answer);
            }
            self.lost += 1;
        }
        let mut stream = connect_from(LOCALHOST, self.port)?;
        let answer = ask(&mut stream, request)?;
        self.stream = Some(stream);
        Ok(answer)
    }
}

/// Sends one request on a connection of its own.
pub(crate) fn ask_anew(port: u16, request: &str) -> io::Result<Answer> {
    ask(&mut connect_from(LOCALHOST, port)?, request)
}

/// Sends one request and reads the whole answer, decompressed.
pub(crate) fn ask(stream: &mut TcpStream, request: &str) -> io::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    answer(stream)
}

pub(crate) fn answer(stream: &mut impl Read) -> io::Result<Answer> {
    let head = read_until(stream, b"\r\n\r\n")?.to_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(ErrorKind::InvalidData)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut raw = Vec::new();
    if let Some(length) = length {
        raw.resize(length.parse().map_err(|_| ErrorKind::InvalidData)?, 0);
        stream.read_exact(&mut raw)?;
    } else {
        read_chunks(stream, &mut raw)?;
    }
    let sent = raw.len();
    let mut body = Vec::new();
    if head.contains("content-encoding: gzip") {
        GzDecoder::new(&*raw).read_to_end(&mut body)?;
    } else {
        body = raw;
    }
    Ok(Answer { status, head, sent, body })
}

fn read_until(stream: &mut impl Read, end: &[u8]) -> io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    String::from_utf8(text).map_err(|_| ErrorKind::InvalidData.into())
}

fn read_chunks(stream: &mut impl Read, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let size = read_until(stream, b"\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(|_| ErrorKind::InvalidData)?;
        let start = body.len();
        body.resize(start + size, 0);
        stream.read_exact(&mut body[start..])?;
        read_until(stream, b"\r\n")?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// Requests the largest answer and takes a byte of it every tenth of a second, until the agent closes the
/// connection or `is_over`.
pub(crate) fn read_slowly(port: u16, is_over: impl Fn() -> bool) {
    let Ok(mut stream) = connect_narrow(port) else { return };
    if stream.write_all(PLAIN.as_bytes()).is_err() {
        return;
    }
    while !is_over() && stream.read(&mut [0]).is_ok_and(|read| read > 0) {
        thread::sleep(Duration::from_millis(100));
    }
    reset(stream);
}

/// Requests the largest answer and disconnects a moment later.
pub(crate) fn ask_and_leave(port: u16) {
    let Ok(mut stream) = connect_from(LOCALHOST, port) else { return };
    drop(stream.write_all(PLAIN.as_bytes()));
    thread::sleep(Duration::from_millis(30));
    reset(stream);
}

/// Another loopback address.
pub(crate) const fn stranger(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, number)
}
