//! A node of Bullet'.

use std::collections::{BTreeSet, VecDeque};

use everhold::prelude::*;

use super::ransub::RanSub;
use super::wire::Msg;
use super::{Blocks, Bug, File, SOURCE};

/// The largest number of senders of a node.
const SENDERS_MAX: usize = 5;
/// The largest number of receivers of a node.
const RECEIVERS_MAX: usize = 6;
/// The number of candidates that the source names.
const CANDIDATES: usize = 5;
/// The number of outstanding requests to a sender.
const WINDOW: u32 = 2;
/// The time after which a block that found the buffer full is sent again.
const RETRY: Duration = Duration::from_millis(50);

/// A node from which blocks are received.
#[derive(Clone, Debug, Serialize)]
struct Sender {
    node: NodeId,
    /// The blocks that it has announced.
    blocks: Blocks,
    requested: u32,
    /// Whether it was asked for a diff and has not answered yet.
    is_asked: bool,
}

/// A node to which blocks are sent.
#[derive(Clone, Debug, Serialize)]
struct Receiver {
    node: NodeId,
    /// The number of blocks, in the order of arrival, that were announced to it.
    told: usize,
    /// Whether it waits for a diff.
    is_waiting: bool,
    queue: VecDeque<u32>,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct Bullet {
    bug: Bug,
    file: File,
    ransub: RanSub,
    /// The blocks of this node, and the order in which they arrived.
    blocks: Blocks,
    arrived: Vec<u32>,
    requested: Blocks,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// The nodes that were asked to become senders and have not answered yet.
    asked: BTreeSet<NodeId>,
    pending: usize,
    /// At the source: the nodes that have said hello.
    members: Vec<NodeId>,
}

impl Bullet {
    pub(super) fn new(number: usize, nodes: usize, file: File, bug: Bug) -> Bullet {
        let is_source = NodeId(number as u32) == SOURCE;
        let blocks = if is_source { Blocks::all(file.blocks) } else { Blocks::none(file.blocks) };
        Bullet {
            bug,
            file,
            ransub: RanSub::new(number, nodes),
            arrived: (0..blocks.count()).collect(),
            blocks,
            requested: Blocks::none(file.blocks),
            senders: Vec::new(),
            receivers: Vec::new(),
            asked: BTreeSet::new(),
            pending: 0,
            members: if is_source { vec![SOURCE] } else { Vec::new() },
        }
    }

    /// Whether it has the file.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.blocks.count() == self.file.blocks
    }

    /// The blocks of this node.
    #[must_use]
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// At the source: names candidates among the nodes that came before.
    fn hello(&mut self, cx: &mut Cx<Msg>, from: NodeId) {
        let mut pool = self.members.clone();
        let mut candidates = Vec::new();
        while candidates.len() < CANDIDATES && !pool.is_empty() {
            candidates.push(pool.swap_remove(cx.choose("candidate", pool.len())));
        }
        self.members.push(from);
        cx.send(from, Msg::Candidates(candidates));
    }

    /// Asks some nodes to become senders, if more senders are needed.
    fn ask(&mut self, cx: &mut Cx<Msg>, candidates: &[NodeId]) {
        for node in candidates {
            let is_wanted = self.senders.len() + self.pending < SENDERS_MAX;
            if is_wanted && !self.is_complete() && *node != cx.id() && self.asked.insert(*node) {
                self.pending += 1;
                cx.send(*node, Msg::Join);
            }
        }
    }

    fn join(&mut self, cx: &mut Cx<Msg>, from: NodeId) {
        if self.receivers.len() == RECEIVERS_MAX {
            let peers = if self.bug == Bug::BareRejection { Vec::new() } else { self.peers() };
            cx.send(from, Msg::JoinReject { peers });
            return;
        }
        let told = self.arrived.len();
        let receiver = Receiver { node: from, told, is_waiting: told == 0, queue: VecDeque::new() };
        self.receivers.push(receiver);
        cx.send(from, Msg::JoinAccept(self.arrived.clone()));
        // Nodes that came first know few others, so a node that joins them is a candidate too.
        self.ask(cx, &[from]);
    }

