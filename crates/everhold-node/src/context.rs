//! The context of a handler: everything that it may do besides computing.

use std::any::Any;
use std::fmt::{self, Debug};
use std::future::Future;
use std::time::Duration;

use everhold_trace::NodeId;

use crate::disk::Disk;
use crate::node::{Message, Node};
use crate::process::Blueprint;
use crate::random::Random;
use crate::runtime::{Runtime, Tag, Ticket};
use crate::task::AsyncCx;
use crate::timer::{Time, Timer};
use crate::weights::Weights;

/// A handler's door to the world. Everything that is not a function of the node's state comes
/// through here, which is what makes an execution replay.
pub struct Cx<'a, M> {
    runtime: &'a mut dyn Runtime<M>,
    node: NodeId,
    request: Option<(NodeId, Tag)>,
}

impl<M> Debug for Cx<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("node", &self.node).finish_non_exhaustive()
    }
}

impl<'a, M: Message> Cx<'a, M> {
    /// A context for one event of `node`; `request` is the message's sender and tag, if any.
    pub fn new(
        runtime: &'a mut dyn Runtime<M>,
        node: NodeId,
        request: Option<(NodeId, Tag)>,
    ) -> Self {
        Cx { runtime, node, request }
    }

    /// This node.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.node
    }

    /// The time on this node's clock. Clocks of different nodes need not agree.
    #[must_use]
    pub fn now(&self) -> Time {
        self.runtime.now(self.node)
    }

    /// Sends a message. Whether, when and how often it arrives is up to the network.
    pub fn send(&mut self, to: NodeId, msg: M) {
        self.runtime.send(self.node, to, Tag::None, msg);
    }

    /// Sends a message if the send buffer has room for it. [`send`](Cx::send) drops a message that
    /// finds the buffer full, without a word.
    ///
    /// # Errors
    ///
    /// The message, if there is no room.
    pub fn try_send(&mut self, to: NodeId, msg: M) -> Result<(), M> {
        self.runtime.try_send(self.node, to, Tag::None, msg)
    }

    /// Answers the message that is being handled.
    ///
    /// # Panics
    ///
    /// If no message is being handled, as in a timer: keep a [`ticket`](Cx::ticket) instead.
    pub fn reply(&mut self, msg: M) {
        let ticket = self.ticket();
        self.answer(ticket, msg);
    }

    /// The right to answer the message that is being handled, at a later event.
    ///
    /// # Panics
    ///
    /// If no message is being handled.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        let (to, tag) = self.request.expect("a reply needs a message that is being handled");
        Ticket { to, tag }
    }

    /// Answers a request whose ticket was kept.
    pub fn answer(&mut self, ticket: Ticket, msg: M) {
        self.runtime.send(self.node, ticket.to, reply_tag(ticket.tag), msg);
    }

    /// Fires `timer` once, about `after` from now; set it again from its handler for a period.
    pub fn set_timer(&mut self, timer: impl Into<Timer>, after: Duration) {
        self.runtime.set_timer(self.node, timer.into(), after);
    }

    /// Takes a timer back; false if it was not set. A cancelled timer does not fire.
    pub fn cancel_timer(&mut self, timer: impl Into<Timer>) -> bool {
        self.runtime.cancel_timer(self.node, timer.into())
    }

    /// A number from this node's seeded stream. Replays, but is not explored: a strategy does not
    /// know about it. For a decision worth exploring use [`choose`](Cx::choose).
    pub fn random(&mut self) -> u64 {
        self.runtime.random(self.node)
    }

    /// A source of random numbers for crates that take one, seeded from this node's stream.
    #[must_use]
    pub fn rng(&mut self) -> Random {
        Random::seeded(self.random())
    }

    /// One of `domain` possibilities, decided by the strategy, recorded and shrunk towards zero.
    ///
    /// # Panics
    ///
    /// If `domain` is zero.
    pub fn choose(&mut self, label: &'static str, domain: usize) -> usize {
        choose(self.runtime, self.node, label, domain)
    }

    /// One of as many options as there are weights, decided by the strategy, recorded and shrunk
    /// towards zero. Where the strategy decides by chance, an option with twice the weight comes
    /// twice as often; an exhaustive search takes each in turn. Weight 0 means never.
    ///
    /// ```
    /// # use everhold_node::Cx;
    /// # fn message(cx: &mut Cx<u32>) {
    /// let size = match cx.choose_weighted("size of the write", &[90, 9, 1]) {
    ///     0 => 16,
    ///     1 => 4_096,
    ///     _ => 1_048_576,
    /// };
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If no weight is above 0, or if they add up to 2^32 or more.
    pub fn choose_weighted(&mut self, label: &'static str, weights: &[u32]) -> usize {
        self.runtime.choose_weighted(self.node, label, Weights::new(label, weights)) as usize
    }

    /// A coin of the strategy; shrinks towards `false`.
    pub fn flip(&mut self, label: &'static str) -> bool {
        self.choose(label, 2) == 1
    }

    /// This node's disk. What was not [synced](Disk::sync) may be lost at a crash.
    pub fn disk(&mut self) -> &mut Disk {
        self.runtime.disk(self.node)
    }

    /// Tells the monitors that listen to events of this type.
    pub fn notify<E: Any + Debug>(&mut self, event: E) {
        self.runtime.notify(self.node, &event, &event);
    }

    /// Adds a node with handlers to the system.
    pub fn spawn<N: Node<Msg = M> + Clone>(&mut self, kind: &str, node: N) -> NodeId {
        self.runtime.spawn(self.node, kind, Blueprint::copy_of(node))
    }

    /// Adds an async node to the system.
    pub fn spawn_async<F, Fut>(&mut self, kind: &str, program: F) -> NodeId
    where
        F: Fn(AsyncCx<M>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.runtime.spawn(self.node, kind, Blueprint::program(program))
    }

    /// Leaves the system for good at the end of this event; messages to this node are lost.
    pub fn halt(&mut self) {
        self.runtime.halt(self.node);
    }

    /// Reports a named assertion that does not hold; the execution ends after this event.
    ///
    /// `assert!` works as well; this one has a name that survives changes of the text.
    pub fn check(&mut self, holds: bool, assertion: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.runtime.fail(self.node, assertion, message());
        }
    }

    /// Reports a message that this node must never receive in its present state.
    pub fn unexpected(&mut self, msg: M) {
        self.runtime.fail(self.node, "no unexpected message", format!("received {msg:?}"));
    }

    /// Adds a line to the record of this event; `text` runs only when the execution is recorded.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.runtime.is_recorded() {
            self.runtime.note(self.node, text());
        }
    }
}

pub(crate) fn choose<M>(
    runtime: &mut dyn Runtime<M>,
    node: NodeId,
    label: &'static str,
    domain: usize,
) -> usize {
    assert!(domain > 0, "choose(\"{label}\") needs at least one possibility");
    let domain = u32::try_from(domain).expect("a choice has fewer than 2^32 possibilities");
    runtime.choose(node, label, domain) as usize
}

pub(crate) fn reply_tag(request: Tag) -> Tag {
    match request {
        Tag::Request(number) => Tag::Reply(number),
        Tag::None | Tag::Reply(_) => Tag::None,
    }
}
