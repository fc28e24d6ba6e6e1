//! Past one machine: NATS with JetStream (feature `nats`).
//!
//! - A stream for each partition, so that numbers are without gaps.
//! - A bucket of leases that expire: a checker renews those it holds, takes free ones, and gives
//!   back what is more than its share.
//! - A bucket of checkpoints. The revision of a partition's checkpoint is the fencing token: who
//!   takes a partition over writes it once, and from then on the former owner's writes are refused.
//! - A bucket of the violations that were reported, so that only one of several processes reports each.
//!
//! Progress is never left to the acknowledgements of consumers: the server of Debian 12 (2.9) has
//! been seen to lose 500 messages with `AckAll` when a consumer restarts fast. It also accepts
//! options of later versions and ignores them, so what it echoes is compared with what was asked.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, HeaderMap};
use everhold_tls::ClientFiles;
use futures_util::StreamExt;
use tokio::runtime::Runtime;

use crate::log::{Cursor, Entry, Log, LogError, Sequence};

mod leases;

pub use leases::NatsStore;

/// How the stream server is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsOptions {
    /// `nats://HOST:PORT`, or `tls://HOST:PORT`.
    pub url: String,
    /// The certificates to trust over `tls://`, and the one to present.
    pub tls: ClientFiles,
    /// The beginning of the names of streams and buckets: one server, several systems.
    pub prefix: String,
    /// The number of partitions, which is fixed when the streams are made.
    pub partitions: u32,
    /// The largest size of a partition in bytes.
    pub partition_bytes_max: i64,
    /// A checker that does not renew its leases for so long loses them.
    pub lease: Duration,
    /// The time for which an append waits for a server that does not answer.
    pub patience: Duration,
}

impl NatsOptions {
    /// The defaults, for a server.
    #[must_use]
    pub fn new(url: &str) -> NatsOptions {
        NatsOptions {
            url: url.to_owned(),
            tls: ClientFiles::default(),
            prefix: "everhold".to_owned(),
            partitions: 8,
            partition_bytes_max: 1 << 30,
            lease: Duration::from_secs(2),
            patience: Duration::from_secs(20),
        }
    }
}

/// A connection to the stream server.
#[derive(Clone)]
pub struct Nats {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) context: Context,
    pub(crate) options: Arc<NatsOptions>,
    /// Distinguishes this process from others.
    pub(crate) id: u64,
    messages: Arc<AtomicU64>,
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("options", &self.options).finish()
    }
}

/// A call takes at most this long.
const CALL_MAX: Duration = Duration::from_secs(5);

/// How keys are spread over the streams of partitions; it stands in their descriptions.
const SPREAD: &str = "everhold: keys spread by stable hash 1";
/// How to connect, with the files for TLS.
fn connect_options(options: &NatsOptions) -> Result<ConnectOptions, LogError> {
    let ClientFiles { ca, cert, key, .. } = &options.tls;
    if options.url.starts_with("tls://") {
        // The library opens the files again; what is wrong with them is told better here.
        #[cfg(feature = "tls")]
        everhold_tls::ClientTls::read(&options.tls)
            .map_err(|error| LogError::Server(error.to_string()))?;
    }
    // Without this, a server that does not ask for TLS would be spoken to without.
    let mut connect =
        ConnectOptions::new().require_tls(options.url.starts_with("tls://") || cert.is_some());
    if let Some(ca) = ca {
        connect = connect.add_root_certificates(ca.clone());
    }
    if let (Some(cert), Some(key)) = (cert, key) {
        connect = connect.add_client_certificate(cert.clone(), key.clone());
    }
    Ok(connect)
}

fn no_server(url: &str, error: &async_nats::ConnectError) -> LogError {
    let name = url.split_once("://").map_or(url, |(_, rest)| rest);
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(tls) = everhold_tls::reason(inner, name) {
            return LogError::Server(format!("the stream server at {url}: {tls}"));
        }
        reason = inner.to_string();
        source = inner.source();
    }
    LogError::Server(format!(
        "no stream server at {url} ({reason}); install one with `apt install nats-server` and start it \
         with `nats-server --jetstream --store_dir FOLDER`, or leave out --engine"
    ))
}

/// The oldest server that is known to work.
const VERSION_MIN: (u32, u32) = (2, 9);

pub(crate) fn server(error: impl fmt::Display) -> LogError {
    LogError::Server(format!("the stream server: {error}"))
}

