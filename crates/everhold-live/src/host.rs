//! Runs the same nodes on real sockets, with real timers and a real disk.
//!
//! A node that was explored runs here unchanged: [`Host`] is another runtime for [`Node`]s and
//! async programs. Each node has a thread that runs its events one at a time. At the end of an
//! event, synced writes are made durable before any message of the event leaves. A process that is
//! killed between two events has therefore promised nothing that its disk does not hold.
//!
//! ```no_run
//! use everhold_live::host::{Codec, Config, Host};
//! use everhold_node::{Cx, Node, NodeId};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Serialize, Deserialize)]
//! enum Msg { Ping, Pong }
//!
//! #[derive(Clone, Serialize)]
//! struct Echo { answered: u32 }
//!
//! impl Node for Echo {
//!     type Msg = Msg;
//!     fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
//!         self.answered += 1;
//!         cx.reply(Msg::Pong);
//!     }
//! }
//!
//! let config = Config::read("echo.json".as_ref())?;
//! let running = Host::new(config, Codec::postcard())
//!     .node(NodeId(0), "server", || Echo { answered: 0 })
//!     .start()?;
//! running.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If checkers or a folder for recordings are configured, every node has a probe that shows its
//! events, its messages, and the changes of its state after each event.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use everhold_node::{AsyncCx, Blueprint, Disk, Message, Node, NodeId};
use everhold_tls::TlsError;
use everhold_trace::Value;

mod client;
mod codec;
mod config;
mod core;
mod loopback;
mod net;
mod packet;
mod run;
mod store;
pub(crate) mod view;

pub use client::Client;
pub use codec::Codec;
pub use config::{Config, ConfigError, TlsFiles, Transport};
pub use loopback::loopback;
pub use view::Channels;

use self::core::Core;
use net::{Input, Sockets};
use packet::Identity;
use run::Loop;
use store::Store;
use view::View;

use crate::assertion::Look;
use crate::probe::{Builder, Probe};
use crate::recording::Recording;
use crate::report::Report;

/// Makes a blueprint on the thread of its node, since nodes need not be `Send`.
type Recipe<M> = Box<dyn FnOnce() -> Blueprint<M> + Send>;

/// The nodes of one process, before they run.
#[must_use = "`start` runs the nodes"]
pub struct Host<M> {
    config: Config,
    codec: Codec<M>,
    report: Report,
    nodes: BTreeMap<NodeId, (String, Recipe<M>)>,
    listeners: BTreeMap<NodeId, TcpListener>,
    notes: BTreeMap<String, Value>,
}

impl<M> fmt::Debug for Host<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("nodes", &self.nodes.keys()).finish_non_exhaustive()
    }
}

/// The reasons for which nodes cannot run.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostError {
    /// A node has no address.
    NotConfigured(NodeId),
    /// A node's address can be reached from other machines, which the configuration does not allow.
    Open(NodeId, SocketAddr),
    /// A node's address cannot be used.
    Bind(NodeId, SocketAddr, io::Error),
    /// A node's folder cannot be used.
    Data(NodeId, io::Error),
    /// TLS with the checkers cannot be set up.
    Tls(TlsError),
    /// The operating system refuses a thread or a socket.
    System(io::Error),
    /// A node panicked; the message is its own.
    Panicked(NodeId, String),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::NotConfigured(node) => {
                write!(f, "{node} has no address; add it to \"nodes\" of the configuration")
            }
            HostError::Open(node, address) => write!(
                f,
                "{node} would listen on {address}, which other machines reach; set \"open\": true \
                 if every machine there is trusted, or use 127.0.0.1"
            ),
            HostError::Bind(node, address, error) => write!(
                f,
                "{node} cannot listen on {address} ({error}); is the node running already?"
            ),
            HostError::Data(node, error) => write!(f, "the folder of {node}: {error}"),
            HostError::Tls(error) => write!(f, "\"tls\" of the configuration: {error}"),
            HostError::System(error) => write!(f, "the system refuses a thread or socket: {error}"),
            HostError::Panicked(node, message) => write!(f, "{node} stopped: {message}"),
        }
    }
}

impl std::error::Error for HostError {}

impl<M: Message> Host<M> {
    /// Makes a process of the configured system, without any nodes yet.
    pub fn new(config: Config, codec: Codec<M>) -> Host<M> {
        Host {
            config,
            codec,
            report: Report::default(),
            nodes: BTreeMap::new(),
            listeners: BTreeMap::new(),
            notes: BTreeMap::new(),
        }
    }

