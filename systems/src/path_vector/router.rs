//! A router: its received routes, its table, and its announcements.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;

use super::{AS_TRANS, Bug, NUMBERS, Prefix};

/// The messages between routers, and from the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// A new path to a network, or none if there is no path any more.
    Update(Prefix, Option<Update>),
    /// Driver: announce your network, or withdraw it.
    Toggle,
    /// Driver: the link to this peer is gone.
    Down(NodeId),
}

/// A path to a network as it is announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The numbers on the path, the sender's first; in 16 bits if either router supports no others.
    pub path: Vec<u32>,
    /// The end of the path with full numbers, if a router on it had to shorten a number.
    pub path_32: Option<Vec<u32>>,
}

/// A path to a network as it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The peer that announced it; the router itself for its own network.
    pub next_hop: NodeId,
    /// The numbers on the path as this router sees them.
    pub path: Vec<u32>,
    /// The attribute that a router without support for large numbers passes on unread.
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
    /// The announcements of the peers that are in force.
    told: BTreeMap<Prefix, BTreeMap<NodeId, Route>>,
    /// The best route to each network.
    table: BTreeMap<Prefix, Route>,
    /// Whether its own network is announced.
    announces: bool,
}

/// Whether a router supports numbers of 32 bits.
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
            // The message was in flight when the link failed.
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

    /// The route of an update, as this router sees it.
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

    /// Selects the best route to a network; announces it to the peers if it has changed.
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

    /// A route as it is announced to a peer.
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
