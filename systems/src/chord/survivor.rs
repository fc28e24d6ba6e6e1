//! Chord nodes for a network whose members die. Each node also remembers a few nodes before and
//! behind it on the ring, pings them, and continues without those that do not answer (i3's Chord,
//! D3S section 5.4).
//!
//! Two neighbours that do not hear each other for a while, but go on, take each other for dead. Neither
//! asks the other again, and each removes the other from what third nodes say, so nobody can bring them
//! together. So a node asks one of its dead now and then whether it answers. It also remembers some nodes
//! that it met anywhere, and asks one of them for its own place: should several rings have formed, a node
//! of another ring names neighbours there that are nearer.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;
#[cfg(feature = "live")]
use everhold_live::host::{Codec, Config, Host};

use super::Bug;
use super::node::{Chord, Msg};
use super::ring::{ahead, key};

/// The time between pings.
const PING: Duration = Duration::from_millis(250);

/// The number of consecutive unanswered pings after which a node counts as dead.
const MISSED_MAX: u32 = 4;

/// The interval at which a node asks an acquaintance for its own place.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// The number of acquaintances. If 70 % of all nodes die, all of them do with probability 0.7^16 < 0.4 %.
const ACQUAINTANCES: usize = 16;

/// A node on the ring that tolerates the death of others.
#[derive(Clone, Debug, Serialize)]
pub struct LiveChord {
    #[serde(skip)]
    bug: Bug,
    #[serde(skip)]
    chord: Chord,
    /// The number of nodes that it remembers on each side.
    #[serde(skip)]
    reach: usize,
    /// The nodes just before it, the nearest first.
    #[serde(skip)]
    before: Vec<NodeId>,
    /// The nodes just behind it, the nearest first.
    #[serde(skip)]
    behind: Vec<NodeId>,
    /// The number of unanswered pings of each node.
    #[serde(skip)]
    missed: BTreeMap<NodeId, u32>,
    #[serde(skip)]
    dead: BTreeSet<NodeId>,
    /// Some nodes that it met, wherever they are on the ring.
    #[serde(skip)]
    acquaintances: Vec<NodeId>,
    /// The observed state: the keys that the node holds.
    range: Keys,
}

/// The keys after `pred` up to and including `own`; all keys if the two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Keys {
    pred: u32,
    own: u32,
}

impl LiveChord {
    /// A node that remembers `reach` others on each side.
    #[must_use]
    pub fn new(me: NodeId, reach: usize, bug: Bug) -> LiveChord {
        LiveChord {
            bug,
            chord: Chord::new(me, bug),
            reach,
            before: Vec::new(),
            behind: Vec::new(),
            missed: BTreeMap::new(),
            dead: BTreeSet::new(),
            acquaintances: Vec::new(),
            range: Keys { pred: key(me), own: key(me) },
        }
    }

    fn me(&self) -> NodeId {
        self.chord.me()
    }

    /// The node before it and the node itself, as keys.
    pub(super) fn range(&self) -> (u32, u32) {
        (self.range.pred, self.range.own)
    }

    /// Remembers a node; if there is no room, it replaces another one or is forgotten, at random.
    fn get_to_know(&mut self, cx: &mut Cx<Msg>, node: NodeId) {
        if self.acquaintances.contains(&node) {
            return;
        }
        if self.acquaintances.len() < ACQUAINTANCES {
            self.acquaintances.push(node);
        } else if let Some(place) =
            self.acquaintances.get_mut(cx.random() as usize % (2 * ACQUAINTANCES))
        {
            *place = node;
        }
    }

    fn look_around(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("look around", LOOK_AROUND);
        if !self.acquaintances.is_empty() && self.bug != Bug::StaysApart {
            let one = cx.random() as usize % self.acquaintances.len();
            self.chord.search_by(cx, self.acquaintances[one]);
        }
        if !self.dead.is_empty() && self.bug != Bug::StaysApart {
            let one = cx.random() as usize % self.dead.len();
            let again = self.dead.iter().nth(one).copied();
            again.into_iter().for_each(|node| cx.send(node, Msg::GetPred));
        }
    }

