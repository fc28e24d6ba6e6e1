//! The environment of the nodes in one timed execution: clocks, queue, network, timers, disks.

use std::rc::Rc;

use everhold_node::{Blueprint, Disk, DiskUse, Message, NodeId, Tag, TaskId, Time, Timer};
use everhold_sim::Failure;
use everhold_sim::engine::{EFFECTS_MAX, MonitorSlot, node_id, too_much};

use super::draw::{Stream, below, draw};
use super::draws::Draws;
use super::fair::Flows;
use super::fault::TimedFault;
use super::kinds::{Class, Kinds};
use super::links::Links;
use super::model::Model;
use super::queue::Queue;
use super::record::{self, Event, Recorder, Trigger};

/// The index that stands for "no item".
pub(super) const NONE: u32 = u32::MAX;
/// Marks a queue entry as the end of a node's present event.
const WAKE: u32 = 1 << 31;
/// The queue entry of the fairly shared network.
pub(super) const NETWORK: u32 = WAKE - 1;

/// The environment of one execution. [`State`] holds the part that a fork copies.
pub(crate) struct Env<M: Message> {
    pub(super) model: Rc<Model<M>>,
    pub(super) draws: Rc<Draws>,
    pub(super) state: State<M>,
    pub(super) failure: Option<Failure>,
    pub(super) recorder: Option<Box<Recorder>>,
    pub(super) spawned: Vec<(String, Blueprint<M>)>,
    pub(super) halted: Vec<NodeId>,
    pub(super) in_monitor: Option<usize>,
    pub(super) time_max: u64,
    pub(super) events_max: u64,
    /// The kind of the present event.
    pub(super) kind_of_event: u16,
    /// The number of effects of the node in the present event.
    pub(super) effects: u32,
}

#[derive(Clone)]
pub(super) struct State<M> {
    pub(super) seed: u64,
    /// The next change of seed: the number of events after which it is due, and the seed.
    pub(super) reseed: Option<(u64, u64)>,
    /// The start of the present event.
    pub(super) now: u64,
    /// The end of the present event, without the time of its disk operations.
    pub(super) end: u64,
    pub(super) events: u64,
    pub(super) queue: Queue,
    pub(super) items: Vec<Item<M>>,
    pub(super) free: Vec<u32>,
    pub(super) nodes: Vec<NodeState>,
    pub(super) links: Links,
    pub(super) kinds: Kinds,
    pub(super) monitors: Vec<MonitorSlot>,
    /// The side of the partition on which each node is; empty while the network is whole.
    pub(super) sides: Vec<bool>,
    /// Whether the partition is one-way: the nodes on the side are not heard, but hear the others.
    pub(super) one_way: bool,
    /// Ends of broken streams that have not been notified yet, each with its peer.
    pub(super) untold: Vec<(NodeId, NodeId)>,
    /// Messages of streams that wait for the end of the partition.
    pub(super) stalled: Vec<u32>,
    /// Faults that strike the next message.
    pub(super) upsets: Vec<TimedFault>,
    pub(super) flows: Option<Flows>,
    /// The message that the present event handles.
    pub(super) delivered: Option<(NodeId, u32)>,
}

/// A future event: a message under way, or an event that waits at a busy node.
#[derive(Clone)]
pub(super) struct Item<M> {
    pub(super) node: NodeId,
    /// The next item in the node's waiting line.
    next: u32,
    pub(super) kind: u16,
    /// Whether the item is void because its node crashed.
    pub(super) dead: bool,
    /// The earliest time at which it could have begun.
    pub(super) ready: u64,
    /// The number of its entry in the record.
    pub(super) record: u32,
    pub(super) what: What<M>,
}

#[derive(Clone)]
pub(super) enum What<M> {
    Vacant,
    Message(Flight<M>),
    Timer(Timer, u32),
    Poll(TaskId),
    Start,
    Restart,
    Input(M),
    Fault(TimedFault),
    Heal,
    /// The node learns that its connection to this peer ended.
    Disconnected(NodeId),
    /// A message that is about to enter the fairly shared network.
    Departing(Flight<M>),
}

/// A message under way.
#[derive(Clone)]
pub(super) struct Flight<M> {
    pub(super) from: NodeId,
    pub(super) link: u32,
    pub(super) bytes: u64,
    /// The message's index among those of its sender.
    pub(super) sequence: u32,
    pub(super) tag: Tag,
    /// The delay after transmission, if bandwidth is shared max-min fairly.
    pub(super) delay: u64,
    pub(super) msg: M,
}