    fn peers(&self) -> Vec<NodeId> {
        let senders = self.senders.iter().map(|sender| sender.node);
        senders.chain(self.receivers.iter().map(|receiver| receiver.node)).collect()
    }

    fn accepted(&mut self, cx: &mut Cx<Msg>, from: NodeId, known: &[u32]) {
        self.pending -= 1;
        if self.is_complete() {
            cx.send(from, Msg::Leave);
            return;
        }
        let (blocks, told) = (Blocks::none(self.file.blocks), known.len());
        self.senders.push(Sender { node: from, blocks, requested: 0, is_asked: told == 0 });
        self.told(cx, from, known);
    }

    fn rejected(&mut self, cx: &mut Cx<Msg>, peers: &[NodeId]) {
        self.pending -= 1;
        if self.is_complete() || peers.is_empty() {
            return;
        }
        // One new request for each rejection, so that rejections do not multiply.
        let fresh = peers.iter().filter(|peer| **peer != cx.id() && !self.asked.contains(peer));
        let fresh: Vec<NodeId> = fresh.copied().collect();
        if !fresh.is_empty() {
            let peer = fresh[cx.choose("peer of the one that rejects", fresh.len())];
            self.ask(cx, &[peer]);
        }
    }

    /// Handles a sender's announcement of blocks.
    fn told(&mut self, cx: &mut Cx<Msg>, from: NodeId, blocks: &[u32]) {
        let Some(at) = self.senders.iter().position(|sender| sender.node == from) else { return };
        for block in blocks {
            self.senders[at].blocks.insert(*block);
        }
        self.senders[at].is_asked = false;
        self.request(cx, at);
    }

    /// Requests blocks that a sender has and that were not requested from anyone.
    fn request(&mut self, cx: &mut Cx<Msg>, at: usize) {
        while self.senders[at].requested < WINDOW {
            let Some(block) = self.pick(cx, at) else { return self.ask_for_more(cx, at) };
            self.requested.insert(block);
            self.senders[at].requested += 1;
            cx.send(self.senders[at].node, Msg::Request { block });
        }
    }

    /// The block to request from a sender: if possible, one that no other sender has.
    fn pick(&self, cx: &mut Cx<Msg>, at: usize) -> Option<u32> {
        let known = &self.senders[at].blocks;
        let left = known.count_without(&self.blocks, &self.requested);
        if left == 0 {
            return None;
        }
        let mut common = self.requested.clone();
        for (other, sender) in self.senders.iter().enumerate() {
            if other != at {
                common.extend(&sender.blocks);
            }
        }
        let rare = known.count_without(&self.blocks, &common);
        let (among, avoided) = if rare > 0 { (rare, &common) } else { (left, &self.requested) };
        let number = cx.choose("block to request", among as usize) as u32;
        known.nth_without(&self.blocks, avoided, number)
    }

    /// Asks a sender for a diff before its last announced block arrives.
    fn ask_for_more(&mut self, cx: &mut Cx<Msg>, at: usize) {
        let sender = &mut self.senders[at];
        if !sender.is_asked && sender.requested < WINDOW {
            sender.is_asked = true;
            cx.send(sender.node, Msg::More);
        }
    }

    fn requested(&mut self, cx: &mut Cx<Msg>, from: NodeId, block: u32) {
        if let Some(at) = self.receivers.iter().position(|receiver| receiver.node == from) {
            self.receivers[at].queue.push_back(block);
            self.pump(cx, at);
        }
    }

    fn more(&mut self, cx: &mut Cx<Msg>, from: NodeId) {
        if let Some(at) = self.receivers.iter().position(|receiver| receiver.node == from) {
            self.receivers[at].is_waiting = true;
            self.tell(cx, at);
        }
    }

