//! The replicating storage system of the P# paper (FAST 2016, section 2.2).
//!
//! A client asks a server to replicate a value and waits for the acknowledgement. The server
//! broadcasts the value to three storage nodes; each of them reports its log whenever its timer
//! fires. A node whose report is out of date receives the value again, a node that is up to date
//! counts as a replica, and after three replicas the server acknowledges.
//!
//! The server has the paper's two bugs: one violates safety, the other liveness.

use std::collections::{BTreeMap, BTreeSet};

use everhold::System;
use everhold::prelude::*;

/// The number of storage nodes that must have a value before it is acknowledged.
pub const REPLICAS: usize = 3;
/// The number of values that the client stores.
const REQUESTS: u64 = 2;

/// The known bugs of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It counts reports, not nodes: one node that reports twice counts as two replicas.
    CountsReports,
    /// It does not reset the count after an acknowledgement, so there is only ever one.
    KeepsCount,
}

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Client to server: replicate this value.
    Request(u64),
    /// Server to storage: store this value.
    Replicate(u64),
    /// Storage to server: this is my log.
    Sync(Vec<u64>),
    /// Server to client: there are three replicas.
    Ack,
}

/// The notifications that the specifications receive.
#[derive(Clone, Copy, Debug)]
pub enum Heard {
    /// The server received a request.
    Requested(u64),
    /// A storage node has the value.
    Stored(NodeId, u64),
    /// The server acknowledged the value.
    Acked(u64),
}

/// The system under test.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    bug: Bug,
    storage: Vec<NodeId>,
    client: Option<NodeId>,
    data: u64,
    replicas: BTreeSet<NodeId>,
    count: usize,
    acked: bool,
}

impl Server {
    fn new(storage: &[NodeId], bug: Bug) -> Self {
        Server {
            bug,
            storage: storage.to_vec(),
            client: None,
            data: 0,
            replicas: BTreeSet::new(),
            count: 0,
            acked: true,
        }
    }

    fn request(&mut self, cx: &mut Cx<Msg>, from: NodeId, value: u64) {
        self.client = Some(from);
        self.data = value;
        self.acked = false;
        self.replicas.clear();
        if self.bug != Bug::KeepsCount {
            self.count = 0;
        }
        cx.notify(Heard::Requested(value));
        for node in &self.storage {
            cx.send(*node, Msg::Replicate(value));
        }
    }

    fn sync(&mut self, cx: &mut Cx<Msg>, from: NodeId, log: &[u64]) {
        if log.last() != Some(&self.data) {
            cx.send(from, Msg::Replicate(self.data));
            return;
        }
        let is_new = self.replicas.insert(from);
        if is_new || self.bug == Bug::CountsReports {
            self.count += 1;
        }
        if self.count == REPLICAS && !self.acked {
            self.acked = true;
            cx.notify(Heard::Acked(self.data));
            cx.send(self.client.expect("a value comes with a request"), Msg::Ack);
        }
    }
}

impl Node for Server {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Request(value) => self.request(cx, from, value),
            Msg::Sync(_) if self.client.is_none() => {}
            Msg::Sync(log) => self.sync(cx, from, &log),
            Msg::Replicate(_) | Msg::Ack => cx.unexpected(msg),
        }
    }
}

/// A modelled storage node: its log is in memory.
#[derive(Clone, Debug, Serialize)]
pub struct Storage {
    server: NodeId,
    log: Vec<u64>,
}

impl Storage {
    const SYNC: Duration = Duration::from_millis(100);
}

impl Node for Storage {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("sync", Storage::SYNC);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            // Values only grow: a value that its successor has overtaken is not stored any more.
            Msg::Replicate(value) if self.log.last().is_none_or(|last| *last < value) => {
                self.log.push(value);
                cx.notify(Heard::Stored(cx.id(), value));
            }
            Msg::Replicate(_) => {}
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.send(self.server, Msg::Sync(self.log.clone()));
        cx.set_timer("sync", Storage::SYNC);
    }
}

/// The modelled client: two requests, one after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    server: NodeId,
    acked: u64,
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(self.server, Msg::Request(1));
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Ack => {
                self.acked += 1;
                if self.acked < REQUESTS {
                    cx.send(self.server, Msg::Request(self.acked + 1));
                }
            }
            other => cx.unexpected(other),
        }
    }
}

/// Safety (section 2.4): an acknowledgement means three replicas.
#[derive(Clone, Default, Serialize)]
struct ThreeReplicas {
    latest: BTreeMap<NodeId, u64>,
}

impl Monitor for ThreeReplicas {
    type Event = Heard;

    fn observe(&mut self, event: &Heard) {
        match *event {
            Heard::Requested(_) => {}
            Heard::Stored(node, value) => drop(self.latest.insert(node, value)),
            Heard::Acked(value) => {
                let replicas: Vec<_> =
                    self.latest.iter().filter(|(_, latest)| **latest == value).collect();
                assert!(
                    replicas.len() >= REPLICAS,
                    "value {value} was acknowledged with {} replicas",
                    replicas.len()
                );
            }
        }
    }
}

/// Liveness (section 2.5): every request is acknowledged.
#[derive(Clone, Default, Serialize)]
struct Answered {
    waiting: bool,
}

impl Monitor for Answered {
    type Event = Heard;

    fn observe(&mut self, event: &Heard) {
        match event {
            Heard::Requested(_) => self.waiting = true,
            Heard::Acked(_) => self.waiting = false,
            Heard::Stored(..) => {}
        }
    }

    fn is_hot(&self) -> bool {
        self.waiting
    }
}

/// The safety specification.
pub const SAFETY: &str = "an ack means three replicas";
/// The liveness specification.
pub const LIVENESS: &str = "every request is acknowledged";

/// A client, a server and three storage nodes with their timers.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let server = NodeId(REPLICAS as u32);
        let storage = system.nodes("storage", REPLICAS, |_| Storage { server, log: Vec::new() });
        assert_eq!(system.node("server", Server::new(&storage, bug)), server);
        let client = system.node("client", Client { server, acked: 0 });
        system.monitor(SAFETY, ThreeReplicas::default());
        system.monitor(LIVENESS, Answered::default());
        system.sometimes("both requests are acknowledged", move |s| {
            s.get::<Client>(client).is_some_and(|client| client.acked == REQUESTS)
        });
    }
}
