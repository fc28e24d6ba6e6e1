//! A router: what it was told, what it uses, what it tells.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;

use super::{AS_TRANS, Bug, NUMBERS, Prefix};

/// What the routers say to each other, and what the driver tells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// I have another way to a network, or none any more.
    Update(Prefix, Option<Update>),
    /// Driver: announce your network, or withdraw it.
    Toggle,
    /// Driver: the link to this peer is gone.
    Down(NodeId),
}

/// A way to a network as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The numbers on the way, the sender's first; in 16 bits if either side knows no others.
    pub path: Vec<u32>,
    /// The end of the path in full, if somebody on it had to shorten a number.
    pub path_32: Option<Vec<u32>>,
}

/// A way to a network as it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The peer that told of it; the router itself for its own network.
    pub next_hop: NodeId,
    /// The numbers on the way as this router sees them.
    pub path: Vec<u32>,
    /// What a router that knows no large numbers passes on without looking.
    pub path_32: Option<Vec<u32>>,
}

/// A router.
#[derive(Clone, Debug, Serialize)]
pub struct Router {
    #[serde(skip)]
    bug: Bug,
    me: NodeId,
    number: u32,
    peers: BTreeSet<NodeId>,
    /// What the peers told and still stands.
    told: BTreeMap<Prefix, BTreeMap<NodeId, Route>>,
    /// The best of it.
    table: BTreeMap<Prefix, Route>,
    /// Whether its own network is announced.
    announces: bool,
}

/// True if a router knows numbers of 32 bits.
fn is_wide(number: u32) -> bool {
    number > u32::from(u16::MAX)
}

fn in_16_bits(number: u32) -> u32 {
    if is_wide(number) { AS_TRANS } else { number }
}

impl Router {
    pub(super) fn new(number: usize, peers: impl Iterator<Item = NodeId>, bug: Bug) -> Self {
        Router {
            bug,
            me: NodeId(number as u32),
            number: NUMBERS[number],
            peers: peers.collect(),
            told: BTreeMap::new(),
            table: BTreeMap::new(),
            announces: false,
        }
    }

    fn own(&self) -> Prefix {
        self.me.0 as Prefix
    }

    fn update(&mut self, cx: &mut Cx<Msg>, from: NodeId, network: Prefix, told: Option<Update>) {
        if !self.peers.contains(&from) {
            // On its way when the link went.
            return;
        }
        let told = told.map(|update| self.read(from, update));
        let is_looped = told.as_ref().is_some_and(|route| route.path.contains(&self.number));
        if is_looped && self.bug == Bug::KeepsReplaced {
            return;
        }
        let ways = self.told.entry(network).or_default();
        match told.filter(|_| !is_looped) {
            Some(route) => drop(ways.insert(from, route)),
            None => drop(ways.remove(&from)),
        }
        self.decide(cx, network);
    }

    /// What an update says, as this router sees it.
    fn read(&self, from: NodeId, update: Update) -> Route {
        let Update { mut path, path_32 } = update;
        if !is_wide(self.number) {
            return Route { next_hop: from, path, path_32 };
        }
        if let Some(end) = path_32 {
            path.truncate(path.len().saturating_sub(end.len()));
            path.extend(end);
        }
        Route { next_hop: from, path, path_32: None }
    }

    /// Takes the best way to a network; tells the peers if it is another than before.
    fn decide(&mut self, cx: &mut Cx<Msg>, network: Prefix) {
        let own = (network == self.own() && self.announces).then(|| Route {
            next_hop: self.me,
            path: Vec::new(),
            path_32: None,
        });
        let told = self.told.get(&network).into_iter().flat_map(BTreeMap::values).cloned();
        let best = own.into_iter().chain(told).min_by_key(|way| (way.path.len(), way.next_hop));
        if self.table.get(&network) == best.as_ref() {
            return;
        }
        for peer in &self.peers {
            let update = best.as_ref().and_then(|route| self.tell(route, *peer));
            cx.send(*peer, Msg::Update(network, update));
        }
        match best {
            Some(route) => drop(self.table.insert(network, route)),
            None => drop(self.table.remove(&network)),
        }
    }

    /// A route for a peer's eyes.
    fn tell(&self, route: &Route, peer: NodeId) -> Option<Update> {
        let peer = NUMBERS[peer.index()];
        let path: Vec<u32> = [self.number].iter().chain(&route.path).copied().collect();
        if self.bug == Bug::MistakesTrans && path.contains(&self.known_as(peer)) {
            return None;
        }
        if is_wide(self.number) && !is_wide(peer) {
            let short = path.iter().map(|number| in_16_bits(*number)).collect();
            return Some(Update { path: short, path_32: Some(path) });
        }
        Some(Update { path, path_32: route.path_32.clone() })
    }

    /// The number under which this router knows a peer.
    fn known_as(&self, peer: u32) -> u32 {
        if is_wide(self.number) { peer } else { in_16_bits(peer) }
    }

    fn down(&mut self, cx: &mut Cx<Msg>, peer: NodeId) {
        self.peers.remove(&peer);
        let networks: Vec<Prefix> = self.told.keys().copied().collect();
        for network in networks {
            self.told.entry(network).or_default().remove(&peer);
            self.decide(cx, network);
        }
    }
}

impl Node for Router {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Update(network, told) => self.update(cx, from, network, told),
            Msg::Toggle => {
                self.announces = !self.announces;
                self.decide(cx, self.own());
            }
            Msg::Down(peer) => self.down(cx, peer),
        }
    }
}