#[derive(Clone)]
pub(super) struct NodeState {
    pub(super) status: Status,
    pub(super) guarded: bool,
    /// Whether the queue holds the end of its present event.
    awaken: bool,
    /// Whether some of its durations are changed.
    pub(super) changed: bool,
    /// The end of its present event.
    pub(super) free_at: u64,
    /// The head of the list of items that wait for it.
    head: u32,
    tail: u32,
    pub(super) events: u32,
    pub(super) drawn: u32,
    pub(super) sent: u32,
    /// The number of flows from it with more bytes under way than the threshold.
    pub(super) heavy: u32,
    /// Fields that few events need, boxed so that the state of many nodes fits into a cache.
    pub(super) rest: Box<Rest>,
}

#[derive(Clone, Default)]
pub(super) struct Rest {
    pub(super) incarnation: u32,
    pub(super) chosen: u32,
    settings: u32,
    pub(super) timers: Vec<Armed>,
    pub(super) polls: Vec<TaskId>,
    pub(super) disk: Option<Box<Disk>>,
    charged: DiskUse,
    /// The time until which the disk is slow, and the factor by which it is slower.
    pub(super) slow: (u64, u32),
    pub(super) skew: i64,
    drift_ppb: i64,
    /// The link rules that may apply to messages that it sends or receives, as bit sets.
    pub(super) sends: u64,
    pub(super) takes: u64,
    /// The capacity of its mailbox, if there is a bound.
    pub(super) room: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Up,
    Down,
    Gone,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Armed {
    pub(super) timer: Timer,
    setting: u32,
}

/// The next thing to happen.
pub(super) enum Next<M> {
    /// A node handles an event, which has begun.
    Run(NodeId, What<M>),
    /// A node that refuses some messages is free to take one.
    Choose(NodeId),
    /// A fault begins or ends.
    Upset(What<M>),
    /// Nothing can happen any more.
    Quiet,
    /// Everything that is still to happen lies beyond the time limit.
    Late,
}

impl<M> State<M> {
    pub(super) fn new(kinds: Kinds) -> Self {
        State {
            seed: 0,
            reseed: None,
            now: 0,
            end: 0,
            events: 0,
            queue: Queue::default(),
            items: Vec::new(),
            free: Vec::new(),
            nodes: Vec::new(),
            links: Links::default(),
            kinds,
            monitors: Vec::new(),
            sides: Vec::new(),
            one_way: false,
            untold: Vec::new(),
            stalled: Vec::new(),
            upsets: Vec::new(),
            flows: None,
            delivered: None,
        }
    }

    /// Resets the state for another execution; buffers keep their memory.
    fn clear(&mut self, nodes: usize) {
        (self.now, self.end, self.events) = (0, 0, 0);
        self.queue.clear();
        self.items.clear();
        self.free.clear();
        self.nodes.clear();
        self.links.clear(nodes);
        self.sides.clear();
        self.untold.clear();
        self.stalled.clear();
        self.upsets.clear();
        self.delivered = None;
    }