    /// Announces new blocks to a receiver that waits for a diff.
    fn tell(&mut self, cx: &mut Cx<Msg>, at: usize) {
        let receiver = &mut self.receivers[at];
        if receiver.is_waiting && receiver.told < self.arrived.len() {
            let news = self.arrived[receiver.told..].to_vec();
            receiver.told = self.arrived.len();
            receiver.is_waiting = false;
            cx.send(receiver.node, Msg::Diff(news));
        }
    }

    /// Sends a receiver the blocks that it requested, as far as the buffer has room.
    fn pump(&mut self, cx: &mut Cx<Msg>, at: usize) {
        let receiver = &mut self.receivers[at];
        let retry = Timer::from("retry").with(u64::from(receiver.node.0));
        while let Some(block) = receiver.queue.front() {
            let msg = Msg::Block { block: *block, bytes: self.file.block_bytes };
            if cx.try_send(receiver.node, msg).is_err() {
                cx.set_timer(retry, RETRY);
                return;
            }
            receiver.queue.pop_front();
        }
        cx.cancel_timer(retry);
    }

    fn block(&mut self, cx: &mut Cx<Msg>, from: NodeId, block: u32) {
        self.requested.remove(block);
        if self.blocks.insert(block) {
            self.arrived.push(block);
        }
        if self.is_complete() {
            self.leave_all(cx);
        } else if let Some(at) = self.senders.iter().position(|sender| sender.node == from) {
            self.senders[at].requested -= 1;
            // A diff that was due before this block will not arrive any more.
            self.senders[at].is_asked = false;
        }
        for at in 0..self.senders.len() {
            self.request(cx, at);
        }
        for at in 0..self.receivers.len() {
            self.tell(cx, at);
        }
    }

    fn leave_all(&mut self, cx: &mut Cx<Msg>) {
        for sender in self.senders.drain(..) {
            cx.send(sender.node, Msg::Leave);
        }
    }

    /// Handles candidates from RanSub: they replace senders that have nothing for this node.
    fn subset(&mut self, cx: &mut Cx<Msg>, members: &[NodeId]) {
        if self.is_complete() || members.is_empty() {
            return;
        }
        let (blocks, requested) = (&self.blocks, &self.requested);
        self.senders.retain(|sender| {
            let left = sender.blocks.count_without(blocks, requested);
            let is_useful = left > 0 || sender.requested > 0;
            if !is_useful {
                cx.send(sender.node, Msg::Leave);
            }
            is_useful
        });
        self.asked = self.senders.iter().map(|sender| sender.node).collect();
        self.ask(cx, members);
    }
}

impl Node for Bullet {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        if cx.id() != SOURCE {
            cx.send(SOURCE, Msg::Hello);
        }
        self.ransub.start(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Hello => self.hello(cx, from),
            Msg::Candidates(candidates) => self.ask(cx, &candidates),
            Msg::Join => self.join(cx, from),
            Msg::JoinAccept(blocks) => self.accepted(cx, from, &blocks),
            Msg::JoinReject { peers } => self.rejected(cx, &peers),
            Msg::Leave => self.receivers.retain(|receiver| receiver.node != from),
            Msg::Request { block } => self.requested(cx, from, block),
            Msg::More => self.more(cx, from),
            Msg::Diff(blocks) => self.told(cx, from, &blocks),
            Msg::Block { block, .. } => self.block(cx, from, block),
            Msg::Distribute { epoch, members, count } => {
                let subset = self.ransub.distribute_from(cx, epoch, members, count);
                self.subset(cx, &subset);
            }
            Msg::Collect { epoch, members, count } => {
                self.ransub.collect_from(cx, epoch, members, count);
            }
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer.name == "epoch" {
            let subset = self.ransub.timer(cx);
            return self.subset(cx, &subset);
        }
        let is_it = |receiver: &Receiver| u64::from(receiver.node.0) == timer.id;
        if let Some(at) = self.receivers.iter().position(is_it) {
            self.pump(cx, at);
        }
    }
}