impl Nats {
    /// Connects, and makes the streams and buckets if they are not there.
    ///
    /// # Errors
    ///
    /// If there is no server, or it does not do what is needed; the text says what to do.
    pub fn connect(options: &NatsOptions) -> Result<Nats, LogError> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().map_err(server)?;
        let url = &options.url;
        let connecting = connect_options(options)?.connection_timeout(CALL_MAX).connect(url);
        let client = runtime.block_on(connecting).map_err(|error| no_server(url, &error))?;
        check_version(&client.server_info().version)?;
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), url);
        let context = {
            // It starts a task of its own.
            let _inside = runtime.enter();
            jetstream::new(client)
        };
        let nats = Nats {
            runtime: Arc::new(runtime),
            context,
            options: Arc::new(options.clone()),
            id: seed,
            messages: Arc::default(),
        };
        for partition in 0..options.partitions {
            nats.stream(nats.log_config(partition))?;
        }
        nats.check_partitions()?;
        for (bucket, age) in [("leases", options.lease), ("checkpoints", Duration::ZERO)] {
            nats.stream(nats.bucket_config(bucket, age))?;
        }
        nats.stream(nats.bucket_config("told", Duration::from_secs(24 * 3_600)))?;
        Ok(nats)
    }

    /// The log of this server.
    #[must_use]
    pub fn log(&self) -> NatsLog {
        NatsLog { nats: self.clone() }
    }

    /// The leases and checkpoints of this server.
    #[must_use]
    pub fn store(&self) -> NatsStore {
        NatsStore::new(self.clone())
    }

    /// Waits for an answer, but not forever.
    pub(crate) fn wait<T, E: fmt::Display>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, LogError> {
        let bounded = async { tokio::time::timeout(CALL_MAX, call).await };
        match self.runtime.block_on(bounded) {
            Ok(answer) => answer.map_err(server),
            Err(_) => Err(server("no answer in time")),
        }
    }

    fn stream_name(&self, partition: u32) -> String {
        format!("{}-{partition}", self.options.prefix)
    }

    fn log_config(&self, partition: u32) -> Config {
        Config {
            name: self.stream_name(partition),
            subjects: vec![format!("{}.log.{partition}", self.options.prefix)],
            // Watches that spread keys by other hashes must not share streams.
            description: Some(SPREAD.to_owned()),
            max_bytes: self.options.partition_bytes_max,
            storage: StorageType::File,
            duplicate_window: Duration::from_secs(120),
            ..Config::default()
        }
    }

    /// Buckets are made as streams: on a 2.9 server the call that makes a bucket fails.
    fn bucket_config(&self, bucket: &str, age: Duration) -> Config {
        let name = self.bucket(bucket);
        Config {
            subjects: vec![format!("$KV.{name}.>")],
            name: format!("KV_{name}"),
            max_messages_per_subject: 1,
            max_age: age,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            allow_rollup: true,
            allow_direct: true,
            // The window may not be longer than the age.
            duplicate_window: if age.is_zero() { CALL_MAX } else { age.min(CALL_MAX) },
            ..Config::default()
        }
    }

    pub(crate) fn bucket(&self, bucket: &str) -> String {
        format!("{}-{bucket}", self.options.prefix)
    }

    /// Makes a stream, or finds it, and compares what the server made of it.
    fn stream(&self, wanted: Config) -> Result<(), LogError> {
        let stream = self.wait(self.context.get_or_create_stream(wanted.clone()))?;
        let made = &stream.cached_info().config;
        if wanted.description.is_some() && made.description != wanted.description {
            return Err(LogError::Unusable(format!(
                "the stream {} on the server was made by a version of Everhold that spreads keys \
                 over partitions in another way; remove the streams, or give another prefix",
                wanted.name
            )));
        }
        let same = made.subjects == wanted.subjects
            && made.max_messages_per_subject.max(0) == wanted.max_messages_per_subject.max(0)
            && made.max_age == wanted.max_age
            && made.storage == wanted.storage;
        if same {
            return Ok(());
        }
        Err(LogError::Unusable(format!(
            "the stream {} on the server is configured otherwise than asked; remove it, or give \
             another prefix",
            wanted.name
        )))
    }

    /// A stream beyond the last says that there were more partitions.
    fn check_partitions(&self) -> Result<(), LogError> {
        let beyond = self.stream_name(self.options.partitions);
        if self.wait(self.context.get_stream(beyond)).is_ok() {
            return Err(LogError::Unusable(format!(
                "the server has more than {} partitions for {}; ask for as many as there are",
                self.options.partitions, self.options.prefix
            )));
        }
        Ok(())
    }
}

