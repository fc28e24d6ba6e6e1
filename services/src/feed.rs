//! A feed over gRPC, with tonic and prost: writers post entries, and readers follow them as a
//! stream.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tonic::client::Grpc as Caller;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{BoxFuture, BoxStream, Context, Poll, Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

const POST: &str = "/feed.Feed/Post";
const FOLLOW: &str = "/feed.Feed/Follow";
/// The time for which a writer waits for an acknowledgement.
const ANSWER: Duration = Duration::from_secs(1);

/// An entry of the feed. Its number makes a repeated post harmless.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entry {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(string, tag = "2")]
    pub text: String,
}

/// The beginning of a stream; without a number it begins with what is posted next.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Start {
    #[prost(uint64, optional, tag = "1")]
    pub number: Option<u64>,
}

/// The service: all entries, in their order.
#[derive(Clone, Debug, Default)]
pub struct Feed(watch::Sender<Vec<Entry>>);

impl UnaryService<Entry> for Feed {
    type Response = Entry;
    type Future = BoxFuture<Response<Entry>, Status>;

    fn call(&mut self, request: Request<Entry>) -> Self::Future {
        let entry = request.into_inner();
        self.0.send_if_modified(|entries| {
            let is_next = entry.number == entries.len() as u64;
            if is_next {
                entries.push(entry.clone());
            }
            is_next
        });
        Box::pin(async { Ok(Response::new(entry)) })
    }
}

impl ServerStreamingService<Start> for Feed {
    type Response = Entry;
    type ResponseStream = BoxStream<Entry>;
    type Future = BoxFuture<Response<BoxStream<Entry>>, Status>;

    fn call(&mut self, request: Request<Start>) -> Self::Future {
        let entries = self.0.subscribe();
        let begin = request.into_inner().number.map_or(entries.borrow().len(), |n| n as usize);
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(send_news(entries, begin, send));
        let stream: BoxStream<Entry> = Box::pin(ReceiverStream::new(receive));
        Box::pin(async { Ok(Response::new(stream)) })
    }
}

/// Sends what is there from an entry on, and then what comes, until nobody follows any more.
async fn send_news(
    mut entries: watch::Receiver<Vec<Entry>>,
    mut next: usize,
    send: mpsc::Sender<Result<Entry, Status>>,
) {
    loop {
        let news = entries.borrow_and_update().get(next..).unwrap_or_default().to_vec();
        for entry in news {
            next += 1;
            if send.send(Ok(entry)).await.is_err() {
                return;
            }
        }
        if entries.changed().await.is_err() {
            return;
        }
    }
}

impl NamedService for Feed {
    const NAME: &'static str = "feed.Feed";
}

impl Service<http::Request<Body>> for Feed {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let feed = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                POST => Grpc::new(ProstCodec::default()).unary(feed, request).await,
                FOLLOW => Grpc::new(ProstCodec::default()).server_streaming(feed, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// The service's program.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), tonic::transport::Error> {
    let address = "0.0.0.0:50051".parse().expect("it is an address");
    Server::builder().add_service(Feed::default()).serve(address).await
}

fn channel(service: &'static str) -> Channel {
    Endpoint::from_static(service).connect_timeout(Duration::from_secs(1)).connect_lazy()
}

async fn ready(channel: &Channel) -> Result<Caller<Channel>, Status> {
    let mut caller = Caller::new(channel.clone());
    caller.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(caller)
}

/// Posts an entry; repeats it until it is acknowledged.
pub async fn post(service: &'static str, number: u64) {
    let channel = channel(service);
    let entry = Entry { number, text: format!("entry {number}") };
    while !matches!(timeout(ANSWER, posted(&channel, &entry)).await, Ok(Ok(()))) {
        sleep(Duration::from_millis(50)).await;
    }
}

async fn posted(channel: &Channel, entry: &Entry) -> Result<(), Status> {
    let (path, codec) = (PathAndQuery::from_static(POST), ProstCodec::<Entry, Entry>::default());
    ready(channel).await?.unary(Request::new(entry.clone()), path, codec).await?;
    Ok(())
}

/// Where a reader goes on after its stream broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resuming {
    /// After the last entry that it has.
    AfterTheLast,
    /// With what is posted next.
    Now,
}

/// A reader of the feed.
#[derive(Debug)]
pub struct Reader {
    channel: Channel,
    resuming: Resuming,
    stream: Option<Streaming<Entry>>,
    next: u64,
}

impl Reader {
    /// Follows the feed from its beginning.
    pub fn new(service: &'static str, resuming: Resuming) -> Reader {
        Reader { channel: channel(service), resuming, stream: None, next: 0 }
    }

    /// The next entry.
    pub async fn next(&mut self) -> Entry {
        loop {
            if self.stream.is_none() {
                self.stream = self.follow().await.ok();
            }
            let Some(stream) = &mut self.stream else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            match stream.message().await {
                Ok(Some(entry)) => {
                    self.next = entry.number + 1;
                    return entry;
                }
                Ok(None) | Err(_) => self.stream = None,
            }
        }
    }

    async fn follow(&self) -> Result<Streaming<Entry>, Status> {
        let is_first = self.next == 0;
        let from_number = is_first || self.resuming == Resuming::AfterTheLast;
        let start = Start { number: from_number.then_some(self.next) };
        let path = PathAndQuery::from_static(FOLLOW);
        let codec = ProstCodec::<Start, Entry>::default();
        let mut caller = ready(&self.channel).await?;
        Ok(caller.server_streaming(Request::new(start), path, codec).await?.into_inner())
    }
}