    /// Runs a node with handlers in this process.
    pub fn node<N: Node<Msg = M>>(
        mut self,
        id: NodeId,
        kind: &str,
        make: impl Fn() -> N + Send + 'static,
    ) -> Host<M> {
        let recipe: Recipe<M> = Box::new(move || Blueprint::made_by(make));
        self.nodes.insert(id, (kind.to_owned(), recipe));
        self
    }

    /// Runs an async node in this process.
    pub fn program<F, Fut>(mut self, id: NodeId, kind: &str, program: F) -> Host<M>
    where
        F: Fn(AsyncCx<M>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let recipe: Recipe<M> = Box::new(move || Blueprint::program(program));
        self.nodes.insert(id, (kind.to_owned(), recipe));
        self
    }

    /// Uses a socket that listens already, instead of binding the node's address.
    pub fn listen_on(mut self, id: NodeId, listener: TcpListener) -> Host<M> {
        self.listeners.insert(id, listener);
        self
    }

    /// Adds a note about the run to every recording, for facts that a replay needs.
    pub fn note(mut self, key: &str, value: impl Into<Value>) -> Host<M> {
        self.notes.insert(key.to_owned(), value.into());
        self
    }

    /// Sets the report to which problems are sent.
    pub fn report(mut self, report: Report) -> Host<M> {
        self.report = report;
        self
    }

    /// Opens sockets and disks and starts the nodes.
    ///
    /// # Errors
    ///
    /// If one of the nodes cannot run; then none is started.
    pub fn start(self) -> Result<Running, HostError> {
        let Host { config, codec, report, nodes, mut listeners, notes } = self;
        let mut ready = Vec::new();
        for (id, (kind, recipe)) in nodes {
            let listener = listeners.remove(&id);
            ready.push((Ready::new(id, kind, &config, &notes, &report, listener)?, recipe));
        }
        let started = ready.into_iter().map(|(ready, recipe)| ready.start(recipe, codec));
        Ok(Running { nodes: started.collect::<Result<_, _>>()? })
    }
}

/// A node with its resources, before it runs.
struct Ready {
    id: NodeId,
    net: net::Net,
    sockets: Sockets,
    inputs: Receiver<Input>,
    stop: SyncSender<Input>,
    store: Option<Store>,
    disk: Disk,
    again: bool,
    incarnation: u64,
    first_message: u64,
    seed: u64,
    probe: Probe,
    report: Report,
}

impl Ready {
    fn new(
        id: NodeId,
        kind: String,
        config: &Config,
        notes: &BTreeMap<String, Value>,
        report: &Report,
        listener: Option<TcpListener>,
    ) -> Result<Ready, HostError> {
        let address = *config.nodes.get(&id).ok_or(HostError::NotConfigured(id))?;
        if !address.ip().is_loopback() && !config.open {
            return Err(HostError::Open(id, address));
        }
        let bind = |error| HostError::Bind(id, address, error);
        let listener = listener.map_or_else(|| TcpListener::bind(address), Ok).map_err(bind)?;
        let udp = match config.transport {
            Transport::Tcp => None,
            Transport::Udp => Some(UdpSocket::bind(address).map_err(bind)?),
        };
        let (store, disk, boots) = match &config.data {
            Some(data) => {
                let opened = Store::open(&data.join(id.to_string()));
                let (store, disk, boots) = opened.map_err(|error| HostError::Data(id, error))?;
                (Some(store), disk, boots)
            }
            None => (None, Disk::default(), 0),
        };
        let incarnation = if boots > 0 { boots } else { crate::time::micros() };
        // The counts of messages continue after a restart: the number of starts is in their upper
        // half.
        let first = if boots > 0 { boots << 32 } else { incarnation };
        let (system, is_client) = (config.system.clone(), false);
        let identity = Identity { system, node: id, incarnation, is_client };
        let (net, sockets, inputs, stop) =
            net::start(identity, listener, udp, &config.nodes, report)
                .map_err(HostError::System)?;
        let recording = config.record.as_ref().map(|folder| {
            let recording = Recording::into(folder).note("seed", config.seed);
            notes
                .iter()
                .fold(recording, |recording, (key, value)| recording.note(key, value.clone()))
        });
        let tls = config.tls.as_ref().map(TlsFiles::read).transpose().map_err(HostError::Tls)?;
        let watched = stop.clone();
        // If the queue is full, events are pending, and each of them shows the state.
        let watched = move || drop(watched.try_send(Input::Watched));
        let probe = probe(id, &kind, config, recording, report, incarnation, first);
        let probe = tls.into_iter().fold(probe, Builder::tls);
        let probe = probe.refresh_later(watched).start();
        Ok(Ready {
            id,
            net,
            sockets,
            inputs,
            stop,
            store,
            disk,
            again: boots > 1,
            incarnation,
            first_message: first,
            seed: config.seed,
            probe,
            report: report.clone(),
        })
    }