    #[inline]
    pub(super) fn put(&mut self, item: Item<M>) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.items[slot as usize] = item;
                slot
            }
            None => {
                self.items.push(item);
                self.items.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> What<M> {
        self.free.push(slot);
        std::mem::replace(&mut self.items[slot as usize].what, What::Vacant)
    }

    pub(super) fn schedule(&mut self, at: u64, node: NodeId, kind: u16, what: What<M>) {
        let number = self.items.len() as u64;
        let tie = draw(self.seed, Stream::Timers(node.0), u64::MAX - number) as u32;
        let slot = self.put(Item::new(node, kind, what));
        self.queue.push(at, tie, slot);
    }

    /// Appends an item to its node's waiting line and makes sure that the node will be woken.
    #[inline]
    pub(super) fn stand_in_line(&mut self, slot: u32) {
        let item = &mut self.items[slot as usize];
        item.next = NONE;
        let node = &mut self.nodes[item.node.index()];
        match node.tail {
            NONE => node.head = slot,
            tail => self.items[tail as usize].next = slot,
        }
        let node = &mut self.nodes[self.items[slot as usize].node.index()];
        node.tail = slot;
        if !node.awaken {
            self.awaken(self.items[slot as usize].node);
        }
    }

    /// Schedules a look at a node's waiting line for the end of its present event.
    pub(super) fn awaken(&mut self, node: NodeId) {
        let state = &mut self.nodes[node.index()];
        state.awaken = true;
        let at = state.free_at.max(self.now);
        self.queue.push(at, node.0, WAKE | node.0);
    }

    /// Returns the items that wait for a node, in order.
    pub(super) fn line(&self, node: NodeId) -> impl Iterator<Item = u32> {
        let mut at = self.nodes[node.index()].head;
        std::iter::from_fn(move || {
            let slot = (at != NONE).then_some(at)?;
            at = self.items[slot as usize].next;
            Some(slot)
        })
    }

    /// Removes an item from its node's waiting line.
    pub(super) fn leave_line(&mut self, slot: u32) {
        let node = self.items[slot as usize].node;
        let after = self.items[slot as usize].next;
        let before = self.line(node).take_while(|at| *at != slot).last();
        match before {
            Some(before) => self.items[before as usize].next = after,
            None => self.nodes[node.index()].head = after,
        }
        if after == NONE {
            self.nodes[node.index()].tail = before.unwrap_or(NONE);
        }
    }
}

impl<M> Item<M> {
    #[inline]
    pub(super) fn new(node: NodeId, kind: u16, what: What<M>) -> Self {
        Item { node, next: NONE, kind, dead: false, ready: 0, record: record::NONE, what }
    }
}

impl NodeState {
    pub(super) fn new(guarded: bool) -> Self {
        NodeState {
            status: Status::Up,
            guarded,
            awaken: false,
            changed: false,
            free_at: 0,
            head: NONE,
            tail: NONE,
            events: 0,
            drawn: 0,
            sent: 0,
            heavy: 0,
            rest: Box::default(),
        }
    }

    /// Returns the time that this node's clock shows.
    fn clock(&self, now: u64) -> u64 {
        let drift = i128::from(now) * i128::from(self.rest.drift_ppb) / 1_000_000_000;
        let shown = i128::from(now) + drift + i128::from(self.rest.skew);
        u64::try_from(shown.max(0)).unwrap_or(u64::MAX)
    }

    /// Converts a duration on this node's clock to simulated time.
    #[inline]
    fn really(&self, after: u64) -> u64 {
        if self.rest.drift_ppb == 0 {
            return after;
        }
        let scale = i128::from(1_000_000_000 + self.rest.drift_ppb);
        u64::try_from(i128::from(after) * 1_000_000_000 / scale).unwrap_or(u64::MAX)
    }
}

impl<M: Message> Env<M> {
    pub(super) fn new(model: Rc<Model<M>>, kinds: Kinds) -> Self {
        let mut state = State::new(kinds);
        state.monitors = model.monitors.clone();
        let (time_max, events_max) = (model.time_max, model.events_max);
        Env {
            model,
            draws: Rc::default(),
            state,
            failure: None,
            recorder: None,
            spawned: Vec::new(),
            halted: Vec::new(),
            in_monitor: None,
            time_max,
            events_max,
            kind_of_event: 0,
            effects: 0,
        }
    }

    /// Begins another execution, before the nodes start.
    pub(super) fn reset(&mut self, draws: Draws, guarded: &[bool]) {
        self.failure = None;
        self.spawned.clear();
        self.halted.clear();
        self.in_monitor = None;
        (self.time_max, self.events_max) = (self.model.time_max, self.model.events_max);
        let state = &mut self.state;
        state.clear(guarded.len());
        state.monitors.iter_mut().for_each(MonitorSlot::reset);
        state.kinds.start(&draws);
        state.seed = draws.seed;
        state.reseed = draws.next_reseed(0);
        state.flows = self.model.ways.fair.is_some().then(Flows::default);
        self.draws = Rc::new(draws);
        for (index, guarded) in guarded.iter().enumerate() {
            let node = node_id(index);
            self.state.nodes.push(NodeState::new(*guarded));
            self.set_clock(node);
            self.place(node, index);
        }
        self.apply_reseed();
        self.plan();
    }

    /// Determines the link rules that concern a node that exists from the start.
    fn place(&mut self, node: NodeId, index: usize) {
        let model = Rc::clone(&self.model);
        if let Some(info) = model.names.get(index) {
            self.place_kind(node, &info.kind);
        }
    }

