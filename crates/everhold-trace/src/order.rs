//! Happens-before: vector clocks rebuilt from message identity, and what follows from them.
//!
//! A *local state* of a node is named by the number of its events that have happened: 0 before the
//! first, its number of events at the end. A *cut* is one such count a node.
//!
//! ```
//! use everhold_trace::{EventKind, Order, TraceBuilder};
//!
//! let mut trace = TraceBuilder::new();
//! let (a, b) = (trace.add_node("a", ""), trace.add_node("b", ""));
//! let sent = trace.begin(a, EventKind::Start);
//! let message = trace.send(b, "", None);
//! let other = trace.begin(b, EventKind::Start);
//! let received = trace.begin(b, EventKind::Deliver { message });
//! let execution = trace.finish();
//!
//! let order = Order::of(&execution);
//! assert_eq!(order.clock(b, 2), [1, 2]);
//! assert!(order.happens_before(sent, received));
//! assert!(order.is_concurrent(sent, other));
//! assert!(order.is_consistent(&[1, 1]) && !order.is_consistent(&[0, 2]));
//! ```

use crate::NodeId;
use crate::event::EventId;
use crate::trace::{Execution, Fate, Problem, ProblemKind};

/// One delivery: the sender's state at the send and the receiver's after the receive.
///
/// These are the pairs of Dinv's *send-receive* grouping, and the scope `on delivery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    /// The sender.
    pub from: NodeId,
    /// The number of its events up to and including the send.
    pub sent: u32,
    /// The receiver.
    pub to: NodeId,
    /// The number of its events up to and including the receive.
    pub received: u32,
    /// False for a second copy of a message that the receiver already has.
    pub first: bool,
    /// The place of the message in [`Execution::messages`].
    pub message: u32,
}

/// A message that was sent, was not lost, and had not arrived when the recording ended.
///
/// It is in flight from its send to the end of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Undelivered {
    /// The sender.
    pub from: NodeId,
    /// The number of its events up to and including the send.
    pub sent: u32,
    /// The receiver; `None` for a broadcast, which is in flight to every other node.
    pub to: Option<NodeId>,
    /// The place of the message in [`Execution::messages`].
    pub message: u32,
}

impl Undelivered {
    /// Whether the message is on its way to this node.
    #[must_use]
    pub fn flies_to(&self, node: NodeId) -> bool {
        self.to.map_or(node != self.from, |to| to == node)
    }
}

/// The happens-before order of an execution.
///
/// Takes 4 bytes for each pair of a node and an event: 400 MB for 100 nodes and a million events.
#[derive(Clone, Debug)]
pub struct Order {
    nodes: usize,
    /// For each node the clocks of its states, one row of `nodes` counts a state.
    clocks: Vec<Vec<u32>>,
    /// Node and count of each event.
    places: Vec<(NodeId, u32)>,
    /// By receiver and receive.
    deliveries: Vec<Delivery>,
    /// By sender and send.
    undelivered: Vec<Undelivered>,
}

