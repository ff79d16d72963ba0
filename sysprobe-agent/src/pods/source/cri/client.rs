//! The two calls of `runtime.v1.RuntimeService` that are used: its lists.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, header};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

use super::items::{List, Reading};
use super::messages::Item;

/// The runtime answers from memory.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// An empty message: uncompressed, of length zero.
const QUESTION: Bytes = Bytes::from_static(&[0; 5]);

pub(super) struct Client {
    channel: Channel,
}

impl Client {
    pub(super) async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let connecting = || format!("connecting to the container runtime on {}", socket.display());
        let endpoint =
            Endpoint::from_shared(format!("unix://{}", socket.display())).with_context(connecting)?;
        let channel = endpoint.connect_timeout(ANSWER_WITHIN).connect().await.with_context(connecting)?;
        Ok(Self { channel })
    }

    /// Lists everything that the runtime has. gRPC by hand, because its library wants the whole answer in
    /// memory, or refuses one above a limit.
    pub(super) async fn list<T: Item>(&self) -> Result<List<T>, Status> {
        let answer = timeout(ANSWER_WITHIN, self.ask()).await;
        answer.map_err(|_| Status::deadline_exceeded("no answer"))?
    }

    async fn ask<T: Item>(&self) -> Result<List<T>, Status> {
        let request = Request::post(T::CALL)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Body::new(Full::new(QUESTION)))
            .map_err(|error| Status::internal(error.to_string()))?;
        let unavailable = |error| Status::unavailable(format!("{:#}", anyhow::Error::from(error)));
        let mut channel = self.channel.clone();
        let response =
            channel.ready().await.map_err(unavailable)?.call(request).await.map_err(unavailable)?;
        // An error may have no body, and have its status in the headers.
        Status::from_header_map(response.headers()).map_or(Ok(()), refused)?;
        let mut body = response.into_body();
        let mut reading = Reading::new();
        let mut ended = None;
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            if let Some(part) = frame.data_ref() {
                reading.take(part)?;
            } else if let Some(trailers) = frame.trailers_ref() {
                ended = Status::from_header_map(trailers);
            }
        }
        ended.map_or_else(|| Err(Status::unknown("the answer has no status")), refused)?;
        reading.end()
    }
}

fn refused(status: Status) -> Result<(), Status> {
    if status.code() == Code::Ok { Ok(()) } else { Err(status) }
}
