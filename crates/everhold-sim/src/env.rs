//! Everything around the nodes in one execution: network, timers, disks, clocks, monitors, faults.
//! It is the [`Runtime`] that nodes meet under a strategy.

use std::any::Any;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

use everhold_node::fingerprint::{self, mix};
use everhold_node::{Blueprint, Disk, Message, NodeId, Runtime, Tag, TaskId, Time, Timer};

use crate::failure::{Cause, Failure};
use crate::fault::{Fault, FaultKind, Faults, MessageId};
use crate::liveness;
use crate::monitor::MonitorSlot;
use crate::moves::{Move, Moves, NONE, Slot, What, identity};
use crate::record::Recorder;
use crate::rng::Rng;
use crate::strategy::{About, Strategy};
use crate::system::{Clocks, Network};

/// Marks the second delivery of a duplicated message.
pub(crate) const DUPLICATE: u32 = 1 << 31;

/// The most nodes that a partition's mask can name.
const PARTITIONED_MAX: usize = 64;

/// What does not change from execution to execution.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) network: Network,
    pub(crate) clocks: Clocks,
    pub(crate) faults: Faults,
}

/// The part of an execution that is copied when a search goes back to an earlier point.
pub(crate) struct State<M> {
    pub(crate) step: u32,
    pub(crate) moves: Moves,
    pub(crate) flights: Vec<Flight<M>>,
    pub(crate) free: Vec<u32>,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) left: Faults,
    /// Some fault may be left.
    may_fail: bool,
    pub(crate) partition: Option<u64>,
    pub(crate) heal: Slot,
    pub(crate) held: u32,
    pub(crate) injected: [u32; FaultKind::ALL.len()],
    pub(crate) monitors: Vec<MonitorSlot>,
    /// Order-independent hash of the messages in flight.
    pub(crate) network_hash: u64,
    /// The name of what happened last, kept in the fair tail.
    pub(crate) last_move: u64,
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
    born: u32,
    hash: u64,
    /// The receiver's guard said no before; from then on it keeps its place among its sender's.
    refused: bool,
    held: bool,
}

/// What the environment keeps for one node.
#[derive(Default)]
pub(crate) struct NodeState {
    pub(crate) status: Status,
    pub(crate) incarnation: u32,
    clock: u64,
    skew: i64,
    sent: u32,
    drawn: u32,
    settings: u32,
    pub(crate) timers: Vec<Armed>,
    timer_slot: Slot,
    pub(crate) polls: Vec<(TaskId, Slot)>,
    polled: u32,
    disk: Option<Box<Disk>>,
    /// Whether this node's messages are looked at one by one: guards, streams.
    pub(crate) tracked: bool,
    pub(crate) inbox: Vec<u32>,
    /// Hash of what happened at this node so far; together these name the partial order.
    pub(crate) history: u64,
    /// Which kind of node this is, as an index.
    pub(crate) kind: u32,
    pub(crate) strikes: bool,
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
    setting: u32,
    born: u32,
}

/// What the strategy decided, with everything needed to do it.
pub(crate) enum Action<M> {
    Deliver {
        to: NodeId,
        from: NodeId,
        tag: Tag,
        msg: M,
    },
    Poll {
        node: NodeId,
        task: TaskId,
    },
    Timer {
        node: NodeId,
        timer: Timer,
    },
    Restart(NodeId),
    /// Done already, inside the environment.
    Healed,
    Crash(NodeId),
    /// Done already; the node that it concerns, if one.
    Faulted,
}

pub(crate) struct Env<M> {
    pub(crate) state: State<M>,
    pub(crate) rules: Rc<Rules>,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) log: Vec<u32>,
    pub(crate) seed: u64,
    pub(crate) failure: Option<Failure>,
    pub(crate) recorder: Option<Box<Recorder>>,
    pub(crate) spawned: Vec<(String, Blueprint<M>)>,
    pub(crate) halted: Vec<NodeId>,
    /// Messages to tracked nodes whose guards were not asked yet.
    pub(crate) unchecked: Vec<NodeId>,
    pub(crate) tail: Option<Rng>,
    pub(crate) hashing: bool,
    /// A handler notified, drew or chose: it did more than its node's own business.
    pub(crate) touched_monitors: bool,
    pub(crate) chose: bool,
    pub(crate) in_monitor: Option<usize>,
    /// The message that the present step delivers.
    pub(crate) delivered: Option<(NodeId, u32)>,
}

