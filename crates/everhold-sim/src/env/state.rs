//! The state of the environment: plain data, copied and hashed.

use everhold_node::fingerprint::{self, mix};
use everhold_node::{Disk, Message, NodeId, Tag, TaskId, Timer};

use super::faults::Splits;
use super::node_id;
use crate::fault::{Fault, FaultKind, Faults, MessageName, Side};
use crate::links::Spared;
use crate::monitor::MonitorSlot;
use crate::moves::{DiskMenu, Move, Moves, NONE, Slot, What, identity};
use crate::strategy::About;

/// The lane of all streams between two nodes: they share one connection.
pub(super) const STREAM: u8 = u8::MAX;
/// Distinguishes the hash of a message that is held back from that of one that is not.
const HELD: u64 = 0x4E1D;
/// Distinguishes the hash of a clock's rate from that of its jump.
const DRIFT: u64 = 0xD41F;
/// The number of parts in parts per million.
const MILLION: i128 = 1_000_000;

/// The part of an execution that is copied when a search goes back to an earlier point.
pub(crate) struct State<M> {
    pub(crate) step: u32,
    pub(crate) moves: Moves,
    pub(crate) flights: Vec<Flight<M>>,
    pub(crate) free: Vec<u32>,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) left: Faults,
    /// Whether some fault may be left in the budget.
    pub(super) may_fail: bool,
    /// The number of nodes that faults can strike (those that are up), and the ways to part those
    /// that are not gone. Counted again when a node was added, left or crashed, not at every step.
    pub(super) targets: Option<(u32, Splits)>,
    pub(super) partition: Option<Cut>,
    pub(crate) heal: Slot,
    pub(crate) held: u32,
    pub(crate) injected: [u32; FaultKind::ALL.len()],
    /// Pairs of nodes between which a stream is open, the smaller one first, in order.
    pub(super) connections: Vec<(NodeId, NodeId)>,
    /// Ends of broken connections that were not told about it yet, each with its peer.
    pub(super) untold: Vec<(NodeId, NodeId)>,
    pub(crate) monitors: Vec<MonitorSlot>,
    /// An order-independent hash of the messages in flight.
    pub(crate) network_hash: u64,
    /// The name of what happened last, kept in the fair tail and where circles are judged.
    pub(crate) last_move: u64,
    /// The shortest timer that was set, in nanoseconds; zero if none was.
    pub(crate) shortest_timer: u64,
    /// Whether time decides in which order the timers of different nodes fire.
    pub(super) tied_clocks: bool,
    /// Whether some messages arrive in the order of sending.
    pub(super) ordered: bool,
    /// Connections that cannot be reset.
    pub(super) firm: Vec<(NodeId, NodeId)>,
    /// Whether some node used its disk.
    pub(super) disks: bool,
}

/// A message in the network.
#[derive(Clone)]
pub(crate) struct Flight<M> {
    pub(crate) msg: Option<M>,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) sequence: u32,
    pub(crate) tag: Tag,
    pub(crate) slot: Slot,
    pub(super) born: u32,
    pub(super) hash: u64,
    /// The receiver's guard refused it before; from then on it keeps its place among its sender's
    /// messages.
    pub(super) refused: bool,
    pub(super) held: bool,
    /// Not a message but a notice: the receiver learns that its connection to `from` ended.
    pub(super) notice: bool,
    /// It arrives only after the messages that its sender sent before it on the same lane.
    pub(super) ordered: bool,
    /// The number of its channel, or [`STREAM`].
    pub(super) lane: u8,
    /// Faults that cannot strike it.
    pub(super) spared: Spared,
}

impl<M> Flight<M> {
    pub(super) fn is_vacant(&self) -> bool {
        self.msg.is_none() && !self.notice
    }
}

/// A partition: it holds up the messages that leave one side, those that enter it, or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) side: Side,
    pub(super) out: bool,
    pub(super) into: bool,
}

