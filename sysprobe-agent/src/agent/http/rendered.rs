//! A rendered scrape: compressed while it is written, family by family, and shared by all requests for it.
//! The text of a full node is twenty times as large and is never in memory as a whole. A reader that does not
//! accept gzip gets it decompressed, one part at a time.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use hyper::body::{Frame, SizeHint};

use crate::config::metrics::MetricsConfig;
use crate::metrics::{self, Format};
use crate::snapshot::Snapshot;

/// The size of a decompressed part, which waits in memory for a slow reader.
const PART: u64 = 64 * 1024;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    format: Format,
    gzip: Bytes,
    /// Length of the decompressed text.
    length: u64,
}

impl Rendered {
    /// Takes tens of milliseconds of CPU on a full node.
    pub(super) fn new(
        snapshot: Snapshot,
        format: Format,
        wanted: &MetricsConfig,
    ) -> Result<Self, metrics::Failed> {
        let compressed = GzEncoder::new(Vec::new(), Compression::fast());
        let mut out = Counted { out: compressed, bytes: 0 };
        metrics::render_to(&mut out, snapshot, format, wanted)?;
        let mut gzip = out.out.finish()?;
        gzip.shrink_to_fit();
        Ok(Self { format, gzip: gzip.into(), length: out.bytes })
    }

    /// The response to a request with these headers.
    pub(super) fn answer(self, headers: &HeaderMap) -> Response {
        let Self { format, gzip, length } = self;
        let kind = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept, accept-encoding")];
        if takes_gzip(headers) {
            return (kind, [(header::CONTENT_ENCODING, "gzip")], gzip).into_response();
        }
        (kind, Body::new(Unpacked { decoder: GzDecoder::new(io::Cursor::new(gzip)), left: length }))
            .into_response()
    }
}

/// Counts the bytes that are written.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether one of the codings that a reader accepts is gzip (RFC 9110, section 12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(header::ACCEPT_ENCODING).iter().map(HeaderValue::to_str);
    let codings: Vec<_> = texts.filter_map(Result::ok).flat_map(|text| text.split(',')).map(coding).collect();
    let quality = |wanted: &str| {
        let named = codings.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.map(|(_, quality)| *quality)
    };
    quality("gzip").or_else(|| quality("*")).is_some_and(|quality| quality > 0.0)
}

/// Parses `gzip;q=0.5`. The default quality is 1.
fn coding(text: &str) -> (&str, f32) {
    let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
    let quality = parameters.trim().strip_prefix("q=").map(|quality| quality.parse().unwrap_or(0.0));
    (name.trim(), quality.unwrap_or(1.0))
}

/// The text, decompressed as its reader takes it.
struct Unpacked {
    decoder: GzDecoder<io::Cursor<Bytes>>,
    left: u64,
}

impl Unpacked {
    fn part(&mut self) -> io::Result<Bytes> {
        let mut part = Vec::new();
        (&mut self.decoder).take(PART).read_to_end(&mut part)?;
        if part.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(part.len() as u64);
        Ok(part.into())
    }
}

impl hyper::body::Body for Unpacked {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready((self.left > 0).then(|| self.part().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests;