impl<M: Message> Env<M> {
    pub(crate) fn new(rules: Rules, strategy: Box<dyn Strategy>) -> Self {
        Env {
            state: State { left: rules.faults.clone(), ..State::empty() },
            rules: Rc::new(rules),
            strategy,
            log: Vec::new(),
            seed: 0,
            failure: None,
            recorder: None,
            spawned: Vec::new(),
            halted: Vec::new(),
            unchecked: Vec::new(),
            tail: None,
            hashing: false,
            touched_monitors: false,
            chose: false,
            in_monitor: None,
            delivered: None,
        }
    }

    /// Forgets the last execution; buffers keep their memory.
    pub(crate) fn reset(&mut self, seed: u64, nodes: usize) {
        self.seed = seed;
        self.log.clear();
        self.failure = None;
        self.tail = None;
        self.spawned.clear();
        self.halted.clear();
        self.unchecked.clear();
        self.in_monitor = None;
        let tracks_nodes = self.strategy.tracks_nodes();
        self.state.reset(nodes, tracks_nodes, &self.rules.faults);
    }

    /// Something happened that concerns other nodes than the one at which it happened.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !(self.unchecked.is_empty() && self.spawned.is_empty() && self.halted.is_empty())
    }

    /// Starts the fair end of the execution: no more faults, what was cut or held is let go.
    pub(crate) fn begin_tail(&mut self) {
        self.tail = Some(Rng::new(mix(self.seed, 0xFA12)));
        self.state.left = Faults::none();
        self.state.may_fail = true;
        self.state.moves.faults.set([0; FaultKind::ALL.len()]);
        self.heal();
        self.release();
        if let Some(recorder) = &mut self.recorder {
            recorder.tail();
        }
    }

    /// Lets the strategy, or the fair tail, decide, and carries out what needs no node.
    pub(crate) fn pick(&mut self) -> Option<(Action<M>, NodeId)> {
        if self.state.moves.is_empty() && self.state.held > 0 {
            self.release();
        }
        if self.state.may_fail {
            self.offer_faults();
        }
        let pick =
            if self.state.moves.is_empty() { self.decide_at_quiet()? } else { self.decide()? };
        debug_assert!(pick < self.state.moves.picks(), "a pick is one of the moves");
        self.log.push(pick);
        self.state.moves.forget_fresh();
        self.touched_monitors = false;
        self.chose = false;
        self.delivered = None;
        self.state.step += 1;
        let moves = self.state.moves.len();
        if pick < moves { Some(self.take(pick)) } else { Some(self.inject(pick - moves)) }
    }

    fn decide_at_quiet(&mut self) -> Option<u32> {
        if self.state.moves.faults.is_empty() {
            return None;
        }
        self.strategy.at_quiet(&self.state.moves, &self.state)
    }

    fn decide(&mut self) -> Option<u32> {
        let moves = &self.state.moves;
        match &mut self.tail {
            Some(rng) if !self.strategy.is_replay() => Some(fair_pick(rng, moves)),
            Some(rng) => {
                let again = self.strategy.pick(moves, &self.state);
                Some(again.unwrap_or_else(|| fair_pick(rng, moves)))
            }
            None => self.strategy.pick(moves, &self.state),
        }
    }

    fn take(&mut self, pick: u32) -> (Action<M>, NodeId) {
        let offered = *self.state.moves.get(pick);
        let Move { what, node, id, .. } = offered;
        if self.hashing && self.tail.is_some() {
            self.state.last_move = liveness::name(&self.state, &offered);
        }
        let history = &mut self.state.nodes[node.index()].history;
        *history = mix(*history, id);
        let action = match what {
            What::Deliver(flight) => self.take_flight(flight),
            What::Poll(task) => self.take_poll(node, task),
            What::Timer => self.take_timer(node),
            What::Restart => Action::Restart(node),
            What::Heal => {
                self.heal();
                Action::Healed
            }
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(node, &action, what, &self.state);
        }
        (action, node)
    }

    #[inline]
    fn take_flight(&mut self, index: u32) -> Action<M> {
        let flight = &mut self.state.flights[index as usize];
        let msg = flight.msg.take().expect("a message in flight is there");
        let (to, from, tag, slot) = (flight.to, flight.from, flight.tag, flight.slot);
        self.delivered = Some((from, flight.sequence));
        if let Some(recorder) = &mut self.recorder {
            recorder.arriving(from, flight.sequence, &msg);
        }
        self.state.network_hash = self.state.network_hash.wrapping_sub(flight.hash);
        self.state.moves.remove(slot);
        self.forget_flight(index);
        Action::Deliver { to, from, tag, msg }
    }

    /// Gives the place back and takes the message out of its receiver's inbox.
    #[inline]
    fn forget_flight(&mut self, index: u32) {
        let flight = &mut self.state.flights[index as usize];
        flight.slot = NONE;
        let to = &mut self.state.nodes[flight.to.index()];
        if to.tracked {
            to.inbox.retain(|waiting| *waiting != index);
        }
        self.state.free.push(index);
    }

    fn take_poll(&mut self, node: NodeId, task: TaskId) -> Action<M> {
        let state = &mut self.state.nodes[node.index()];
        state.polled += 1;
        let at = state.polls.iter().position(|(ready, _)| *ready == task);
        let (_, slot) = state.polls.remove(at.expect("a task that is polled was ready"));
        self.state.moves.remove(slot);
        Action::Poll { node, task }
    }

    fn take_timer(&mut self, node: NodeId) -> Action<M> {
        let state = &mut self.state.nodes[node.index()];
        let at = earliest(&state.timers).expect("a timer that fires was set");
        let armed = state.timers.remove(at);
        state.clock = state.clock.max(armed.deadline);
        self.offer_timer(node);
        if self.rules.clocks == Clocks::Shared {
            self.state.nodes.iter_mut().for_each(|n| n.clock = n.clock.max(armed.deadline));
        }
        Action::Timer { node, timer: armed.timer }
    }

    /// Keeps the move of a node's next timer in step with its timers.
    fn offer_timer(&mut self, node: NodeId) {
        if self.rules.clocks == Clocks::Shared {
            return self.offer_shared_timers();
        }
        self.offer_own_timer(node, true);
    }

    fn offer_own_timer(&mut self, node: NodeId, due: bool) {
        let state = &mut self.state.nodes[node.index()];
        let next = earliest(&state.timers).filter(|_| due).map(|at| state.timers[at]);
        match (next, state.timer_slot) {
            (None, NONE) => {}
            (None, slot) => {
                state.timer_slot = NONE;
                self.state.moves.remove(slot);
            }
            (Some(armed), NONE) => {
                let id = identity::timer(node, armed.setting);
                let offered = Move { what: What::Timer, node, born: armed.born, id };
                state.timer_slot = self.state.moves.add(offered);
            }
            (Some(armed), slot) => {
                self.state.moves.renew(slot, armed.born, identity::timer(node, armed.setting));
            }
        }
    }

    /// On shared clocks only the timers with the earliest deadline of all may fire.
    fn offer_shared_timers(&mut self) {
        let deadline = |n: &NodeState| earliest(&n.timers).map(|at| n.timers[at].deadline);
        let next = self.state.nodes.iter().filter_map(deadline).min();
        for index in 0..self.state.nodes.len() {
            let due = deadline(&self.state.nodes[index]) == next;
            self.offer_own_timer(node_id(index), due);
        }
    }

    /// Puts a message into the network.
    #[inline]
    fn launch(&mut self, from: NodeId, to: NodeId, sequence: u32, tag: Tag, msg: M) {
        let Some(receiver) = self.state.nodes.get(to.index()) else {
            return self.lost(from, to, sequence, &msg);
        };
        if receiver.status == Status::Gone {
            return self.lost(from, to, sequence, &msg);
        }
        let hash = if self.hashing { flight_hash(from, to, tag, &msg) } else { 0 };
        self.state.network_hash = self.state.network_hash.wrapping_add(hash);
        let (tracked, up) = (receiver.tracked, receiver.status == Status::Up);
        let index = self.state.free.pop().unwrap_or(self.state.flights.len() as u32);
        let born = self.state.step;
        let mut flight = Flight {
            msg: Some(msg),
            from,
            to,
            sequence,
            tag,
            slot: NONE,
            born,
            hash,
            refused: false,
            held: false,
        };
        if tracked {
            self.state.nodes[to.index()].inbox.push(index);
            self.unchecked.push(to);
        } else if up && !self.state.is_cut(from, to) {
            let id = identity::message(from, sequence);
            flight.slot =
                self.state.moves.add(Move { what: What::Deliver(index), node: to, born, id });
        }
        match self.state.flights.get_mut(index as usize) {
            Some(place) => *place = flight,
            None => self.state.flights.push(flight),
        }
    }

    fn lost(&mut self, from: NodeId, to: NodeId, sequence: u32, msg: &M) {
        if let Some(recorder) = &mut self.recorder {
            recorder.lost(from, to, sequence, msg);
        }
    }

    /// Brings the offered deliveries of a tracked node in line with guards and stream order.
    /// `accepts` asks the node.
    pub(crate) fn refresh(&mut self, node: NodeId, accepts: impl Fn(NodeId, Tag, &M) -> bool) {
        let inbox = std::mem::take(&mut self.state.nodes[node.index()].inbox);
        let up = self.state.nodes[node.index()].status == Status::Up;
        let streams = self.rules.network == Network::Streams;
        // Senders of which an earlier message blocks the later ones.
        let mut blocked: Vec<NodeId> = Vec::new();
        for &index in &inbox {
            let flight = &self.state.flights[index as usize];
            let (from, first) = (flight.from, !blocked.contains(&flight.from));
            let reachable = up && !flight.held && !self.state.is_cut(from, node);
            let msg = flight.msg.as_ref().expect("a waiting message is there");
            let accepted = reachable && accepts(from, flight.tag, msg);
            let ordered = streams || flight.refused;
            let offered = accepted && (first || !ordered);
            // What a guard refuses does not hold up what it takes, or a selective receive
            // would wait for ever behind it.
            if accepted && ordered || streams && !reachable {
                blocked.push(from);
            }
            let flight = &mut self.state.flights[index as usize];
            flight.refused |= reachable && !accepted;
            self.offer_flight(index, offered);
        }
        self.state.nodes[node.index()].inbox = inbox;
    }

    fn offer_flight(&mut self, index: u32, offered: bool) {
        let flight = &mut self.state.flights[index as usize];
        match (offered, flight.slot) {
            (true, NONE) => {
                let id = identity::message(flight.from, flight.sequence);
                let what = What::Deliver(index);
                let offer = Move { what, node: flight.to, born: flight.born, id };
                flight.slot = self.state.moves.add(offer);
            }
            (false, slot) if slot != NONE => {
                flight.slot = NONE;
                self.state.moves.remove(slot);
            }
            _ => {}
        }
    }

    /// After crash, restart, partition or heal: offers exactly the deliveries that can happen.
    /// Tracked nodes are left to [`refresh`](Env::refresh).
    fn reoffer_all(&mut self) {
        for index in 0..self.state.flights.len() {
            let flight = &self.state.flights[index];
            if flight.msg.is_none() {
                continue;
            }
            let receiver = &self.state.nodes[flight.to.index()];
            if receiver.tracked {
                self.unchecked.push(flight.to);
                continue;
            }
            let offered = receiver.status == Status::Up
                && !flight.held
                && !self.state.is_cut(flight.from, flight.to);
            self.offer_flight(index as u32, offered);
        }
    }

    /// Lists the tasks of a node that can go on.
    pub(crate) fn offer_polls(&mut self, node: NodeId, ready: &[TaskId]) {
        let up = self.state.nodes[node.index()].status == Status::Up;
        let offered = std::mem::take(&mut self.state.nodes[node.index()].polls);
        let mut kept = Vec::with_capacity(ready.len());
        for (task, slot) in offered {
            if up && ready.contains(&task) {
                kept.push((task, slot));
            } else {
                self.state.moves.remove(slot);
            }
        }
        for &task in ready.iter().filter(|_| up) {
            if kept.iter().all(|(known, _)| *known != task) {
                let id = identity::task(node, task, self.state.nodes[node.index()].polled);
                let born = self.state.step;
                let slot = self.state.moves.add(Move { what: What::Poll(task), node, born, id });
                kept.push((task, slot));
            }
        }
        self.state.nodes[node.index()].polls = kept;
    }

    fn offer_faults(&mut self) {
        if self.state.left.total() == 0 {
            self.state.may_fail = false;
            self.state.moves.faults.set([0; FaultKind::ALL.len()]);
            return;
        }
        let state = &self.state;
        let targets = state.nodes.iter().filter(|n| n.strikes && n.status == Status::Up).count();
        let targets = targets as u32;
        let deliveries = if state.deliveries() { state.moves.ready() } else { 0 };
        let within = |budget: u32, count: u32| if budget > 0 { count } else { 0 };
        let splits = if state.partition.is_none() { splits(state.strikable().len()) } else { 0 };
        let counts = [
            within(state.left.crashes, targets),
            within(state.left.stops, targets),
            within(state.left.losses, deliveries),
            within(state.left.duplicates, deliveries),
            within(state.left.delays, deliveries),
            within(state.left.partitions, splits),
            within(state.left.skews, targets * 4),
        ];
        self.state.moves.faults.set(counts);
    }

    fn inject(&mut self, index: u32) -> (Action<M>, NodeId) {
        let (kind, number) = self.state.moves.faults.decode(index);
        self.state.injected[kind as usize] += 1;
        let (action, node, fault) = match kind {
            FaultKind::Crash => self.crash(number),
            FaultKind::Stop => self.stop(number),
            FaultKind::Lose | FaultKind::Duplicate | FaultKind::Delay => self.disturb(kind, number),
            FaultKind::Partition => self.split(number),
            FaultKind::Skew => self.skew(number),
        };
        let history = &mut self.state.nodes[node.index()].history;
        *history = mix(*history, 0xFA17 + kind as u64);
        if let Some(recorder) = &mut self.recorder {
            recorder.fault(node, fault);
        }
        (action, node)
    }

    fn target(&self, number: u32) -> NodeId {
        let mut targets = (0..self.state.nodes.len())
            .filter(|i| self.state.nodes[*i].strikes && self.state.nodes[*i].status == Status::Up);
        node_id(targets.nth(number as usize).expect("the menu counted the targets"))
    }

    fn crash(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.crashes -= 1;
        let node = self.target(number);
        self.go_down(node);
        let incarnation = self.state.nodes[node.index()].incarnation;
        let id = identity::restart(node, incarnation);
        let offered = Move { what: What::Restart, node, born: self.state.step, id };
        let slot = self.state.moves.add(offered);
        self.state.nodes[node.index()].status = Status::Down(slot);
        self.reoffer_all();
        (Action::Crash(node), node, Fault::Crash(node))
    }

    /// What of the unsynced writes survives is a choice like any other.
    pub(crate) fn crash_disk(&mut self, node: NodeId) {
        let unsynced = self.state.nodes[node.index()].disk.as_ref().map_or(0, |d| d.unsynced());
        if unsynced == 0 {
            return;
        }
        let survivors = self.choose(node, "writes that survive", unsynced as u32 + 1);
        let mut torn = false;
        if self.state.left.torn_writes > 0 && (survivors as usize) < unsynced {
            torn = self.choose(node, "torn write", 2) == 1;
            self.state.left.torn_writes -= u32::from(torn);
        }
        self.disk(node).crash(survivors as usize, torn);
    }

    fn stop(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.stops -= 1;
        let node = self.target(number);
        self.leave(node);
        (Action::Faulted, node, Fault::Stop(node))
    }

    /// Takes a node out of the system for good.
    pub(crate) fn leave(&mut self, node: NodeId) {
        self.go_down(node);
        self.state.nodes[node.index()].status = Status::Gone;
        for index in 0..self.state.flights.len() {
            let flight = &self.state.flights[index];
            if flight.msg.is_some() && flight.to == node {
                self.discard(index as u32);
            }
        }
    }

    fn go_down(&mut self, node: NodeId) {
        self.state.nodes[node.index()].timers.clear();
        self.offer_timer(node);
        self.offer_polls(node, &[]);
        if self.rules.network == Network::Streams {
            self.break_streams(node);
        }
    }

    /// A crash breaks its node's connections: what was in them is lost.
    fn break_streams(&mut self, node: NodeId) {
        for index in 0..self.state.flights.len() {
            let flight = &self.state.flights[index];
            if flight.msg.is_some() && (flight.to == node || flight.from == node) {
                self.discard(index as u32);
            }
        }
    }

    fn discard(&mut self, index: u32) {
        self.offer_flight(index, false);
        let flight = &mut self.state.flights[index as usize];
        let (from, to, sequence) = (flight.from, flight.to, flight.sequence);
        self.state.held -= u32::from(flight.held);
        self.state.network_hash = self.state.network_hash.wrapping_sub(flight.hash);
        if let Some(msg) = flight.msg.take() {
            self.forget_flight(index);
            self.lost(from, to, sequence, &msg);
        }
    }

    pub(crate) fn come_back(&mut self, node: NodeId) {
        let state = &mut self.state.nodes[node.index()];
        if let Status::Down(slot) = state.status {
            state.status = Status::Up;
            state.incarnation += 1;
            self.state.moves.remove(slot);
        }
        self.reoffer_all();
    }

    fn disturb(&mut self, kind: FaultKind, number: u32) -> (Action<M>, NodeId, Fault) {
        let index = self.state.delivery(number);
        let flight = &self.state.flights[index as usize];
        let (from, to, sequence) = (flight.from, flight.to, flight.sequence);
        let id = MessageId { from, sequence };
        let fault = match kind {
            FaultKind::Lose => {
                self.state.left.losses -= 1;
                self.discard(index);
                Fault::Lose(id)
            }
            FaultKind::Duplicate => {
                self.state.left.duplicates -= 1;
                let (tag, msg) = (flight.tag, flight.msg.clone());
                let msg = msg.expect("a message in flight is there");
                self.launch(from, to, sequence | DUPLICATE, tag, msg);
                Fault::Duplicate(id)
            }
            _ => {
                self.state.left.delays -= 1;
                self.state.held += 1;
                self.state.flights[index as usize].held = true;
                self.offer_flight(index, false);
                Fault::Delay(id)
            }
        };
        if self.state.nodes[to.index()].tracked {
            self.unchecked.push(to);
        }
        (Action::Faulted, to, fault)
    }

    /// Lets go what was held back.
    fn release(&mut self) {
        if self.state.held == 0 {
            return;
        }
        self.state.held = 0;
        self.state.flights.iter_mut().for_each(|flight| flight.held = false);
        self.reoffer_all();
    }

    fn split(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.partitions -= 1;
        let members = self.state.strikable();
        let mask = split_mask(&members, number);
        self.state.partition = Some(mask);
        let node = NodeId(mask.trailing_zeros());
        let (born, id) = (self.state.step, identity::HEAL);
        self.state.heal = self.state.moves.add(Move { what: What::Heal, node, born, id });
        self.reoffer_all();
        (Action::Faulted, node, Fault::Partition(mask))
    }

    fn heal(&mut self) {
        if self.state.partition.take().is_some() {
            let slot = std::mem::replace(&mut self.state.heal, NONE);
            self.state.moves.remove(slot);
            self.reoffer_all();
        }
    }

    fn skew(&mut self, number: u32) -> (Action<M>, NodeId, Fault) {
        self.state.left.skews -= 1;
        let node = self.target(number / 4);
        let quarters: i8 = [-4, -2, 2, 4][(number % 4) as usize];
        let quarter = i64::try_from(self.rules.faults.skew_max.as_nanos() / 4).unwrap_or(i64::MAX);
        self.state.nodes[node.index()].skew = quarter.saturating_mul(i64::from(quarters));
        (Action::Faulted, node, Fault::Skew(node, quarters))
    }

    pub(crate) fn fail_with(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
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
            partition: None,
            heal: NONE,
            held: 0,
            injected: [0; FaultKind::ALL.len()],
            monitors: Vec::new(),
            network_hash: 0,
            last_move: 0,
        }
    }

    /// Becomes a copy of `other`, in the memory it has. Of the nodes only those in `nodes` are
    /// copied, if the caller knows that the others are equal.
    pub(crate) fn copy_from(&mut self, other: &Self, nodes: Option<u64>) {
        self.step = other.step;
        self.moves.copy_from(&other.moves);
        self.flights.clone_from(&other.flights);
        self.free.clone_from(&other.free);
        copy_nodes(&mut self.nodes, &other.nodes, nodes);
        if self.may_fail || other.may_fail {
            self.left.clone_from(&other.left);
        }
        self.may_fail = other.may_fail;
        (self.partition, self.heal, self.held) = (other.partition, other.heal, other.held);
        self.injected = other.injected;
        self.monitors.clone_from(&other.monitors);
        (self.network_hash, self.last_move) = (other.network_hash, other.last_move);
    }

    fn reset(&mut self, nodes: usize, tracks_nodes: bool, faults: &Faults) {
        self.step = 0;
        self.moves.clear(nodes, tracks_nodes);
        self.moves.faults.set([0; FaultKind::ALL.len()]);
        self.flights.clear();
        self.free.clear();
        self.nodes.truncate(nodes);
        self.nodes.iter_mut().for_each(NodeState::reset);
        self.left.clone_from(faults);
        self.may_fail = true;
        self.partition = None;
        self.heal = NONE;
        self.held = 0;
        self.injected = [0; FaultKind::ALL.len()];
        self.monitors.iter_mut().for_each(MonitorSlot::reset);
        self.network_hash = 0;
    }

    /// Whether the partition lies between two nodes.
    #[inline]
    fn is_cut(&self, a: NodeId, b: NodeId) -> bool {
        match self.partition {
            None => false,
            Some(mask) => side(mask, a) != side(mask, b),
        }
    }

    fn deliveries(&self) -> bool {
        (0..self.moves.ready()).any(|at| matches!(self.moves.get(at).what, What::Deliver(_)))
    }

    /// The message that the fault with this number concerns: the first delivery at or after it.
    fn delivery(&self, number: u32) -> u32 {
        let ready = self.moves.ready();
        (0..ready)
            .find_map(|offset| match self.moves.get((number + offset) % ready).what {
                What::Deliver(flight) => Some(flight),
                _ => None,
            })
            .expect("the menu counted the deliveries")
    }

    fn strikable(&self) -> Vec<NodeId> {
        let nodes = self.nodes.iter().enumerate().take(PARTITIONED_MAX);
        nodes
            .filter(|(_, n)| n.strikes && n.status != Status::Gone)
            .map(|(i, _)| node_id(i))
            .collect()
    }

    /// Hash of everything that is no single node's and decides what can still happen.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut sum = self.network_hash;
        for monitor in &self.monitors {
            sum = mix(sum, monitor.fingerprint());
        }
        if !self.may_fail && self.partition.is_none() {
            return sum;
        }
        let left = &self.left;
        let budget = [left.crashes, left.stops, left.losses, left.duplicates, left.delays];
        mix(sum, fingerprint::hash(&(budget, left.partitions, left.skews, self.partition)))
    }

    /// Names the partial order of the execution so far.
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

    fn timer(&self, node: NodeId) -> Option<String> {
        self.next_timer(node).map(|timer| timer.to_string())
    }

    fn fault(&self, fault: &Fault) -> Option<u32> {
        let (kind, number) = match *fault {
            Fault::Crash(node) => (FaultKind::Crash, self.target_number(node)?),
            Fault::Stop(node) => (FaultKind::Stop, self.target_number(node)?),
            Fault::Lose(message) => (FaultKind::Lose, self.delivery_number(message)?),
            Fault::Duplicate(message) => (FaultKind::Duplicate, self.delivery_number(message)?),
            Fault::Delay(message) => (FaultKind::Delay, self.delivery_number(message)?),
            Fault::Partition(mask) => (FaultKind::Partition, self.split_number(mask)?),
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
    /// How many messages a node has sent.
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

    /// Hashes what is in flight, when hashing begins in the middle of an execution.
    pub(crate) fn rehash_network(&mut self) {
        self.network_hash = 0;
        for flight in &mut self.flights {
            if let Some(msg) = &flight.msg {
                flight.hash = flight_hash(flight.from, flight.to, flight.tag, msg);
                self.network_hash = self.network_hash.wrapping_add(flight.hash);
            }
        }
    }

    fn target_number(&self, node: NodeId) -> Option<u32> {
        let is_target = |n: &NodeState| n.strikes && n.status == Status::Up;
        if !self.nodes.get(node.index()).is_some_and(is_target) {
            return None;
        }
        Some(self.nodes[..node.index()].iter().filter(|n| is_target(n)).count() as u32)
    }

    fn delivery_number(&self, message: MessageId) -> Option<u32> {
        let id = identity::message(message.from, message.sequence);
        let is_it = |m: &Move| m.id == id && matches!(m.what, What::Deliver(_));
        (0..self.moves.ready()).find(|pick| is_it(self.moves.get(*pick)))
    }

    fn split_number(&self, mask: u64) -> Option<u32> {
        let members = self.strikable();
        (0..splits(members.len())).find(|number| split_mask(&members, *number) == mask)
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
    fn copy_from(&mut self, other: &NodeState) {
        (self.status, self.incarnation) = (other.status, other.incarnation);
        (self.clock, self.skew) = (other.clock, other.skew);
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
    }

    fn reset(&mut self) {
        self.status = Status::Up;
        self.incarnation = 0;
        (self.clock, self.skew) = (0, 0);
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

    pub(crate) fn fresh(kind: u32, strikes: bool, tracked: bool) -> Self {
        NodeState { kind, strikes, tracked, timer_slot: NONE, ..NodeState::default() }
    }

    /// Timers by name and order, not by deadline: clocks only go forward, so with deadlines no
    /// state would ever come again.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hash = match self.status {
            Status::Up => 1,
            Status::Down(_) => 2,
            Status::Gone => 3,
        };
        hash = mix(hash, u64::from(self.drawn));
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

impl<M: Message> Runtime<M> for Env<M> {
    fn now(&self, node: NodeId) -> Time {
        let node = &self.state.nodes[node.index()];
        Time(node.clock.saturating_add_signed(node.skew))
    }

    #[inline]
    fn send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) {
        let sender = &mut self.state.nodes[from.index()];
        let sequence = sender.sent;
        sender.sent += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(from, to, sequence, &msg);
        }
        self.launch(from, to, sequence, tag, msg);
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Duration) {
        let born = self.state.step;
        let state = &mut self.state.nodes[node.index()];
        state.settings += 1;
        let deadline = (Time(state.clock) + after).0;
        let armed = Armed { timer, deadline, setting: state.settings, born };
        match state.timers.iter_mut().find(|armed| armed.timer == timer) {
            Some(set) => *set = armed,
            None => state.timers.push(armed),
        }
        self.offer_timer(node);
    }

    fn cancel_timer(&mut self, node: NodeId, timer: Timer) -> bool {
        let Some(state) = self.state.nodes.get_mut(node.index()) else { return false };
        let Some(at) = state.timers.iter().position(|armed| armed.timer == timer) else {
            return false;
        };
        state.timers.remove(at);
        self.offer_timer(node);
        true
    }

    fn random(&mut self, node: NodeId) -> u64 {
        let state = &mut self.state.nodes[node.index()];
        state.drawn += 1;
        let stream = mix(self.seed, (u64::from(node.0) << 32) | u64::from(state.incarnation));
        self.chose = true;
        mix(stream, u64::from(state.drawn))
    }

    fn choose(&mut self, node: NodeId, label: &'static str, domain: u32) -> u32 {
        if domain == 1 {
            return 0;
        }
        self.chose = true;
        let drawn = match &mut self.tail {
            Some(rng) if !self.strategy.is_replay() => rng.below(domain),
            Some(rng) => {
                self.strategy.choose(node, label, domain).unwrap_or_else(|| rng.below(domain))
            }
            None => self.strategy.choose(node, label, domain).unwrap_or(0),
        };
        assert!(drawn < domain, "the strategy chose {drawn} of {domain} for \"{label}\"");
        self.log.push(drawn);
        let history = &mut self.state.nodes[node.index()].history;
        *history = mix(*history, u64::from(drawn) + 0xC4005E);
        if let Some(recorder) = &mut self.recorder {
            recorder.chose(node, label, domain, drawn);
        }
        drawn
    }

    fn disk(&mut self, node: NodeId) -> &mut Disk {
        self.state.nodes[node.index()].disk.get_or_insert_default()
    }

    fn notify(&mut self, node: NodeId, event: &dyn Any, shown: &dyn Debug) {
        self.touched_monitors = true;
        if let Some(recorder) = &mut self.recorder {
            recorder.note(node, format!("notifies {shown:?}"));
        }
        for index in 0..self.state.monitors.len() {
            self.in_monitor = Some(index);
            self.state.monitors[index].observe(event);
        }
        self.in_monitor = None;
    }

    fn spawn(&mut self, _: NodeId, kind: &str, blueprint: Blueprint<M>) -> NodeId {
        let id = node_id(self.state.nodes.len());
        self.state.nodes.push(NodeState::fresh(u32::MAX, false, true));
        self.spawned.push((kind.to_owned(), blueprint));
        id
    }

    fn halt(&mut self, node: NodeId) {
        self.halted.push(node);
    }

    fn fail(&mut self, node: NodeId, assertion: &str, message: String) {
        let message = format!("{node} {message}");
        self.fail_with(Failure { cause: Cause::Assertion(assertion.to_owned()), message });
    }

    fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    fn note(&mut self, node: NodeId, text: String) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(node, text);
        }
    }
}

