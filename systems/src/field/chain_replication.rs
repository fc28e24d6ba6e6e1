//! Chain replication (van Renesse and Schneider, OSDI 2004), as in the benchmark of P# and Coyote.
//!
//! Clients send updates to the head of a chain of servers, which number them; every server appends an
//! update to its history, keeps it as *sent* and passes it on; the tail acknowledges it back along the
//! chain, and servers forget it as sent. A master removes a server that failed: its neighbours become
//! neighbours, and the predecessor sends again what the new successor has not received.
//!
//! The specification is the benchmark's: the numbers in each history ascend without gaps. The
//! benchmark's authors publish the symptom ("Sequence is not sorted") and not the defect. The bug here
//! is the one that its text allows: the predecessor sends again everything that is not acknowledged,
//! without asking what the new successor has.

use everhold::prelude::*;
use everhold::{Network, System};

/// The number of servers.
const SERVERS: u32 = 3;
/// The number of updates of a client.
const UPDATES: u32 = 3;
/// The master.
const MASTER: NodeId = NodeId(SERVERS);

/// The known bugs of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A server sends a new successor everything that is not acknowledged, also what it has already.
    ResendsEverything,
}

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Msg {
    /// Client to head: update.
    Update,
    /// Along the chain: append the update with this number.
    Append(u32),
    /// Back along the chain: updates up to this one are on all servers.
    Ack(u32),
    /// Failure detector to master: this server failed.
    Failed(NodeId),
    /// Master to server: this is your predecessor.
    Predecessor(Option<NodeId>),
    /// Server to master: I know my predecessor, and this is the last update that I have.
    Received(u32),
    /// Master to server: this is your successor, and the last update that it has.
    Successor(Option<NodeId>, u32),
}

/// A server of the chain.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    bug: Bug,
    predecessor: Option<NodeId>,
    successor: Option<NodeId>,
    /// The numbers of its updates.
    pub history: Vec<u32>,
    acknowledged: u32,
}

impl Server {
    fn last(&self) -> u32 {
        self.history.last().copied().unwrap_or(0)
    }

    fn append(&mut self, cx: &mut Cx<Msg>, number: u32) {
        self.history.push(number);
        match self.successor {
            Some(successor) => cx.send(successor, Msg::Append(number)),
            None => self.acknowledge(cx, number),
        }
    }

    fn acknowledge(&mut self, cx: &mut Cx<Msg>, number: u32) {
        self.acknowledged = self.acknowledged.max(number);
        if let Some(predecessor) = self.predecessor {
            cx.send(predecessor, Msg::Ack(number));
        }
    }

    fn follow(&mut self, cx: &mut Cx<Msg>, successor: Option<NodeId>, has: u32) {
        self.successor = successor;
        let Some(successor) = successor else {
            // This is the tail now: whatever it has is on all servers.
            return self.acknowledge(cx, self.last());
        };
        let from = if self.bug == Bug::ResendsEverything { self.acknowledged } else { has };
        for number in self.history.iter().filter(|number| **number > from) {
            cx.send(successor, Msg::Append(*number));
        }
    }
}

impl Node for Server {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            // An update that reaches a server which is no longer, or not yet, the head is passed on.
            Msg::Update => match self.predecessor {
                None => self.append(cx, self.last() + 1),
                Some(predecessor) => cx.send(predecessor, Msg::Update),
            },
            // What a removed predecessor had sent is sent again by the new one.
            Msg::Append(number) if Some(from) == self.predecessor => self.append(cx, number),
            Msg::Append(_) => {}
            Msg::Ack(number) => self.acknowledge(cx, number),
            Msg::Predecessor(predecessor) => {
                self.predecessor = predecessor;
                cx.send(from, Msg::Received(self.last()));
            }
            Msg::Successor(successor, has) => self.follow(cx, successor, has),
            Msg::Failed(_) if from == MASTER => cx.halt(),
            other => cx.unexpected(other),
        }
    }
}

/// Repairs the chain.
#[derive(Clone, Debug, Serialize)]
pub struct Master {
    chain: Vec<NodeId>,
    /// The place in the chain that is being repaired.
    repairing: Option<usize>,
    /// The number of repairs.
    pub repairs: u32,
}

impl Master {
    fn remove(&mut self, cx: &mut Cx<Msg>, failed: NodeId) {
        let Some(at) = self.chain.iter().position(|server| *server == failed) else { return };
        self.chain.remove(at);
        cx.send(failed, Msg::Failed(failed));
        let predecessor = at.checked_sub(1).map(|before| self.chain[before]);
        match self.chain.get(at) {
            Some(successor) => {
                self.repairing = Some(at);
                cx.send(*successor, Msg::Predecessor(predecessor));
            }
            None => {
                self.repairs += 1;
                cx.send(self.chain[at - 1], Msg::Successor(None, 0));
            }
        }
    }
}

impl Node for Master {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("a server fails", Duration::from_millis(100));
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        let failed = self.chain[cx.choose("server that fails", self.chain.len())];
        self.remove(cx, failed);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Received(has) => {
                let Some(at) = self.repairing.take() else { return };
                self.repairs += 1;
                if let Some(predecessor) = at.checked_sub(1) {
                    cx.send(self.chain[predecessor], Msg::Successor(Some(self.chain[at]), has));
                }
            }
            other => cx.unexpected(other),
        }
    }
}

/// A modelled client: updates one after the other, without waiting.
#[derive(Clone, Debug, Serialize)]
pub struct Client;

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        for _ in 0..UPDATES {
            cx.send(NodeId(0), Msg::Update);
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
}

/// The specification.
pub const SORTED: &str = "histories ascend without gaps";

/// Three servers, a master and a client.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.network(Network::Fifo);
        let chain: Vec<NodeId> = (0..SERVERS).map(NodeId).collect();
        system.nodes("server", chain.len(), |at| Server {
            bug,
            predecessor: at.checked_sub(1).map(|before| NodeId(before as u32)),
            successor: chain.get(at + 1).copied(),
            history: Vec::new(),
            acknowledged: 0,
        });
        let master = system.node("master", Master { chain, repairing: None, repairs: 0 });
        system.node("client", Client);
        system.always(SORTED, |s| {
            let wrong = s.all::<Server>().find(|(_, server)| {
                server.history.iter().zip(1..).any(|(number, expected)| *number != expected)
            });
            wrong.map_or(Ok(()), |(node, server)| Err(format!("{node} has {:?}", server.history)))
        });
        system.sometimes("the chain is repaired", move |s| {
            s.get::<Master>(master).is_some_and(|master| master.repairs > 0)
        });
    }
}