/// The state that the environment keeps for one node.
#[derive(Default)]
pub(crate) struct NodeState {
    pub(crate) status: Status,
    pub(crate) incarnation: u32,
    /// The local time; where clocks are tied, this is the true time.
    pub(super) clock: u64,
    pub(super) skew: i64,
    /// How much faster than the true time its clock runs, in parts per million.
    pub(super) drift_ppm: i32,
    pub(super) sent: u32,
    pub(super) drawn: u32,
    pub(super) settings: u32,
    pub(crate) timers: Vec<Armed>,
    pub(super) timer_slot: Slot,
    pub(crate) polls: Vec<(TaskId, Slot)>,
    pub(super) polled: u32,
    pub(super) disk: Option<Box<Disk>>,
    /// Whether this node's messages are examined one by one, for guards or streams.
    pub(crate) tracked: bool,
    pub(crate) inbox: Vec<u32>,
    /// A hash of the events at this node so far; those of all nodes together identify the partial
    /// order.
    pub(crate) history: u64,
    /// The index of the node's kind.
    pub(crate) kind: u32,
    pub(crate) strikes: bool,
    /// The rules for links that may fit the messages that it sends, and those that it receives, as
    /// bits.
    pub(super) sends: u64,
    pub(super) takes: u64,
    /// The number of messages that may wait for it.
    pub(super) room: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    #[default]
    Up,
    /// Crashed; the slot is its restart.
    Down(Slot),
    /// Gone for ever.
    Gone,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Armed {
    pub(crate) timer: Timer,
    pub(crate) deadline: u64,
    pub(super) setting: u32,
    pub(super) born: u32,
}

impl<M: Message> State<M> {
    /// An empty state to copy into.
    pub(crate) fn empty() -> Self {
        State {
            step: 0,
            moves: Moves::default(),
            flights: Vec::new(),
            free: Vec::new(),
            nodes: Vec::new(),
            left: Faults::none(),
            may_fail: true,
            targets: None,
            partition: None,
            heal: NONE,
            held: 0,
            injected: [0; FaultKind::ALL.len()],
            connections: Vec::new(),
            untold: Vec::new(),
            monitors: Vec::new(),
            network_hash: 0,
            last_move: 0,
            shortest_timer: 0,
            tied_clocks: false,
            ordered: false,
            firm: Vec::new(),
            disks: false,
        }
    }

    /// Becomes a copy of `other`, reusing its own memory. Only the nodes in `nodes` are copied, if
    /// the caller knows that the others are equal.
    pub(crate) fn copy_from(&mut self, other: &Self, nodes: Option<u64>) {
        self.step = other.step;
        self.moves.copy_from(&other.moves);
        self.flights.clone_from(&other.flights);
        self.free.clone_from(&other.free);
        copy_nodes(&mut self.nodes, &other.nodes, nodes);
        if self.may_fail || other.may_fail {
            self.left.clone_from(&other.left);
        }
        (self.may_fail, self.targets) = (other.may_fail, other.targets);
        (self.partition, self.heal, self.held) = (other.partition, other.heal, other.held);
        self.injected = other.injected;
        self.connections.clone_from(&other.connections);
        self.untold.clone_from(&other.untold);
        self.monitors.clone_from(&other.monitors);
        (self.network_hash, self.last_move) = (other.network_hash, other.last_move);
        (self.shortest_timer, self.disks) = (other.shortest_timer, other.disks);
        (self.tied_clocks, self.ordered) = (other.tied_clocks, other.ordered);
        self.firm.clone_from(&other.firm);
    }

    pub(super) fn reset(&mut self, nodes: usize, tracks_nodes: bool, faults: &Faults) {
        self.step = 0;
        (self.shortest_timer, self.disks) = (0, false);
        self.moves.clear(nodes, tracks_nodes);
        self.moves.faults.set([0; FaultKind::ALL.len()]);
        self.moves.faults.set_disk(DiskMenu::default());
        self.flights.clear();
        self.free.clear();
        self.nodes.truncate(nodes);
        self.nodes.iter_mut().for_each(NodeState::reset);
        self.left.clone_from(faults);
        self.may_fail = true;
        self.targets = None;
        self.partition = None;
        self.heal = NONE;
        self.held = 0;
        self.injected = [0; FaultKind::ALL.len()];
        self.connections.clear();
        self.firm.clear();
        self.untold.clear();
        self.monitors.iter_mut().for_each(MonitorSlot::reset);
        self.network_hash = 0;
    }

    /// Whether a partition holds up what one node sends to another.
    #[inline]
    pub(super) fn is_cut(&self, from: NodeId, to: NodeId, spared: Spared) -> bool {
        let Some(cut) = &self.partition else { return false };
        let both = cut.out && cut.into;
        if spared.contains(if both { FaultKind::Partition } else { FaultKind::OneWay }) {
            return false;
        }
        match (cut.side.contains(from), cut.side.contains(to)) {
            (true, false) => cut.out,
            (false, true) => cut.into,
            _ => false,
        }
    }

    /// The message that a move delivers, if this kind of fault can strike it.
    fn struck(&self, offered: &Move, kind: FaultKind) -> Option<u32> {
        let What::Deliver(flight) = offered.what else { return None };
        (!self.flights[flight as usize].spared.contains(kind)).then_some(flight)
    }