impl Order {
    /// Rebuilds the order from each node's own order and the identities of messages.
    #[must_use]
    pub fn of(execution: &Execution) -> Order {
        let nodes = execution.nodes().len();
        let place = |(event, e): (usize, &crate::Event)| {
            let id = EventId(u32::try_from(event).expect("event ids are 32 bits"));
            (e.node, count(execution.index_in_node(id) + 1))
        };
        let places: Vec<_> = execution.events().iter().enumerate().map(place).collect();
        let deliveries = deliveries(execution, &places);
        let clocks = clocks(execution, &places, &deliveries);
        let undelivered = undelivered(execution, &places);
        Order { nodes, clocks, places, deliveries, undelivered }
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The ids of the nodes.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..count(self.nodes)).map(NodeId)
    }

    /// The number of events of a node, which is the name of its last state.
    #[must_use]
    pub fn events_of(&self, node: NodeId) -> u32 {
        count(self.clocks[node.index()].len() / self.nodes - 1)
    }

    /// The vector clock of a local state: how many events of each node it has in its past.
    ///
    /// It is also the least consistent cut in which the node is in that state.
    #[must_use]
    pub fn clock(&self, node: NodeId, state: u32) -> &[u32] {
        let row = state as usize * self.nodes;
        &self.clocks[node.index()][row..row + self.nodes]
    }

    /// All clocks of a node, one row a state, from state 0.
    pub(crate) fn rows(&self, node: NodeId) -> &[u32] {
        &self.clocks[node.index()]
    }

    /// The node of an event, and the node's state after it.
    #[must_use]
    pub fn place(&self, event: EventId) -> (NodeId, u32) {
        self.places[event.index()]
    }

    /// Whether `a` may have influenced `b`; false for an event and itself.
    #[must_use]
    pub fn happens_before(&self, a: EventId, b: EventId) -> bool {
        let ((p, i), (q, j)) = (self.place(a), self.place(b));
        a != b && self.clock(q, j)[p.index()] >= i
    }

    /// Whether neither of two different events happens before the other.
    #[must_use]
    pub fn is_concurrent(&self, a: EventId, b: EventId) -> bool {
        a != b && !self.happens_before(a, b) && !self.happens_before(b, a)
    }

    /// Whether the counts form a consistent cut: no event without its causes.
    #[must_use]
    pub fn is_consistent(&self, cut: &[u32]) -> bool {
        debug_assert_eq!(cut.len(), self.nodes, "a cut has one count a node");
        let within = |node: NodeId| {
            cut[node.index()] <= self.events_of(node)
                && self
                    .clock(node, cut[node.index()])
                    .iter()
                    .zip(cut)
                    .all(|(need, has)| need <= has)
        };
        self.node_ids().all(within)
    }

    /// Whether two local states can hold at one time.
    #[must_use]
    pub fn is_compatible(&self, (p, i): (NodeId, u32), (q, j): (NodeId, u32)) -> bool {
        self.clock(p, i)[q.index()] <= j && self.clock(q, j)[p.index()] <= i
    }

    /// The least consistent cut that has these local states, if any cut has all of them.
    ///
    /// Pairwise compatible states always meet in one: the join of their clocks.
    #[must_use]
    pub fn cut_with(&self, states: &[(NodeId, u32)]) -> Option<Vec<u32>> {
        let mut cut = vec![0; self.nodes];
        for &(node, state) in states {
            join(&mut cut, self.clock(node, state));
        }
        states.iter().all(|(node, state)| cut[node.index()] == *state).then_some(cut)
    }

    /// The messages in flight at a cut: sent in it, not received in it, and not lost. Each is given
    /// by its sender and its receiver. A message that had not arrived when the recording ended is in
    /// flight from its send on.
    pub fn in_flight<'a>(&'a self, cut: &'a [u32]) -> impl Iterator<Item = (NodeId, NodeId)> + 'a {
        let flies = |d: &&Delivery| {
            d.first && d.sent <= cut[d.from.index()] && d.received > cut[d.to.index()]
        };
        let sent = |m: &&Undelivered| m.sent <= cut[m.from.index()];
        let never = self.undelivered.iter().filter(sent).flat_map(|message| {
            let receivers = self.node_ids().filter(|node| message.flies_to(*node));
            receivers.map(|to| (message.from, to))
        });
        self.deliveries.iter().filter(flies).map(|d| (d.from, d.to)).chain(never)
    }

    /// The messages that had not arrived when the recording ended and were not lost, by sender and
    /// send.
    #[must_use]
    pub fn undelivered(&self) -> &[Undelivered] {
        &self.undelivered
    }

    /// Every delivery, by receiver and receive.
    #[must_use]
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// The deliveries to one node, in its order.
    #[must_use]
    pub fn deliveries_to(&self, node: NodeId) -> &[Delivery] {
        let begin = self.deliveries.partition_point(|d| d.to < node);
        let end = self.deliveries.partition_point(|d| d.to <= node);
        &self.deliveries[begin..end]
    }

    /// For each delivery the causal chain that ends with it: Dinv's *total order* grouping.
    ///
    /// A chain goes back from a delivery to its send, from there to the last message that the
    /// sender had received by then, and so on over distinct nodes, at most `nodes_max` of them.
    /// It lists each node with its state when it passed the message on, and the last receiver
    /// with its state after the receive.
    pub fn chains(&self, nodes_max: usize) -> impl Iterator<Item = Vec<(NodeId, u32)>> {
        self.deliveries.iter().map(move |last| self.chain(last, nodes_max))
    }

    fn chain(&self, last: &Delivery, nodes_max: usize) -> Vec<(NodeId, u32)> {
        let mut chain = vec![(last.to, last.received)];
        let mut link = Some(last);
        while let Some(delivery) = link {
            let passed_before = chain.iter().any(|(node, _)| *node == delivery.from);
            if passed_before || chain.len() >= nodes_max {
                break;
            }
            chain.push((delivery.from, delivery.sent));
            let received = self.deliveries_to(delivery.from);
            link = received[..received.partition_point(|d| d.received <= delivery.sent)].last();
        }
        chain.reverse();
        chain
    }

    /// Where the clocks that the log claims are not the rebuilt ones. One problem an event: the
    /// first entry that differs.
    #[must_use]
    pub fn check_clocks(&self, execution: &Execution) -> Vec<(EventId, Problem)> {
        let mut problems = Vec::new();
        for (event, &(node, state)) in self.places.iter().enumerate() {
            let id = EventId(count(event));
            let Some(logged) = &execution.event(id).clock else { continue };
            let rebuilt = self.clock(node, state);
            let differs = execution.node_ids().find_map(|entry| {
                let logged = logged.get(&entry).copied().unwrap_or(0);
                let rebuilt = u64::from(rebuilt[entry.index()]);
                (logged != rebuilt).then(|| ProblemKind::ClockMismatch {
                    entry: execution.node(entry).name.clone(),
                    logged,
                    rebuilt,
                })
            });
            let node = execution.node(node).name.clone();
            problems.extend(differs.map(|kind| (id, Problem { line: None, node, kind })));
        }
        problems
    }
}