    /// Records nodes, each of which may be among the nearest.
    fn meet(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let me = self.me();
        let own = key(me);
        for node in nodes {
            if node != me && !self.dead.contains(&node) {
                keep(&mut self.before, node, self.reach, |node| ahead(key(node), own));
                keep(&mut self.behind, node, self.reach, |node| ahead(own, key(node)));
            }
        }
    }

    fn ping(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("ping", PING);
        self.meet(self.chord.neighbours());
        let near: BTreeSet<NodeId> = self.before.iter().chain(&self.behind).copied().collect();
        self.missed.retain(|node, _| near.contains(node));
        if near.is_empty() {
            // All near nodes are gone; a distant one may know the way.
            self.chord.search_again(cx);
        }
        for node in near {
            let missed = self.missed.entry(node).or_default();
            *missed += 1;
            if *missed > MISSED_MAX {
                self.bury(node);
            } else {
                cx.send(node, Msg::GetPred);
            }
        }
    }

    fn bury(&mut self, node: NodeId) {
        self.dead.insert(node);
        self.missed.remove(&node);
        self.before.retain(|other| *other != node);
        self.behind.retain(|other| *other != node);
        self.chord.forget(node, self.before.first().copied(), &self.behind);
    }

    /// Removes dead nodes from a message; `None` if nothing remains.
    fn without_dead(&self, from: NodeId, msg: Msg) -> Option<Msg> {
        let lives = |node: &NodeId| !self.dead.contains(node);
        match msg {
            Msg::FindPredReply { succ, .. } if !lives(&succ) => None,
            Msg::GetPredReply { pred, mut successors, likely } => {
                successors.retain(lives);
                let pred = if lives(&pred) { pred } else { from };
                Some(Msg::GetPredReply { pred, successors, likely: likely.filter(lives) })
            }
            other => Some(other),
        }
    }

    fn show(&mut self) {
        // A predecessor that died when no other was known is replaced as soon as another is known.
        let (pred, other) = (self.chord.pred(), self.before.first().copied());
        if self.dead.contains(&pred) && other.is_some() {
            self.chord.forget(pred, other, &self.behind);
        }
        self.range = Keys { pred: key(self.chord.pred()), own: key(self.me()) };
    }
}

/// Inserts a node if it is among the nearest.
fn keep(nearest: &mut Vec<NodeId>, node: NodeId, reach: usize, far: impl Fn(NodeId) -> u64) {
    if !nearest.contains(&node) {
        let place = nearest.partition_point(|other| far(*other) < far(node));
        nearest.insert(place, node);
        nearest.truncate(reach);
    }
}

impl Node for LiveChord {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("ping", PING);
        cx.set_timer("look around", LOOK_AROUND);
        self.chord.start(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        self.dead.remove(&from);
        self.missed.remove(&from);
        self.get_to_know(cx, from);
        let Some(msg) = self.without_dead(from, msg) else { return };
        self.meet([from]);
        if let Msg::GetPredReply { pred, successors, likely } = &msg {
            self.meet(successors.iter().copied().chain([*pred]).chain(*likely));
        }
        self.chord.message(cx, from, msg);
        self.show();
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "ping" => self.ping(cx),
            "look around" => self.look_around(cx),
            _ => self.chord.timer(cx, timer),
        }
        self.show();
    }
}

#[cfg(feature = "live")]
/// Hosts some of the nodes of a configured ring in this process; each remembers `reach` others on
/// each side.
pub fn host(config: Config, here: &[NodeId], reach: usize) -> Host<Msg> {
    let mut host = Host::new(config, Codec::postcard());
    for id in here.iter().copied() {
        host = host.node(id, "chord", move || LiveChord::new(id, reach, Bug::None));
    }
    host
}