    /// Whether a message that can be delivered can be struck by this kind of fault.
    pub(super) fn strikes_messages(&self, kind: FaultKind) -> bool {
        (0..self.moves.ready()).any(|at| self.struck(self.moves.get(at), kind).is_some())
    }

    /// The message that the fault with this number concerns: the first at or after it that the
    /// fault can strike.
    pub(super) fn delivery(&self, kind: FaultKind, number: u32) -> u32 {
        let ready = self.moves.ready();
        let strike = |offset| self.struck(self.moves.get((number + offset) % ready), kind);
        (0..ready).find_map(strike).expect("the menu counted the deliveries")
    }

    /// The connections that can be reset, in order.
    pub(super) fn resettable(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.connections.iter().copied().filter(|ends| !self.firm.contains(ends))
    }

    /// Forgets the counts of nodes that faults can strike, because a node was added or changed.
    pub(crate) fn forget_targets(&mut self) {
        self.targets = None;
    }

    /// Counts the nodes that can be struck now, and the ways to part them.
    pub(super) fn count_targets(&mut self) -> (u32, Splits) {
        if self.targets.is_none() {
            let strikes = self.nodes.iter().filter(|node| node.strikes);
            let up = strikes.filter(|node| node.status == Status::Up).count();
            self.targets = Some((up as u32, self.splits()));
        }
        self.targets.expect("it was just counted")
    }

    /// The ways in which the network can be split now.
    pub(super) fn splits(&self) -> Splits {
        let present = self.nodes.iter().filter(|node| node.status != Status::Gone);
        let (members, others): (Vec<&NodeState>, _) = present.partition(|node| node.strikes);
        Splits { members: members.len() as u32, others: !others.is_empty() }
    }

    pub(super) fn strikable(&self) -> Vec<NodeId> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(_, n)| n.strikes && n.status != Status::Gone)
            .map(|(i, _)| node_id(i))
            .collect()
    }

    /// A hash of everything that belongs to no single node and decides what can still happen.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut sum = self.network_hash;
        for monitor in &self.monitors {
            sum = mix(sum, monitor.fingerprint());
        }
        if self.ordered {
            sum = mix(sum, self.streams_hash());
        }
        if self.tied_clocks {
            sum = mix(sum, self.waits());
        }
        if !self.may_fail && self.partition.is_none() {
            return sum;
        }
        if self.held > 0 {
            let held = self.flights.iter().filter(|flight| flight.held && !flight.is_vacant());
            sum = mix(sum, held.fold(0, |all, flight| mix(flight.hash, HELD).wrapping_add(all)));
        }
        let left = &self.left;
        let budget = [left.crashes, left.stops, left.losses, left.duplicates, left.delays];
        let rest = (left.partitions, left.skews, left.one_way_partitions, left.resets);
        let disk = (left.torn_writes, left.disk_errors, left.full_disks);
        let cut = self.partition.map(|cut| (cut.side.nodes().to_vec(), cut.out, cut.into));
        mix(sum, fingerprint::hash(&(budget, rest, disk, cut)))
    }

    /// A hash that identifies the partial order of the execution so far.
    pub(crate) fn partial_order(&self) -> u64 {
        let hashes = self.nodes.iter().enumerate();
        hashes.fold(0, |sum, (index, node)| sum.wrapping_add(mix(index as u64 + 1, node.history)))
    }
}

impl<M: Message> About for State<M> {
    fn kind(&self, offered: &Move) -> &'static str {
        let What::Deliver(index) = offered.what else { return "" };
        self.flights[index as usize].msg.as_ref().map_or("", |msg| fingerprint::kind(msg))
    }

    fn peer(&self, offered: &Move) -> Option<NodeId> {
        let What::Disconnected(index) = offered.what else { return None };
        Some(self.flights[index as usize].from)
    }

    fn is_under_way(&self, from: NodeId, to: NodeId, kind: &str) -> bool {
        let is_it = |msg: &M| fingerprint::kind(msg) == kind;
        let mut between = self.flights.iter().filter(|f| f.from == from && f.to == to);
        between.any(|flight| flight.msg.as_ref().is_some_and(is_it))
    }

    fn sent(&self, node: NodeId) -> u32 {
        self.sent(node)
    }

    fn timer(&self, node: NodeId) -> Option<String> {
        self.next_timer(node).map(|timer| timer.to_string())
    }

    fn fault(&self, fault: &Fault) -> Option<u32> {
        let (kind, number) = match *fault {
            Fault::Crash(node) => (FaultKind::Crash, self.target_number(node)?),
            Fault::Stop(node) => (FaultKind::Stop, self.target_number(node)?),
            Fault::Lose(message) => {
                (FaultKind::Lose, self.delivery_number(FaultKind::Lose, message)?)
            }
            Fault::Duplicate(message) => {
                (FaultKind::Duplicate, self.delivery_number(FaultKind::Duplicate, message)?)
            }
            Fault::Delay(message) => {
                (FaultKind::Delay, self.delivery_number(FaultKind::Delay, message)?)
            }
            Fault::Partition(side) => (FaultKind::Partition, self.split_number(side)?.0),
            Fault::Mute(side) => (FaultKind::OneWay, self.one_way_number(side, true)?),
            Fault::Deafen(side) => (FaultKind::OneWay, self.one_way_number(side, false)?),
            Fault::Reset(one, other) => {
                let place = self.resettable().position(|ends| ends == (one, other));
                (FaultKind::Reset, place? as u32)
            }
            Fault::Skew(node, quarters) => {
                let jump = [-4, -2, 2, 4].iter().position(|jump| *jump == quarters)?;
                (FaultKind::Skew, self.target_number(node)? * 4 + jump as u32)
            }
        };
        let menu = self.moves.faults();
        (number < menu.of(kind)).then(|| self.moves.len() + menu.first(kind) + number)
    }
}

