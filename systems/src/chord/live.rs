//! The same nodes on a network whose members die: each also keeps the few before and behind it on
//! the ring, pings them, and goes on without those who do not answer (i3's Chord, D3S section 5.4).

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;
use everhold_live::host::{Codec, Config, Host};

use super::Bug;
use super::node::{Chord, Msg};
use super::ring::{ahead, key};

/// The time between pings.
const PING: Duration = Duration::from_millis(250);

/// Who leaves so many pings in a row unanswered is dead.
const MISSED_MAX: u32 = 4;

/// A node on the ring that survives others.
#[derive(Clone, Debug, Serialize)]
pub struct LiveChord {
    #[serde(skip)]
    chord: Chord,
    /// How many it keeps on each side.
    #[serde(skip)]
    reach: usize,
    /// Those just before it, the nearest first.
    #[serde(skip)]
    before: Vec<NodeId>,
    /// Those just behind it, the nearest first.
    #[serde(skip)]
    behind: Vec<NodeId>,
    /// Pings that were not answered yet.
    #[serde(skip)]
    missed: BTreeMap<NodeId, u32>,
    #[serde(skip)]
    dead: BTreeSet<NodeId>,
    /// What it shows: the keys that it takes for its own.
    range: Keys,
}

/// The keys behind `pred` up to `own`; all, if they are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Keys {
    pred: u32,
    own: u32,
}

impl LiveChord {
    /// A node that keeps `reach` others on each side.
    #[must_use]
    pub fn new(me: NodeId, reach: usize) -> LiveChord {
        LiveChord {
            chord: Chord::new(me, Bug::None),
            reach,
            before: Vec::new(),
            behind: Vec::new(),
            missed: BTreeMap::new(),
            dead: BTreeSet::new(),
            range: Keys { pred: key(me), own: key(me) },
        }
    }

    fn me(&self) -> NodeId {
        self.chord.me()
    }

    /// Any node that is heard of may be one of the nearest.
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
            // Nobody near is left: somebody far away may know the way.
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

    /// What is said of the dead is left out; `None` if nothing remains.
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
        // A predecessor that died when no other was known is replaced by the next one that is.
        let (pred, other) = (self.chord.pred(), self.before.first().copied());
        if self.dead.contains(&pred) && other.is_some() {
            self.chord.forget(pred, other, &self.behind);
        }
        self.range = Keys { pred: key(self.chord.pred()), own: key(self.me()) };
    }
}

/// Keeps a node if it is among the nearest.
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
        self.chord.start(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        self.dead.remove(&from);
        self.missed.remove(&from);
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
            _ => self.chord.timer(cx, timer),
        }
        self.show();
    }
}

/// Hosts some of the nodes of a configured ring in this process; each keeps `reach` others on each
/// side.
pub fn host(config: Config, here: &[NodeId], reach: usize) -> Host<Msg> {
    let mut host = Host::new(config, Codec::postcard());
    for id in here.iter().copied() {
        host = host.node(id, "chord", move || LiveChord::new(id, reach));
    }
    host
}
