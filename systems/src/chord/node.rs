//! A node on the ring.

use std::collections::BTreeMap;

use everhold::prelude::*;

use super::ring::{Range, ahead, key};
use super::{Bug, FIX_FINGERS, JOIN, STABILISE, SUCCESSORS};

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Which node is just before this key?
    FindPred(Search),
    /// I am, and `succ` is the one after me.
    FindPredReply {
        /// My successor.
        succ: NodeId,
        /// The finger of the search, if it was for one.
        finger: Option<u8>,
    },
    /// To the successor: who do you think is before you?
    GetPred,
    /// This one.
    GetPredReply {
        /// My predecessor.
        pred: NodeId,
        /// My successors, without you.
        successors: Vec<NodeId>,
        /// The node that, to my knowledge, comes next after you.
        likely: Option<NodeId>,
    },
    /// I am before you.
    UpdatePred,
}

/// A search for the node before a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    key: u32,
    asker: NodeId,
    /// The finger that the search is for; none if the asker wants to join.
    finger: Option<u8>,
}

/// The progress of a node's join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// The node searches for its place.
    Joining,
    /// The node has its place.
    Joined,
}

/// A node on the ring.
#[derive(Clone, Debug, Serialize)]
pub struct Chord {
    #[serde(skip)]
    bug: Bug,
    me: NodeId,
    status: Status,
    /// The node itself while it knows no other, like the successor.
    pred: NodeId,
    succ: NodeId,
    /// The last successor.
    max_succ: NodeId,
    /// The keys between the predecessor's key and the node's own.
    my_range: Range,
    /// The nearest nodes that it knows, in the order of the ring. A node that asks for its place
    /// twice is told about itself: it is then its own last successor.
    successors: Vec<NodeId>,
    /// By exponent: finger 20 is the first node after `me + 2^20`.
    fingers: BTreeMap<u8, NodeId>,
    /// Searches that are held back until the node has joined.
    waiting: Vec<Search>,
}