    /// Determines the link rules that concern a node of this kind.
    pub(super) fn place_kind(&mut self, node: NodeId, kind: &str) {
        let links = &self.model.ways.links;
        let rest = &mut self.state.nodes[node.index()].rest;
        if links.is_bounded() {
            rest.room = Some(links.room(kind)).filter(|room| *room < u32::MAX);
        }
        if !links.is_empty() {
            (rest.sends, rest.takes) = links.of_node(kind);
        }
    }

    pub(super) fn set_clock(&mut self, node: NodeId) {
        let model = self.model.clock;
        let changed = !self.draws.changes.is_empty() && self.draws.has_event(node);
        let state = &mut self.state.nodes[node.index()];
        state.changed = changed;
        if model == super::ClockModel::default() {
            return;
        }
        let drawn = |index: u64, most: u64| {
            let both = below(draw(self.state.seed, Stream::Clock(node.0), index), 2 * most + 1);
            i64::try_from(both).unwrap_or(i64::MAX) - i64::try_from(most).unwrap_or(i64::MAX)
        };
        state.rest.skew = drawn(0, super::durations::nanoseconds(model.offset_max));
        state.rest.drift_ppb = drawn(1, u64::from(model.drift_max_ppm) * 1_000);
    }

    /// Schedules the starts, inputs and faults.
    fn plan(&mut self) {
        let model = Rc::clone(&self.model);
        let start = self.kind(Class::Other, "start");
        for index in 0..self.state.nodes.len() {
            let node = node_id(index);
            let at = model.driver.starts.iter().rev().find(|(late, _)| *late == node);
            let at = at.map_or(0, |(_, at)| *at);
            if at > 0 {
                self.state.nodes[index].status = Status::Down;
            }
            self.state.schedule(at, node, start, What::Start);
        }
        for (at, node, msg) in &model.driver.inputs {
            let kind = self.kind(Class::Message, everhold_node::fingerprint::kind(msg));
            self.state.schedule(*at, *node, kind, What::Input(msg.clone()));
        }
        let budget = super::fault::at_random(
            &model.faults,
            model.fault_times,
            &model.struck,
            self.state.seed,
        );
        for (at, fault) in model.driver.faults.iter().cloned().chain(budget) {
            self.state.schedule(at, NodeId(0), start, What::Fault(fault));
        }
    }

    /// Returns the number of a kind of event.
    #[inline]
    pub(super) fn kind(&mut self, class: Class, name: &'static str) -> u16 {
        match self.state.kinds.find(class, name) {
            Some(kind) => kind,
            None => {
                let transport = self.model.ways.transport(name);
                self.state.kinds.add(class, name, &self.model.durations, &self.draws, transport)
            }
        }
    }

    /// Advances to the next thing that a node or the world must handle.
    #[inline]
    pub(super) fn next(&mut self) -> Next<M> {
        loop {
            let Some((time, slot)) = self.state.queue.pop() else { return Next::Quiet };
            if time > self.time_max {
                self.state.queue.unpop();
                return Next::Late;
            }
            self.state.now = time;
            if slot & WAKE != 0 {
                match self.wake(NodeId(slot & !WAKE)) {
                    Some(next) => return next,
                    None => continue,
                }
            }
            if slot == NETWORK {
                self.share();
                continue;
            }
            match self.due(slot) {
                Some(next) => return next,
                None => continue,
            }
        }
    }

    /// Handles an item whose time has come.
    #[inline]
    fn due(&mut self, slot: u32) -> Option<Next<M>> {
        let item = &mut self.state.items[slot as usize];
        item.ready = self.state.now;
        match &item.what {
            What::Message(_) => {
                if !self.arrive(slot) {
                    return None;
                }
            }
            What::Timer(timer, setting) => {
                let armed = &self.state.nodes[item.node.index()].rest.timers;
                if !armed.iter().any(|a| a.setting == *setting && a.timer == *timer) {
                    self.state.take(slot);
                    return None;
                }
            }
            What::Departing(_) => {
                self.depart(slot);
                return None;
            }
            What::Fault(_) | What::Heal => return Some(Next::Upset(self.state.take(slot))),
            What::Start | What::Restart => {
                let node = &mut self.state.nodes[item.node.index()];
                if node.status == Status::Gone {
                    self.state.take(slot);
                    return None;
                }
                node.status = Status::Up;
            }
            What::Disconnected(_) if item.dead => {
                self.state.take(slot);
                return None;
            }
            What::Poll(_) | What::Input(_) | What::Disconnected(_) | What::Vacant => {}
        }
        let node = self.state.items[slot as usize].node;
        let state = &self.state.nodes[node.index()];
        if state.status != Status::Up {
            self.drop_item(slot);
            return None;
        }
        if state.free_at <= self.state.now && state.head == NONE && !state.guarded {
            return Some(self.begin(node, slot));
        }
        self.state.stand_in_line(slot);
        None
    }

