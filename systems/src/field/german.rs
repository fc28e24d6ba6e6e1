//! German's cache coherence protocol (Pnueli, Ruah and Zuck, TACAS 2001), as in the samples of P and P#.
//!
//! Clients ask a home node for a shared or an exclusive copy of a cache line. Before the home node
//! grants an exclusive copy it invalidates all others, and before it grants a shared one it invalidates
//! an exclusive one. No client may have an exclusive copy while another client has any.
//!
//! No bug of it is documented in the samples; the bug here is the mutant by which verifiers of this
//! protocol are tested.

use std::collections::{BTreeSet, VecDeque};

use everhold::prelude::*;
use everhold::{Network, System};

/// The number of clients.
const CLIENTS: u32 = 3;
/// The number of requests of each client.
const REQUESTS: u32 = 2;
/// The home node.
const HOME: NodeId = NodeId(CLIENTS);

/// The known bugs of the home node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It grants a shared copy without invalidating an exclusive one.
    SharesExclusive,
}

/// A copy of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Copied {
    /// None.
    Invalid,
    /// For reading.
    Shared,
    /// For writing.
    Exclusive,
}

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Msg {
    /// Client to home: I want such a copy.
    Request(Copied),
    /// Home to client: you have it.
    Grant(Copied),
    /// Home to client: give up your copy.
    Invalidate,
    /// Client to home: I have none.
    Invalidated,
}

/// A client.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    /// Its copy.
    pub copy: Copied,
    requests: u32,
}

impl Client {
    fn request(&mut self, cx: &mut Cx<Msg>) {
        if self.requests < REQUESTS {
            self.requests += 1;
            let wanted = if cx.flip("exclusive") { Copied::Exclusive } else { Copied::Shared };
            cx.send(HOME, Msg::Request(wanted));
        }
    }
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.request(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Grant(copy) => {
                self.copy = copy;
                self.request(cx);
            }
            Msg::Invalidate => {
                self.copy = Copied::Invalid;
                cx.send(HOME, Msg::Invalidated);
            }
            other => cx.unexpected(other),
        }
    }
}

/// The home node.
#[derive(Clone, Debug, Serialize)]
pub struct Home {
    bug: Bug,
    waiting: VecDeque<(NodeId, Copied)>,
    sharers: BTreeSet<NodeId>,
    is_exclusive: bool,
    unconfirmed: BTreeSet<NodeId>,
    /// The number of grants.
    pub grants: u32,
}

impl Home {
    /// Begins with the next request, if none is being served.
    fn serve(&mut self, cx: &mut Cx<Msg>) {
        let Some((_, wanted)) = self.waiting.front().copied() else { return };
        let ignores = self.bug == Bug::SharesExclusive && wanted == Copied::Shared;
        if wanted == Copied::Exclusive || (self.is_exclusive && !ignores) {
            self.unconfirmed = self.sharers.clone();
        }
        for client in &self.unconfirmed {
            cx.send(*client, Msg::Invalidate);
        }
        self.grant_if_free(cx);
    }

    fn grant_if_free(&mut self, cx: &mut Cx<Msg>) {
        if !self.unconfirmed.is_empty() {
            return;
        }
        if let Some((client, wanted)) = self.waiting.pop_front() {
            self.sharers.insert(client);
            self.is_exclusive = wanted == Copied::Exclusive;
            self.grants += 1;
            cx.send(client, Msg::Grant(wanted));
            self.serve(cx);
        }
    }
}

impl Node for Home {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Request(wanted) => {
                self.waiting.push_back((from, wanted));
                if self.waiting.len() == 1 {
                    self.serve(cx);
                }
            }
            Msg::Invalidated => {
                self.unconfirmed.remove(&from);
                self.sharers.remove(&from);
                self.is_exclusive = false;
                self.grant_if_free(cx);
            }
            other => cx.unexpected(other),
        }
    }
}

/// The specification.
pub const COHERENT: &str = "an exclusive copy is the only one";

/// A home node and its clients, on streams: a grant does not overtake an invalidation.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.network(Network::Fifo);
        let client = |_| Client { copy: Copied::Invalid, requests: 0 };
        system.nodes("client", CLIENTS as usize, client);
        let home = system.node(
            "home",
            Home {
                bug,
                waiting: VecDeque::new(),
                sharers: BTreeSet::new(),
                is_exclusive: false,
                unconfirmed: BTreeSet::new(),
                grants: 0,
            },
        );
        system.always(COHERENT, |s| {
            let with = |copy| s.all::<Client>().filter(move |(_, c)| c.copy == copy).count();
            let (shared, exclusive) = (with(Copied::Shared), with(Copied::Exclusive));
            exclusive == 0 || exclusive + shared == 1
        });
        system.sometimes("all requests are granted", move |s| {
            s.get::<Home>(home).is_some_and(|home| home.grants == CLIENTS * REQUESTS)
        });
    }
}
