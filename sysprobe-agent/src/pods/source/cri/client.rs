//! The two calls of `runtime.v1.RuntimeService` that are made.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use hyper::http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::messages::{
    Container, ListContainersRequest, ListContainersResponse, ListPodSandboxRequest, ListPodSandboxResponse,
    PodSandbox,
};

/// The runtime answers from memory.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// As the kubelet: containers carry all annotations of their pods.
const MESSAGE_MAX: usize = 16 << 20;

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

    pub(super) async fn sandboxes(&self) -> Result<Vec<PodSandbox>, Status> {
        let path = "/runtime.v1.RuntimeService/ListPodSandbox";
        let response: ListPodSandboxResponse = self.call(path, ListPodSandboxRequest {}).await?;
        Ok(response.items)
    }

    pub(super) async fn containers(&self) -> Result<Vec<Container>, Status> {
        let path = "/runtime.v1.RuntimeService/ListContainers";
        let response: ListContainersResponse = self.call(path, ListContainersRequest {}).await?;
        Ok(response.containers)
    }

    async fn call<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let answer = async {
            let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_MAX);
            let ready = grpc.ready().await.map_err(anyhow::Error::from);
            ready.map_err(|error| Status::unavailable(format!("{error:#}")))?;
            let path = PathAndQuery::from_static(path);
            grpc.unary(Request::new(question), path, ProstCodec::<Q, A>::default()).await
        };
        let answer = timeout(ANSWER_WITHIN, answer).await;
        Ok(answer.map_err(|_| Status::deadline_exceeded("no answer"))??.into_inner())
    }
}
