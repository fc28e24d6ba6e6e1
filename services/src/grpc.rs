//! A feed of numbered events on tonic: a server streams them, and a follower that lost its stream
//! goes on with another one.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Response};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::ProstCodec;
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::transport::{Channel, Endpoint, Server};

/// What a follower asks for: all events from this number on.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Since {
    #[prost(uint64, tag = "1")]
    pub number: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(string, tag = "2")]
    pub text: String,
}

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The service, as the code that is made from a description of it would be.
#[derive(Clone)]
struct Feed {
    events: u64,
}

impl NamedService for Feed {
    const NAME: &'static str = "feed.Feed";
}

impl ServerStreamingService<Since> for Feed {
    type Response = Event;
    type ResponseStream = ReceiverStream<Result<Event, Status>>;
    type Future = Later<Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<Since>) -> Self::Future {
        let numbers = request.into_inner().number..self.events;
        Box::pin(async move {
            let (send, events) = tokio::sync::mpsc::channel(1);
            tokio::spawn(async move {
                for number in numbers {
                    let event = Event { number, text: format!("event {number}") };
                    if send.send(Ok(event)).await.is_err() {
                        break;
                    }
                }
            });
            Ok(tonic::Response::new(ReceiverStream::new(events)))
        })
    }
}

impl tower_service::Service<Request<Body>> for Feed {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Later<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let feed = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Event, Since>::default());
            Ok(match request.uri().path() {
                "/feed.Feed/Follow" => grpc.server_streaming(feed, request).await,
                _ => Status::unimplemented("there is only Follow").into_http(),
            })
        })
    }
}

/// The server's program.
#[tokio::main(flavor = "current_thread")]
pub async fn main_with(events: u64) -> Result<(), tonic::transport::Error> {
    let address = "0.0.0.0:50051".parse().expect("it is an address");
    Server::builder().add_service(Feed { events }).serve(address).await
}

/// From which event on a follower asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resuming {
    /// From the one after the last that it saw.
    AfterLast,
    /// From the last that it saw, which it sees again.
    AtLast,
}

async fn follow(channel: &Channel, number: u64, seen: &mut Vec<u64>) -> Result<(), Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/feed.Feed/Follow");
    let codec = ProstCodec::<Since, Event>::default();
    let request = tonic::Request::new(Since { number });
    let mut events = grpc.server_streaming(request, path, codec).await?.into_inner();
    while let Some(event) = events.message().await? {
        seen.push(event.number);
    }
    Ok(())
}

/// Follows a feed to its end; returns the numbers of the events.
pub async fn follow_all(server: &'static str, resuming: Resuming) -> Vec<u64> {
    let channel = Endpoint::from_static(server)
        .connect_timeout(Duration::from_secs(1))
        .timeout(Duration::from_secs(5))
        .connect_lazy();
    let mut seen = Vec::new();
    loop {
        let from = match (resuming, seen.last()) {
            (_, None) => 0,
            (Resuming::AfterLast, Some(last)) => last + 1,
            (Resuming::AtLast, Some(last)) => *last,
        };
        match follow(&channel, from, &mut seen).await {
            Ok(()) => return seen,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
