//! The three calls of `runtime.v1.RuntimeService` that are made.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use hyper::http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::messages::{
    Container, ContainerEventResponse, GetEventsRequest, ListContainersRequest, ListContainersResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox,
};

/// The runtime answers from memory.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// As the kubelet: containers carry all annotations of their pods.
const MESSAGE_MAX: usize = 16 << 20;

#[derive(Clone)]
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

    /// Is there only when the runtime sends the first event, or refuses.
    pub(super) async fn events(&self) -> Result<Streaming<ContainerEventResponse>, Status> {
        let path = PathAndQuery::from_static("/runtime.v1.RuntimeService/GetContainerEvents");
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<GetEventsRequest, ContainerEventResponse>::default();
        let response = grpc.server_streaming(Request::new(GetEventsRequest {}), path, codec).await?;
        Ok(response.into_inner())
    }

    async fn call<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let answer = async {
            let mut grpc = self.ready().await?;
            let path = PathAndQuery::from_static(path);
            grpc.unary(Request::new(question), path, ProstCodec::<Q, A>::default()).await
        };
        let answer = timeout(ANSWER_WITHIN, answer).await;
        Ok(answer.map_err(|_| Status::deadline_exceeded("no answer"))??.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_MAX);
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(format!("{:#}", anyhow::Error::from(error))))?;
        Ok(grpc)
    }
}
