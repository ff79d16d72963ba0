//! A minimal HTTP/1.1 client for loopback: one request per connection, and the whole answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Longer than any answer takes: only a server that hangs reaches this limit.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// The body of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Body<'a> {
    pub(super) kind: &'a str,
    pub(super) text: &'a str,
}

pub(crate) fn get(port: u16, path: &str) -> Result<Answer> {
    ask(port, "GET", path, Body::default())
}

pub(super) fn ask(port: u16, method: &str, path: &str, body: Body) -> Result<Answer> {
    exchange(port, method, path, body).with_context(|| format!("{method} {path} on port {port}"))
}

fn exchange(port: u16, method: &str, path: &str, body: Body) -> Result<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n")?;
    if !body.kind.is_empty() {
        write!(stream, "Content-Type: {}\r\n", body.kind)?;
    }
    write!(stream, "Content-Length: {}\r\n\r\n{}", body.text.len(), body.text)?;
    answer(BufReader::new(stream))
}

fn answer(mut stream: impl BufRead) -> Result<Answer> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("no answer of HTTP: {line:?}"))?;
    let mut chunked = false;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header)?;
        if header.trim_end().is_empty() {
            break;
        }
        chunked |= header.trim_end().eq_ignore_ascii_case("transfer-encoding: chunked");
    }
    let mut body = Vec::new();
    if chunked {
        while chunk(&mut stream, &mut body)? {}
    } else {
        stream.read_to_end(&mut body)?;
    }
    Ok(Answer { status, body: String::from_utf8(body)? })
}

/// Reads one chunk; returns whether more follow.
fn chunk(stream: &mut impl BufRead, body: &mut Vec<u8>) -> Result<bool> {
    let mut size = String::new();
    stream.read_line(&mut size)?;
    let size = u64::from_str_radix(size.trim_end(), 16).with_context(|| format!("no size: {size:?}"))?;
    if stream.take(size).read_to_end(body)? as u64 != size {
        bail!("the answer ends too early");
    }
    stream.read_line(&mut String::new())?;
    Ok(size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_chunked_answers_are_read() {
        let whole = answer("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".as_bytes()).unwrap();
        assert_eq!((whole.status, &*whole.body), (404, "no"));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n";
        assert_eq!(answer(chunked.as_bytes()).unwrap().body, "onetwo");
        assert!(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\non".as_bytes()).is_err());
    }
}