    /// Handles the end of a node's event: takes the next item from its waiting line.
    fn wake(&mut self, node: NodeId) -> Option<Next<M>> {
        let state = &mut self.state.nodes[node.index()];
        state.awaken = false;
        if state.head == NONE || state.status != Status::Up {
            return None;
        }
        if state.free_at > self.state.now {
            self.state.awaken(node);
            return None;
        }
        if state.guarded {
            return Some(Next::Choose(node));
        }
        let slot = state.head;
        self.state.leave_line(slot);
        self.begin_waiting(node, slot)
    }

    /// Begins the event of an item that was taken out of a line.
    pub(super) fn begin_waiting(&mut self, node: NodeId, slot: u32) -> Option<Next<M>> {
        if let What::Timer(timer, setting) = self.state.items[slot as usize].what {
            let armed = &self.state.nodes[node.index()].rest.timers;
            if !armed.iter().any(|a| a.setting == setting && a.timer == timer) {
                self.state.take(slot);
                self.look_again(node);
                return None;
            }
        }
        Some(self.begin(node, slot))
    }

    /// Makes sure that a node with a waiting line is woken.
    #[inline]
    pub(super) fn look_again(&mut self, node: NodeId) {
        let state = &self.state.nodes[node.index()];
        if state.head != NONE && !state.awaken {
            self.state.awaken(node);
        }
    }

    #[inline]
    fn begin(&mut self, node: NodeId, slot: u32) -> Next<M> {
        let state = &mut self.state;
        if let Some((after, _)) = state.reseed
            && after == state.events
        {
            self.apply_reseed();
        }
        let state = &mut self.state;
        let item = &state.items[slot as usize];
        let (kind, ready, record) = (item.kind, item.ready, item.record);
        let at = &mut state.nodes[node.index()];
        let index = at.events;
        at.events += 1;
        state.events += 1;
        let drawn = draw(state.seed, Stream::Events(node.0), u64::from(index));
        let mut duration = state.kinds.duration(kind, drawn);
        if at.changed {
            duration = self.draws.duration(node, index, duration);
        }
        self.kind_of_event = kind;
        self.effects = 0;
        state.end = state.now + duration;
        state.delivered = None;
        let what = state.take(slot);
        match &what {
            What::Message(flight) => state.delivered = Some((flight.from, flight.sequence)),
            What::Timer(timer, _) => {
                state.nodes[node.index()].rest.timers.retain(|armed| armed.timer != *timer);
            }
            What::Poll(task) => state.nodes[node.index()].rest.polls.retain(|poll| poll != task),
            What::Disconnected(peer) => self.was_told(node, *peer),
            _ => {}
        }
        if self.recorder.is_some() {
            self.record_begin(node, kind, index, ready, record, &what);
        }
        Next::Run(node, what)
    }

    /// Counts an effect of a node; ends the execution if an event has too many.
    #[inline]
    pub(super) fn act(&mut self) {
        self.effects += 1;
        if self.effects > EFFECTS_MAX {
            too_much(format!("did more than {EFFECTS_MAX} things in one event"));
        }
    }

    #[cold]
    fn record_begin(
        &mut self,
        node: NodeId,
        kind: u16,
        index: u32,
        ready: u64,
        record: u32,
        what: &What<M>,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        let trigger = match what {
            What::Message(_) => Trigger::Message(record),
            What::Timer(..) => Trigger::Timer(record),
            What::Poll(_) => Trigger::Task,
            What::Input(_) => Trigger::Input,
            What::Restart => Trigger::Restart,
            What::Disconnected(peer) => Trigger::Disconnected(*peer),
            _ => Trigger::Start,
        };
        let (start, end) = (Time(self.state.now), Time(self.state.end));
        recorder.begin(Event { node, kind, index, trigger, ready: Time(ready), start, end });
    }

