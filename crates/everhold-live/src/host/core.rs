//! The runtime of hosted nodes.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use everhold_node::fingerprint::{kind, mix};
use everhold_node::{Blueprint, Disk, Message, NodeId, Runtime, Tag, Time, Timer, Weights};
use everhold_trace::wire::What;

use super::view::Channels;
use crate::probe::{Envelope, Probe};
use crate::report::Report;

/// The bit in the number of a spawned node, which otherwise has the number of its parent.
const SPAWNED: u32 = 1 << 30;
const PARENT_SHIFT: u32 = 20;
/// The lowest number of clients.
pub(super) const CLIENTS: u32 = 1 << 31;

/// Returns the node that spawned this one, if it was spawned.
pub(super) fn parent_of(node: NodeId) -> Option<NodeId> {
    let spawned = node.0 & (SPAWNED | CLIENTS) == SPAWNED;
    spawned.then_some(NodeId((node.0 & (SPAWNED - 1)) >> PARENT_SHIFT))
}

/// The state of a loop that its nodes access through their contexts.
pub(super) struct Core<M> {
    pub(super) me: NodeId,
    pub(super) probe: Probe,
    pub(super) report: Report,
    pub(super) seed: u64,
    pub(super) incarnation: u64,
    pub(super) locals: BTreeMap<NodeId, Local>,
    pub(super) timers: BTreeMap<(NodeId, Timer), Instant>,
    /// Messages sent during the present event, which leave at its end.
    pub(super) outbox: Vec<Outgoing<M>>,
    pub(super) spawned: Vec<(NodeId, Blueprint<M>)>,
    pub(super) halted: Vec<NodeId>,
    pub(super) channels: Channels,
    began: Instant,
    began_at: Time,
}

/// The state of one node of a loop.
#[derive(Default)]
pub(super) struct Local {
    pub(super) disk: Disk,
    drawn: u32,
}

pub(super) struct Outgoing<M> {
    pub(super) envelope: Envelope,
    pub(super) to: NodeId,
    pub(super) tag: Tag,
    pub(super) msg: M,
}

impl<M> Core<M> {
    pub(super) fn new(
        me: NodeId,
        probe: Probe,
        report: Report,
        seed: u64,
        incarnation: u64,
        first_message: u64,
        disk: Disk,
    ) -> Core<M> {
        Core {
            me,
            probe,
            report,
            seed,
            incarnation,
            locals: BTreeMap::from([(me, Local { disk, drawn: 0 })]),
            timers: BTreeMap::new(),
            outbox: Vec::new(),
            spawned: Vec::new(),
            halted: Vec::new(),
            channels: Channels { next: first_message, ..Channels::default() },
            began: Instant::now(),
            began_at: Time(crate::time::micros().saturating_mul(1_000)),
        }
    }

    /// Returns the earliest timer with its deadline and node.
    pub(super) fn next_timer(&self) -> Option<(Instant, NodeId, Timer)> {
        let earliest = self.timers.iter().min_by_key(|(_, deadline)| **deadline);
        earliest.map(|((node, timer), deadline)| (*deadline, *node, *timer))
    }

    /// Removes a node that left.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.locals.remove(&node);
        self.timers.retain(|(owner, _), _| *owner != node);
    }

    fn local(&mut self, node: NodeId) -> &mut Local {
        self.locals.entry(node).or_default()
    }
}

impl<M: Message> Core<M> {
    /// Records an answer to `choose`, in the form that a replay reads.
    fn note_choice(&mut self, node: NodeId, label: &str, domain: u32, value: u32) {
        if self.is_recorded() {
            self.note(node, format!("{label}: {value} of {domain}"));
        }
    }
}

impl<M: Message> Runtime<M> for Core<M> {
    fn now(&self, _: NodeId) -> Time {
        // The wall clock at the start, continued with the monotonic clock.
        self.began_at + self.began.elapsed()
    }

    fn send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) {
        let label = self.probe.var(kind(&msg));
        let mut envelope = self.probe.send(Some(to), label);
        envelope.sender = from;
        self.channels.sent(to, envelope.seq);
        self.outbox.push(Outgoing { envelope, to, tag, msg });
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Duration) {
        self.timers.insert((node, timer), Instant::now() + after);
    }

    fn cancel_timer(&mut self, node: NodeId, timer: Timer) -> bool {
        self.timers.remove(&(node, timer)).is_some()
    }

    /// Draws from the same stream as the explorer does in a node's first life, so that a replay
    /// needs only the seed; the explorer counts lives from 0.
    fn random(&mut self, node: NodeId) -> u64 {
        let (seed, incarnation) = (self.seed, self.incarnation);
        let local = self.local(node);
        local.drawn += 1;
        let life = incarnation.wrapping_sub(1) & 0xffff_ffff;
        let stream = mix(seed, (u64::from(node.0) << 32) | life);
        mix(stream, u64::from(local.drawn))
    }

    fn choose(&mut self, node: NodeId, label: &'static str, domain: u32) -> u32 {
        if domain == 1 {
            return 0;
        }
        // The low bits of a good mixer are as random as any; a bias of 2^-32 does not matter here.
        let value = (self.random(node) % u64::from(domain)) as u32;
        self.note_choice(node, label, domain, value);
        value
    }

    fn choose_weighted(&mut self, node: NodeId, label: &'static str, weights: Weights<'_>) -> u32 {
        if let Some(only) = weights.only() {
            return only;
        }
        let ticket = (self.random(node) % u64::from(weights.total())) as u32;
        let option = weights.option_with(ticket);
        self.note_choice(node, label, weights.options(), option);
        option
    }

    fn incarnation(&self, _: NodeId) -> u64 {
        self.incarnation
    }

    fn disk(&mut self, node: NodeId) -> &mut Disk {
        &mut self.local(node).disk
    }

    fn notify(&mut self, node: NodeId, _: &dyn Any, shown: &dyn Debug) {
        if self.is_recorded() {
            self.note(node, format!("notifies {shown:?}"));
        }
    }

    fn spawn(&mut self, parent: NodeId, _: &str, blueprint: Blueprint<M>) -> NodeId {
        let taken = self.locals.len() as u32;
        let parent = parent_of(parent).unwrap_or(parent);
        let id = NodeId(SPAWNED | parent.0 << PARENT_SHIFT | taken);
        self.locals.insert(id, Local::default());
        self.spawned.push((id, blueprint));
        id
    }

    fn halt(&mut self, node: NodeId) {
        self.halted.push(node);
    }

    /// In production, an assertion that fails is reported, and the service continues.
    fn fail(&mut self, node: NodeId, assertion: &str, message: String) {
        let text = format!("{node}: \"{assertion}\" does not hold: {message}");
        self.report.tell(&text);
        self.note(node, text);
    }

    fn is_recorded(&self) -> bool {
        self.probe.is_watched()
    }

    fn note(&mut self, node: NodeId, text: String) {
        if node == self.me {
            self.probe.record(What::Note(text));
        }
    }
}