impl Chord {
    pub(super) fn new(me: NodeId, bug: Bug) -> Self {
        Chord {
            bug,
            me,
            status: Status::Joining,
            pred: me,
            succ: me,
            max_succ: me,
            my_range: Range { after: me, before: me },
            successors: Vec::new(),
            fingers: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn me(&self) -> NodeId {
        self.me
    }

    /// Whether both nodes have joined and know each other as neighbours.
    pub(super) fn is_followed_by(&self, next: &Chord) -> bool {
        self.status == Status::Joined && self.succ == next.me && next.pred == self.me
    }

    /// Searches for its place by way of any node that was present before.
    fn join(&self, cx: &mut Cx<Msg>) {
        let bootstrap = NodeId(cx.choose("bootstrap", self.me.index()) as u32);
        let search = Search { key: key(self.me), asker: self.me, finger: None };
        cx.send(bootstrap, Msg::FindPred(search));
        cx.set_timer("join", JOIN);
    }

    fn joined(&mut self, cx: &mut Cx<Msg>) {
        self.status = Status::Joined;
        cx.cancel_timer("join");
        cx.set_timer("stabilise", STABILISE);
        cx.set_timer("fix fingers", FIX_FINGERS);
        for search in std::mem::take(&mut self.waiting) {
            self.route(cx, search);
        }
    }

    fn find_pred(&mut self, cx: &mut Cx<Msg>, search: Search) {
        match self.status {
            Status::Joined => self.route(cx, search),
            Status::Joining if self.waiting.contains(&search) => {}
            Status::Joining => self.waiting.push(search),
        }
    }

    /// Answers if the key comes before the successor; otherwise passes the search on towards it.
    fn route(&self, cx: &mut Cx<Msg>, search: Search) {
        let distance = ahead(key(self.me), search.key);
        if distance <= self.distance(self.succ) {
            let reply = Msg::FindPredReply { succ: self.succ, finger: search.finger };
            cx.send(search.asker, reply);
            return;
        }
        let before = self.known().filter(|node| self.distance(*node) < distance);
        let closest = before.max_by_key(|node| self.distance(*node));
        cx.send(closest.unwrap_or(self.succ), Msg::FindPred(search));
    }

    fn distance(&self, node: NodeId) -> u64 {
        ahead(key(self.me), key(node))
    }

    fn known(&self) -> impl Iterator<Item = NodeId> {
        let fingers = self.fingers.values().copied();
        self.successors.iter().copied().chain(fingers).chain([self.pred])
    }

    fn found(&mut self, cx: &mut Cx<Msg>, pred: NodeId, succ: NodeId, finger: Option<u8>) {
        let range = self.my_range;
        self.learn([pred, succ]);
        if self.bug == Bug::KeepsRange {
            self.my_range = range;
        }
        match finger {
            Some(finger) => drop(self.fingers.insert(finger, succ)),
            None if self.status == Status::Joining => {
                cx.send(self.succ, Msg::UpdatePred);
                self.joined(cx);
            }
            // The answer to a repeated request.
            None => {}
        }
    }

    /// Records nodes, each of which may be a neighbour.
    fn learn(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        for node in nodes {
            if !self.successors.contains(&node) {
                self.successors.push(node);
            }
            if node != self.me && self.is_closer(node) {
                self.pred = node;
            }
        }
        let me = key(self.me);
        self.successors.sort_unstable_by_key(|node| ahead(me, key(*node)));
        self.successors.truncate(SUCCESSORS);
        self.succ = self.successors[0];
        self.max_succ = self.last_successor();
        self.my_range = Range { after: self.pred, before: self.me };
    }

    /// Whether a node lies between the predecessor and this one.
    fn is_closer(&self, node: NodeId) -> bool {
        Range { after: self.pred, before: self.me }.has(node)
    }

    fn last_successor(&self) -> NodeId {
        let last = match self.bug {
            Bug::CountsItself => self.successors.last(),
            _ => self.successors.iter().rfind(|node| **node != self.me),
        };
        last.copied().unwrap_or(self.me)
    }

    fn stabilise(&self, cx: &mut Cx<Msg>) {
        cx.set_timer("stabilise", STABILISE);
        if self.succ != self.me {
            cx.send(self.succ, Msg::GetPred);
        }
    }

    fn fix_fingers(&self, cx: &mut Cx<Msg>) {
        cx.set_timer("fix fingers", FIX_FINGERS);
        let finger = cx.choose("finger", 32) as u8;
        let key = key(self.me).wrapping_add(1 << finger);
        self.route(cx, Search { key, asker: self.me, finger: Some(finger) });
    }

    /// The answer to a question of `asker` about its part of the ring.
    fn answer(&self, pred: NodeId, asker: NodeId) -> Msg {
        let others = self.known().chain([self.me]).filter(|node| *node != asker);
        let likely = others.min_by_key(|node| ahead(key(asker), key(*node)));
        Msg::GetPredReply {
            pred,
            successors: self.successors.iter().copied().filter(|node| *node != asker).collect(),
            likely: likely.filter(|_| self.bug != Bug::TellsNobody),
        }
    }

    fn update_pred(&mut self, cx: &mut Cx<Msg>, node: NodeId) {
        let before = self.pred;
        self.learn([node]);
        if self.bug == Bug::TellsNobody {
            return;
        }
        // A node that is not the predecessor has another successor: this node's predecessor, or one
        // that is nearer still.
        for other in [before, node] {
            if other != self.pred && other != self.me {
                cx.send(other, self.answer(self.pred, other));
            }
        }
    }

    fn told(&mut self, cx: &mut Cx<Msg>, pred: NodeId, about: impl Iterator<Item = NodeId>) {
        self.learn(about.chain([pred]));
        if pred != self.me {
            cx.send(self.succ, Msg::UpdatePred);
        }
    }
}

/// Operations for rings whose members die.
impl Chord {
    pub(super) fn pred(&self) -> NodeId {
        self.pred
    }

    /// Its predecessor and successors.
    pub(super) fn neighbours(&self) -> Vec<NodeId> {
        self.successors.iter().copied().chain([self.pred]).collect()
    }

    /// Removes a dead node: `pred` takes its place before this node, `others` behind it. Without a
    /// new predecessor the keys of this node do not change.
    pub(super) fn forget(&mut self, node: NodeId, pred: Option<NodeId>, others: &[NodeId]) {
        self.fingers.retain(|_, finger| *finger != node);
        self.successors.retain(|successor| *successor != node);
        if self.pred == node
            && let Some(pred) = pred
        {
            self.pred = pred;
        }
        let alone = others.is_empty() && self.successors.is_empty();
        let me = self.me;
        self.learn(others.iter().copied().chain(alone.then_some(me)));
    }

    /// Asks a distant node for this node's place on the ring.
    pub(super) fn search_again(&self, cx: &mut Cx<Msg>) {
        let far: Vec<NodeId> =
            self.fingers.values().copied().filter(|node| *node != self.me).collect();
        if !far.is_empty() {
            let chosen = cx.choose("finger to ask", far.len());
            self.search_by(cx, far[chosen]);
        }
    }

    /// Asks a node for this node's place on the ring.
    pub(super) fn search_by(&self, cx: &mut Cx<Msg>, node: NodeId) {
        let search = Search { key: key(self.me), asker: self.me, finger: None };
        cx.send(node, Msg::FindPred(search));
    }
}

impl Node for Chord {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        match self.me {
            NodeId(0) => self.joined(cx),
            _ => self.join(cx),
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::FindPred(search) => self.find_pred(cx, search),
            Msg::FindPredReply { succ, finger } => self.found(cx, from, succ, finger),
            Msg::GetPred => cx.send(from, self.answer(self.pred, from)),
            Msg::GetPredReply { pred, successors, likely } if from == self.succ => {
                self.told(cx, pred, successors.into_iter().chain(likely));
            }
            // The sender was the successor when the question was sent, and no longer is.
            Msg::GetPredReply { .. } => {}
            Msg::UpdatePred => self.update_pred(cx, from),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "join" => self.join(cx),
            "stabilise" => self.stabilise(cx),
            _ => self.fix_fingers(cx),
        }
    }
}
