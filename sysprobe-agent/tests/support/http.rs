//! A minimal HTTP client for tests: one blocking GET per connection. It uses version 1.0, so that answers are
//! not chunked.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::DEADLINE;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn get(port: u16, path: &str, accept: &str) -> io::Result<Answer> {
    let stream = connect(port)?;
    ask(stream, path, accept)
}

/// A connection on which nothing has been sent yet.
pub(crate) fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

pub(crate) fn get_local(socket: &Path, path: &str) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    ask(stream, path, "*/*")
}

fn ask(mut stream: impl Read + Write, path: &str, accept: &str) -> io::Result<Answer> {
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\naccept: {accept}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("torn: {answer:?}")))
}

/// Parses an answer; `None` if it is incomplete, a truncated body included.
fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let head = head.to_ascii_lowercase();
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: "))
        && length.parse() != Ok(body.len())
    {
        return None;
    }
    Some(Answer { status, head, body: body.to_owned() })
}

/// Escapes a value for a query string.
pub(crate) fn escape(text: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escape).collect()
}