    /// Ends the present event.
    #[inline]
    pub(super) fn finish(&mut self, node: NodeId) {
        if self.model.disk.is_some() {
            self.state.end += self.disk_time(node);
            let state = &mut self.state.nodes[node.index()];
            state.rest.charged =
                state.rest.disk.as_ref().map_or(DiskUse::default(), |disk| disk.used());
        }
        let end = self.state.end;
        self.state.nodes[node.index()].free_at = end;
        if let Some(recorder) = &mut self.recorder {
            recorder.end(end);
        }
        self.look_again(node);
    }

    /// Returns the disk time charged to the present event so far.
    pub(super) fn disk_time(&self, node: NodeId) -> u64 {
        let state = &self.state.nodes[node.index()];
        let (Some((sync, rate)), Some(disk)) = (&self.model.disk, &state.rest.disk) else {
            return 0;
        };
        let (used, charged) = (disk.used(), state.rest.charged);
        let bytes = used.bytes.saturating_sub(charged.bytes);
        let syncs = (charged.syncs..used.syncs).map(|number| {
            let drawn = draw(self.state.seed, Stream::Disk(node.0), number);
            super::draw::look_up(sync, drawn)
        });
        let written = u128::from(bytes) * 1_000_000_000 / u128::from(*rate);
        let usual = syncs.sum::<u64>().saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        let (until, times) = state.rest.slow;
        if self.state.now < until { usual.saturating_mul(u64::from(times)) } else { usual }
    }

    /// Arms a timer of a node.
    pub(super) fn arm(&mut self, node: NodeId, timer: Timer, after: u64) {
        let kind = self.kind(Class::Timer, timer.name);
        let now = self.state.now;
        let state = &mut self.state.nodes[node.index()];
        state.rest.settings += 1;
        let setting = state.rest.settings;
        let due = now.saturating_add(state.really(after));
        match state.rest.timers.iter_mut().find(|armed| armed.timer == timer) {
            Some(armed) => armed.setting = setting,
            None => state.rest.timers.push(Armed { timer, setting }),
        }
        let tie = draw(self.state.seed, Stream::Timers(node.0), u64::from(setting)) as u32;
        let mut item = Item::new(node, kind, What::Timer(timer, setting));
        if let Some(recorder) = &mut self.recorder {
            let by = recorder.current();
            let (set, due) = (Time(now), Time(due));
            recorder.timers.push(record::TimerSet { node, timer, by, set, due, fired: None });
            item.record = recorder.timers.len() as u32 - 1;
        }
        let slot = self.state.put(item);
        self.state.queue.push(due, tie, slot);
    }

    pub(super) fn clock(&self, node: NodeId) -> u64 {
        self.state.nodes[node.index()].clock(self.state.now)
    }

    /// Changes the seed and finds the next change.
    pub(super) fn apply_reseed(&mut self) {
        while let Some((after, seed)) = self.state.reseed
            && after == self.state.events
        {
            self.state.seed = seed;
            self.state.reseed = self.draws.next_reseed(after + 1);
        }
    }

    pub(super) fn drop_item(&mut self, slot: u32) {
        let record = self.state.items[slot as usize].record;
        let what = self.state.take(slot);
        if let (What::Message(_) | What::Departing(_), Some(recorder)) = (what, &mut self.recorder)
        {
            recorder.lost(record);
        }
    }

    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.state.nodes.get(node.index()).is_some_and(|n| n.status == Status::Up)
    }

    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        self.state.nodes.get(node.index()).is_some_and(|n| n.status == Status::Gone)
    }

    pub(crate) fn places(&self) -> usize {
        self.state.items.len()
    }

    pub(crate) fn flight(&self, place: usize) -> Option<(NodeId, NodeId, &M)> {
        let item = &self.state.items[place];
        match &item.what {
            What::Message(flight) | What::Departing(flight) => {
                Some((flight.from, item.node, &flight.msg))
            }
            _ => None,
        }
    }

    pub(crate) fn sent(&self, node: NodeId) -> u32 {
        self.state.nodes[node.index()].sent
    }

    pub(crate) fn delivered(&self) -> Option<(NodeId, u32)> {
        self.state.delivered
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.state.now
    }
}
