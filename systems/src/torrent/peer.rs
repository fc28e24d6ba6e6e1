//! A peer.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use everhold::prelude::*;

use super::{
    ANNOUNCE, Bug, Msg, PARALLEL, PATIENCE, PIECES, QUEUE_MAX, RETRY, SEED, SLOW_UPLOAD, TRACKER,
    UPLOAD, is_free_rider,
};

/// A peer. Its observed state are its neighbours, its pieces, and where these came from.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    #[serde(skip)]
    bug: Bug,
    #[serde(skip)]
    me: NodeId,
    neighbours: Vec<NodeId>,
    pieces: BTreeSet<u32>,
    /// The number of pieces that came from each peer.
    sources: BTreeMap<NodeId, u32>,
    /// The pieces of each neighbour.
    #[serde(skip)]
    theirs: BTreeMap<NodeId, BTreeSet<u32>>,
    /// The pieces that it asked for, and whom.
    #[serde(skip)]
    asked: BTreeMap<u32, NodeId>,
    /// The requests that wait for an upload.
    #[serde(skip)]
    uploads: VecDeque<(NodeId, u32)>,
}

impl Peer {
    /// A peer; the seed has the whole file.
    #[must_use]
    pub fn new(me: NodeId, bug: Bug) -> Peer {
        let pieces = if me == SEED { (0..PIECES).collect() } else { BTreeSet::new() };
        Peer {
            bug,
            me,
            neighbours: Vec::new(),
            pieces,
            sources: BTreeMap::new(),
            theirs: BTreeMap::new(),
            asked: BTreeMap::new(),
            uploads: VecDeque::new(),
        }
    }

    /// Whether it has all pieces.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.pieces.len() == PIECES as usize
    }

    fn announce(&self, cx: &mut Cx<Msg>) {
        cx.set_timer("announce", ANNOUNCE);
        cx.send(TRACKER, Msg::Announce);
    }

    fn introduced(&mut self, cx: &mut Cx<Msg>, peers: Vec<NodeId>) {
        for peer in peers {
            self.meet(cx, peer);
        }
        self.download(cx);
    }

    fn meet(&mut self, cx: &mut Cx<Msg>, peer: NodeId) {
        if self.neighbours.contains(&peer) && self.bug != Bug::AddsAgain {
            return;
        }
        self.neighbours.push(peer);
        if let Entry::Vacant(unknown) = self.theirs.entry(peer) {
            unknown.insert(BTreeSet::new());
            cx.send(peer, Msg::Bitfield(self.pieces.clone()));
        }
    }

    /// A neighbour's pieces: one that is not known yet becomes a neighbour.
    fn hear(&mut self, cx: &mut Cx<Msg>, from: NodeId, pieces: impl IntoIterator<Item = u32>) {
        if !self.theirs.contains_key(&from) {
            self.meet(cx, from);
        }
        self.theirs.entry(from).or_default().extend(pieces);
        self.download(cx);
    }

    /// Asks for the rarest pieces that are missing.
    fn download(&mut self, cx: &mut Cx<Msg>) {
        while self.asked.len() < PARALLEL {
            let Some(piece) = self.rarest(cx) else { break };
            let has = |peer: &&NodeId| self.theirs.get(peer).is_some_and(|p| p.contains(&piece));
            let sources: Vec<NodeId> = self.neighbours.iter().filter(has).copied().collect();
            let source = sources[(cx.random() % sources.len() as u64) as usize];
            self.asked.insert(piece, source);
            cx.send(source, Msg::Request(piece));
            cx.set_timer(Timer::from("patience").with(piece.into()), PATIENCE);
        }
    }

    /// One of the missing pieces that the fewest neighbours have.
    fn rarest(&self, cx: &mut Cx<Msg>) -> Option<u32> {
        let mut owners: BTreeMap<u32, u32> = BTreeMap::new();
        for piece in self.theirs.values().flatten() {
            *owners.entry(*piece).or_default() += 1;
        }
        owners.retain(|piece, _| !self.pieces.contains(piece) && !self.asked.contains_key(piece));
        let fewest = *owners.values().min()?;
        let rarest: Vec<u32> =
            owners.iter().filter(|(_, count)| **count == fewest).map(|(piece, _)| *piece).collect();
        let one = match self.bug {
            Bug::SameOrder => 0,
            _ => (cx.random() % rarest.len() as u64) as usize,
        };
        Some(rarest[one])
    }

    fn requested(&mut self, cx: &mut Cx<Msg>, from: NodeId, piece: u32) {
        if self.uploads.len() >= QUEUE_MAX {
            cx.send(from, Msg::Choke(piece));
            return;
        }
        self.uploads.push_back((from, piece));
        if self.uploads.len() == 1 {
            cx.set_timer("upload", self.upload_time());
        }
    }

    fn upload_time(&self) -> Duration {
        if is_free_rider(self.me) { SLOW_UPLOAD } else { UPLOAD }
    }

    fn uploaded(&mut self, cx: &mut Cx<Msg>) {
        if let Some((to, piece)) = self.uploads.pop_front() {
            cx.send(to, Msg::Piece(piece));
        }
        if !self.uploads.is_empty() {
            cx.set_timer("upload", self.upload_time());
        }
    }

    fn received(&mut self, cx: &mut Cx<Msg>, from: NodeId, piece: u32) {
        self.asked.remove(&piece);
        cx.cancel_timer(Timer::from("patience").with(piece.into()));
        if self.pieces.insert(piece) {
            *self.sources.entry(from).or_default() += 1;
            for neighbour in self.theirs.keys() {
                cx.send(*neighbour, Msg::Have(piece));
            }
        }
        self.download(cx);
    }

    fn choked(&mut self, cx: &mut Cx<Msg>, from: NodeId, piece: u32) {
        if self.asked.get(&piece) == Some(&from) {
            self.asked.remove(&piece);
            cx.cancel_timer(Timer::from("patience").with(piece.into()));
            cx.set_timer("retry", RETRY);
        }
    }
}

impl Node for Peer {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.announce(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Peers(peers) => self.introduced(cx, peers),
            Msg::Bitfield(pieces) => self.hear(cx, from, pieces),
            Msg::Have(piece) => self.hear(cx, from, [piece]),
            Msg::Request(piece) => self.requested(cx, from, piece),
            Msg::Piece(piece) => self.received(cx, from, piece),
            Msg::Choke(piece) => self.choked(cx, from, piece),
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "announce" => self.announce(cx),
            "upload" => self.uploaded(cx),
            "patience" => {
                self.asked.remove(&(timer.id as u32));
                self.download(cx);
            }
            _ => self.download(cx),
        }
    }
}