pub(crate) fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index).expect("a system has fewer than 2^32 nodes"))
}

/// Every move has its turn with probability one; timers less often, or they would only tick.
fn fair_pick(rng: &mut Rng, moves: &Moves) -> u32 {
    let (ready, idle) = (moves.ready(), moves.idle());
    if ready == 0 || (idle > 0 && rng.one_in(4)) {
        ready + rng.below(idle)
    } else {
        rng.below(ready)
    }
}

fn flight_hash<M: Message>(from: NodeId, to: NodeId, tag: Tag, msg: &M) -> u64 {
    let pair = (u64::from(from.0) << 32) | u64::from(to.0);
    let tagged = match tag {
        Tag::None => 0,
        Tag::Request(number) => u64::from(number) * 2 + 1,
        Tag::Reply(number) => u64::from(number) * 2 + 2,
    };
    mix(mix(pair, tagged), fingerprint::hash(msg))
}

fn earliest(timers: &[Armed]) -> Option<usize> {
    (0..timers.len()).min_by_key(|at| (timers[*at].deadline, timers[*at].setting))
}

fn side(mask: u64, node: NodeId) -> bool {
    node.0 < u64::BITS && (mask >> node.0) & 1 == 1
}

/// Few nodes are split in every way, many by cutting one off.
fn splits(members: usize) -> u32 {
    match members {
        0 | 1 => 0,
        2..=6 => (1 << (members - 1)) - 1,
        many => many as u32,
    }
}

fn split_mask(members: &[NodeId], number: u32) -> u64 {
    if members.len() > 6 {
        return 1 << members[number as usize].0;
    }
    let chosen = number + 1;
    let bits = members.iter().enumerate().filter(|(at, _)| (chosen >> at) & 1 == 1);
    bits.fold(0, |mask, (_, node)| mask | (1 << node.0))
}