fn check_version(version: &str) -> Result<(), LogError> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found >= VERSION_MIN {
        return Ok(());
    }
    Err(LogError::Server(format!("the stream server is of version {version}; 2.9 is needed")))
}

/// A log of streams.
#[derive(Clone, Debug)]
pub struct NatsLog {
    nats: Nats,
}

impl NatsLog {
    /// Publishes once, however often it must be tried: the server knows the identity.
    fn publish(&self, partition: u32, bytes: &[u8]) -> Result<Sequence, LogError> {
        let Nats { context, options, id, messages, .. } = &self.nats;
        let subject = format!("{}.log.{partition}", options.prefix);
        let number = messages.fetch_add(1, Relaxed);
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{id:x}-{number}").as_str());
        let end = Instant::now() + options.patience;
        loop {
            let (subject, headers) = (subject.clone(), headers.clone());
            let payload = bytes.to_vec().into();
            let sent = self.nats.wait(async {
                context.publish_with_headers(subject, headers, payload).await?.await
            });
            match sent {
                Ok(ack) => return Ok(ack.sequence),
                Err(error) if Instant::now() >= end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

impl Log for NatsLog {
    fn partitions(&self) -> u32 {
        self.nats.options.partitions
    }

    fn append(&self, partition: u32, entries: &[&[u8]]) -> Result<Sequence, LogError> {
        let mut last = 0;
        for entry in entries {
            last = self.publish(partition, entry)?;
        }
        Ok(last)
    }

    fn cursor(&self, partition: u32, from: Sequence) -> Result<Box<dyn Cursor>, LogError> {
        let name = self.nats.stream_name(partition);
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from.max(1) },
            ack_policy: AckPolicy::None,
            inactive_threshold: Duration::from_secs(30),
            ..pull::Config::default()
        };
        let consumer = self.nats.wait(async {
            let stream = self.nats.context.get_stream(name).await.map_err(|e| e.to_string())?;
            stream.create_consumer(config).await.map_err(|e| e.to_string())
        })?;
        Ok(Box::new(NatsCursor { nats: self.nats.clone(), consumer, next: from.max(1) }))
    }

    fn next_sequence(&self, partition: u32) -> Result<Sequence, LogError> {
        let name = self.nats.stream_name(partition);
        let stream = self.nats.wait(self.nats.context.get_stream(name))?;
        Ok(stream.cached_info().state.last_sequence + 1)
    }

    /// The server drops the oldest by itself; another checker may still want to read them.
    fn trim(&self, _: u32, _: Sequence) -> Result<(), LogError> {
        Ok(())
    }
}

struct NatsCursor {
    nats: Nats,
    consumer: PullConsumer,
    next: Sequence,
}

impl fmt::Debug for NatsCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsCursor").field("next", &self.next).finish()
    }
}

/// The number of messages that are requested at once.
const FETCH: usize = 256;

impl Cursor for NatsCursor {
    fn next(&mut self, _: usize, wait: Duration) -> Result<Vec<Entry>, LogError> {
        let entries = self.nats.wait(async {
            let mut entries = Vec::new();
            let ready = self.consumer.fetch().max_messages(FETCH).messages();
            take(ready.await.map_err(|e| e.to_string())?, &mut entries).await?;
            if entries.is_empty() {
                let first = self.consumer.batch().max_messages(1).expires(wait).messages();
                take(first.await.map_err(|e| e.to_string())?, &mut entries).await?;
            }
            Ok::<_, String>(entries)
        })?;
        let mut fresh = Vec::new();
        for entry in entries {
            // A consumer may hand out again what it has handed out.
            if entry.sequence >= self.next {
                self.next = entry.sequence + 1;
                fresh.push(entry);
            }
        }
        Ok(fresh)
    }
}

async fn take(mut messages: pull::Batch, entries: &mut Vec<Entry>) -> Result<(), String> {
    while let Some(message) = messages.next().await {
        let message = message.map_err(|error| error.to_string())?;
        let sequence = message.info().map_err(|error| error.to_string())?.stream_sequence;
        entries.push(Entry { sequence, bytes: message.payload.to_vec() });
    }
    Ok(())
}