impl<M: Message> State<M> {
    /// The number of messages that a node has sent.
    pub(crate) fn sent(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].sent
    }

    /// A node's clock, in nanoseconds.
    pub(crate) fn clock(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].clock
    }

    pub(crate) fn next_timer(&self, node: NodeId) -> Option<Timer> {
        let timers = &self.nodes.get(node.index())?.timers;
        Some(timers[earliest(timers)?].timer)
    }

    /// The time for which a node's next timer still has to wait, in nanoseconds.
    pub(crate) fn next_wait(&self, node: NodeId) -> Option<u64> {
        let node = self.nodes.get(node.index())?;
        Some(node.wait(node.timers[earliest(&node.timers)?].deadline))
    }

    /// Notes the length of a timer that was set.
    #[inline]
    pub(super) fn note_timer(&mut self, length: u64) {
        if length > 0 && (self.shortest_timer == 0 || length < self.shortest_timer) {
            self.shortest_timer = length;
        }
    }

    /// A hash of the timers of all nodes, each with the time for which it still has to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.nodes.iter().enumerate().fold(0, |sum, (index, node)| {
            node.timers.iter().fold(sum, |sum, armed| {
                let name = fingerprint::hash(&(armed.timer.name, armed.timer.id));
                sum.wrapping_add(mix(mix(index as u64, name), node.wait(armed.deadline)))
            })
        })
    }

    /// Hashes the messages in flight, when hashing begins in the middle of an execution.
    pub(crate) fn rehash_network(&mut self) {
        self.network_hash = 0;
        for flight in &mut self.flights {
            if let Some(msg) = &flight.msg {
                flight.hash = flight_hash(flight.from, flight.to, flight.tag, msg);
            } else if flight.notice {
                flight.hash = notice_hash(flight.to, flight.from);
            } else {
                continue;
            }
            self.network_hash = self.network_hash.wrapping_add(flight.hash);
        }
    }

    fn target_number(&self, node: NodeId) -> Option<u32> {
        let is_target = |n: &NodeState| n.strikes && n.status == Status::Up;
        if !self.nodes.get(node.index()).is_some_and(is_target) {
            return None;
        }
        Some(self.nodes[..node.index()].iter().filter(|n| is_target(n)).count() as u32)
    }

    fn delivery_number(&self, kind: FaultKind, message: MessageName) -> Option<u32> {
        let id = identity::message(message.from, message.sequence);
        let is_it = |m: &Move| m.id == id && self.struck(m, kind).is_some();
        (0..self.moves.ready()).find(|pick| is_it(self.moves.get(*pick)))
    }

    /// The number of a split, and whether it is named by its other side.
    fn split_number(&self, side: Side) -> Option<(u32, bool)> {
        self.splits().number(&self.strikable(), side)
    }

    /// The number of a split after which a side is not heard, or does not hear.
    fn one_way_number(&self, side: Side, mute: bool) -> Option<u32> {
        let (number, swapped) = self.split_number(side)?;
        Some(number * 2 + u32::from(mute == swapped))
    }
}

fn copy_nodes(to: &mut Vec<NodeState>, from: &[NodeState], only: Option<u64>) {
    to.resize_with(from.len(), NodeState::default);
    match only {
        Some(mut mask) => {
            while mask != 0 {
                let index = mask.trailing_zeros() as usize;
                to[index].copy_from(&from[index]);
                mask &= mask - 1;
            }
        }
        None => to.iter_mut().zip(from).for_each(|(to, from)| to.copy_from(from)),
    }
}