/// The componentwise maximum.
pub(crate) fn join(into: &mut [u32], other: &[u32]) {
    for (a, b) in into.iter_mut().zip(other) {
        *a = (*a).max(*b);
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("event ids are 32 bits")
}

fn deliveries(execution: &Execution, places: &[(NodeId, u32)]) -> Vec<Delivery> {
    let mut deliveries = Vec::with_capacity(execution.messages().len());
    for (at, message) in execution.messages().iter().enumerate() {
        // A message without a send is a hole in the log: there is nothing to tie it to.
        let Some(send) = message.sent else { continue };
        let (from, sent) = places[send.index()];
        let earlier = deliveries.len();
        for receive in &message.delivered {
            let (to, received) = places[receive.index()];
            let first = deliveries[earlier..].iter().all(|d: &Delivery| d.to != to);
            deliveries.push(Delivery { from, sent, to, received, first, message: count(at) });
        }
    }
    deliveries.sort_unstable_by_key(|d| (d.to, d.received, d.from, d.sent, d.message));
    deliveries
}

fn undelivered(execution: &Execution, places: &[(NodeId, u32)]) -> Vec<Undelivered> {
    let mut found: Vec<Undelivered> = Vec::new();
    for (at, message) in execution.messages().iter().enumerate() {
        let Some(send) = message.sent.filter(|_| message.fate() == Fate::InFlight) else {
            continue;
        };
        let (from, sent) = places[send.index()];
        let to = execution.send_of(message).and_then(|send| send.to);
        found.push(Undelivered { from, sent, to, message: count(at) });
    }
    found.sort_unstable();
    found
}

fn clocks(
    execution: &Execution,
    places: &[(NodeId, u32)],
    deliveries: &[Delivery],
) -> Vec<Vec<u32>> {
    let nodes = execution.nodes().len();
    let states = |node| execution.events_of(node).len() + 1;
    let mut clocks: Vec<Vec<u32>> =
        execution.node_ids().map(|node| vec![0; states(node) * nodes]).collect();
    // Each node's deliveries are used up in its order, so one position a node is enough.
    let mut next: Vec<usize> = execution
        .node_ids()
        .map(|node| deliveries.partition_point(|delivery| delivery.to < node))
        .collect();
    for &(node, state) in places {
        let mut own = std::mem::take(&mut clocks[node.index()]);
        let row = state as usize * nodes;
        own.copy_within(row - nodes..row, row);
        let clock = &mut own[row..row + nodes];
        let at = &mut next[node.index()];
        while let Some(d) = deliveries.get(*at).filter(|d| d.to == node && d.received == state) {
            // A message to itself says nothing new; its clocks are taken out just now.
            if d.from != node {
                let sent = d.sent as usize * nodes;
                join(clock, &clocks[d.from.index()][sent..sent + nodes]);
            }
            *at += 1;
        }
        clock[node.index()] = state;
        clocks[node.index()] = own;
    }
    clocks
}