    fn start<M: Message>(self, recipe: Recipe<M>, codec: Codec<M>) -> Result<Hosted, HostError> {
        let Ready { id, net, sockets, inputs, stop, store, disk, again, .. } = self;
        let (seed, incarnation, first_message) = (self.seed, self.incarnation, self.first_message);
        let (probe, report) = (self.probe, self.report);
        let view = Arc::new(View::default());
        let (published, watched) = (Arc::clone(&view), probe.clone());
        let run = move || {
            let core =
                Core::new(id, watched, report.clone(), seed, incarnation, first_message, disk);
            let mut hosted = Loop::new(core, codec, net, store, published);
            let process = recipe().make();
            let ended = catch_unwind(AssertUnwindSafe(|| hosted.run(process, again, &inputs)));
            ended.map_err(|panic| {
                let error = HostError::Panicked(id, words(&*panic));
                report.tell(&error.to_string());
                error
            })
        };
        let thread = thread::Builder::new().name(id.to_string()).spawn(run);
        let thread = thread.map_err(HostError::System)?;
        Ok(Hosted { id, stop, sockets, thread, probe, view })
    }
}

fn probe(
    id: NodeId,
    kind: &str,
    config: &Config,
    recording: Option<Recording>,
    report: &Report,
    incarnation: u64,
    first_message: u64,
) -> Builder {
    let mut probe = Probe::to_checkers(config.checkers.iter().copied())
        .system(&config.system)
        .node(id, &id.to_string(), kind)
        .incarnation(incarnation)
        .first_message(first_message)
        .report(report.clone());
    if let Some(secret) = &config.secret {
        probe = probe.secret(secret.as_bytes());
    }
    if let Some(recording) = recording {
        probe = probe.recording(recording);
    }
    probe
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked".to_owned())
}

struct Hosted {
    id: NodeId,
    stop: SyncSender<Input>,
    sockets: Sockets,
    thread: JoinHandle<Result<(), HostError>>,
    probe: Probe,
    view: Arc<View>,
}

/// Running nodes. If this value is dropped, they run until the process ends; see
/// [`stop`](Running::stop) and [`wait`](Running::wait).
pub struct Running {
    nodes: Vec<Hosted>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.nodes.iter().map(|hosted| hosted.id).collect();
        f.debug_struct("Running").field("nodes", &ids).finish_non_exhaustive()
    }
}

impl Running {
    /// Returns the probe of a node, for observations other than its state.
    #[must_use]
    pub fn probe(&self, node: NodeId) -> Option<&Probe> {
        self.nodes.iter().find(|hosted| hosted.id == node).map(|hosted| &hosted.probe)
    }

    /// Returns a function by which assertions see a node after each of its events.
    #[must_use]
    pub fn look(&self, node: NodeId) -> Option<Look> {
        let hosted = self.nodes.iter().find(|hosted| hosted.id == node)?;
        let view = Arc::clone(&hosted.view);
        view.want();
        Some(Arc::new(move || view.look()))
    }

    /// Runs `then` after each event of a node, on the node's thread. It is the place for an
    /// [`Assertion`](crate::Assertion), which may block the node there. A function that was set
    /// before is replaced.
    pub fn after_each_event(&self, node: NodeId, then: impl Fn() + Send + Sync + 'static) {
        if let Some(hosted) = self.nodes.iter().find(|hosted| hosted.id == node) {
            hosted.view.then(Arc::new(then));
        }
    }

    /// Lets every node finish its present event, sends the messages that are waiting, and ends.
    ///
    /// # Errors
    ///
    /// If a node had stopped with a panic.
    pub fn stop(self) -> Result<(), HostError> {
        for hosted in &self.nodes {
            // A loop that has already ended needs no notification.
            let _ = hosted.stop.send(Input::Stop);
        }
        self.wait()
    }

    /// Waits until every node has left or stopped.
    ///
    /// # Errors
    ///
    /// If a node stopped by a panic.
    pub fn wait(self) -> Result<(), HostError> {
        let mut result = Ok(());
        for hosted in self.nodes {
            let ended = hosted
                .thread
                .join()
                .unwrap_or_else(|panic| Err(HostError::Panicked(hosted.id, words(&*panic))));
            hosted.sockets.stop();
            result = result.and(ended);
        }
        result
    }
}