impl NodeState {
    pub(super) fn copy_from(&mut self, other: &NodeState) {
        (self.status, self.incarnation) = (other.status, other.incarnation);
        (self.clock, self.skew) = (other.clock, other.skew);
        self.drift_ppm = other.drift_ppm;
        (self.sent, self.drawn) = (other.sent, other.drawn);
        (self.settings, self.polled) = (other.settings, other.polled);
        self.timers.clone_from(&other.timers);
        self.timer_slot = other.timer_slot;
        self.polls.clone_from(&other.polls);
        self.disk.clone_from(&other.disk);
        self.tracked = other.tracked;
        self.inbox.clone_from(&other.inbox);
        self.history = other.history;
        (self.kind, self.strikes) = (other.kind, other.strikes);
        (self.sends, self.takes, self.room) = (other.sends, other.takes, other.room);
    }

    pub(super) fn reset(&mut self) {
        self.status = Status::Up;
        self.incarnation = 0;
        (self.clock, self.skew, self.drift_ppm) = (0, 0, 0);
        (self.sent, self.drawn, self.settings, self.polled) = (0, 0, 0, 0);
        self.timers.clear();
        self.timer_slot = NONE;
        self.polls.clear();
        self.inbox.clear();
        self.history = 0;
        if let Some(disk) = &mut self.disk {
            disk.clear();
        }
    }

    /// The time for which a timer with this deadline still has to wait.
    pub(crate) fn wait(&self, deadline: u64) -> u64 {
        deadline.saturating_sub(self.clock)
    }

    /// The time that the node's clock shows.
    #[inline]
    pub(super) fn shown(&self) -> u64 {
        let drift = i128::from(self.clock) * i128::from(self.drift_ppm) / MILLION;
        let shown = i128::from(self.clock) + drift + i128::from(self.skew);
        u64::try_from(shown.max(0)).unwrap_or(u64::MAX)
    }

    /// Converts a time on the node's clock into true time.
    #[inline]
    pub(super) fn really(&self, shown: u64) -> u64 {
        if self.drift_ppm == 0 {
            return shown;
        }
        let rate = MILLION + i128::from(self.drift_ppm);
        let real = (i128::from(shown) * MILLION + rate - 1) / rate;
        u64::try_from(real).unwrap_or(u64::MAX)
    }

    /// Advances the node's clock.
    pub(crate) fn go_on(&mut self, nanos: u64) {
        self.clock = self.clock.saturating_add(nanos);
    }

    pub(crate) fn fresh(kind: u32, strikes: bool, tracked: bool) -> Self {
        NodeState { kind, strikes, tracked, timer_slot: NONE, ..NodeState::default() }
    }

    /// Hashes timers by name and order, not by deadline: clocks only go forward, so with deadlines
    /// no state would ever recur.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hash = match self.status {
            Status::Up => 1,
            Status::Down(_) => 2,
            Status::Gone => 3,
        };
        hash = mix(hash, u64::from(self.drawn));
        if self.skew != 0 {
            hash = mix(hash, self.skew as u64);
        }
        if self.drift_ppm != 0 {
            hash = mix(hash, mix(DRIFT, self.drift_ppm as u64));
        }
        if !self.timers.is_empty() {
            let mut timers: Vec<_> = self.timers.iter().collect();
            timers.sort_by_key(|armed| (armed.deadline, armed.setting));
            for armed in timers {
                hash = mix(hash, fingerprint::hash(&(armed.timer.name, armed.timer.id)));
            }
        }
        match &self.disk {
            Some(disk) if !disk.is_empty() => mix(hash, fingerprint::hash(&disk.shown())),
            _ => hash,
        }
    }
}

pub(super) fn flight_hash<M: Message>(from: NodeId, to: NodeId, tag: Tag, msg: &M) -> u64 {
    let pair = (u64::from(from.0) << 32) | u64::from(to.0);
    let tagged = match tag {
        Tag::None => 0,
        Tag::Request(number) => number.wrapping_mul(2).wrapping_add(1),
        Tag::Reply(number) => number.wrapping_mul(2).wrapping_add(2),
    };
    mix(mix(pair, tagged), fingerprint::hash(msg))
}

pub(super) fn notice_hash(node: NodeId, peer: NodeId) -> u64 {
    mix(0xD15C, (u64::from(node.0) << 32) | u64::from(peer.0))
}

pub(super) fn earliest(timers: &[Armed]) -> Option<usize> {
    (0..timers.len()).min_by_key(|at| (timers[*at].deadline, timers[*at].setting))
}
