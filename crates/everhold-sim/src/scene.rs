//! The view that properties have of nodes and network, whichever engine runs the nodes.

use std::fmt;

use everhold_node::{Message, NodeId, Process};

use crate::env::{Env, Status};
use crate::system::Clocks;
use crate::world::Slot;

/// Nodes and network at one moment of an execution, as an engine other than the explorer holds
/// them.
pub trait Stage<M: Message> {
    /// The number of nodes, including those that are gone.
    fn nodes(&self) -> usize;
    /// A node, whether it is up or not.
    fn process(&self, index: usize) -> Option<&dyn Process<M>>;
    /// Whether a node is up.
    fn is_up(&self, node: NodeId) -> bool;
    /// The number of places in which a message may be under way.
    fn places(&self) -> usize;
    /// The message in a place: sender, receiver, content.
    fn flight(&self, place: usize) -> Option<(NodeId, NodeId, &M)>;
    /// The number of messages that a node has sent.
    fn sent(&self, node: NodeId) -> u32;
    /// The message that the present step delivers: sender, and number among its messages.
    fn delivered(&self) -> Option<(NodeId, u32)>;
    /// The time by which properties judge bounds, in nanoseconds.
    fn now(&self) -> u64;
}

/// Nodes and network at one moment of an execution.
pub struct Scene<'a, M: Message>(Held<'a, M>);

impl<M: Message> Clone for Scene<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Message> Copy for Scene<'_, M> {}

enum Held<'a, M: Message> {
    /// An execution under a strategy.
    Explored(&'a [Slot<M>], &'a Env<M>),
    /// An execution of another engine.
    Elsewhere(&'a dyn Stage<M>),
}

impl<M: Message> Clone for Held<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Message> Copy for Held<'_, M> {}

impl<M: Message> fmt::Debug for Scene<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scene").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}

impl<'a, M: Message> Scene<'a, M> {
    /// A moment of another engine's execution.
    #[must_use]
    pub fn of(stage: &'a dyn Stage<M>) -> Self {
        Scene(Held::Elsewhere(stage))
    }

    pub(crate) fn explored(slots: &'a [Slot<M>], env: &'a Env<M>) -> Self {
        Scene(Held::Explored(slots, env))
    }

    #[inline]
    pub(crate) fn nodes(self) -> usize {
        match self.0 {
            Held::Explored(slots, _) => slots.len(),
            Held::Elsewhere(stage) => stage.nodes(),
        }
    }

    #[inline]
    pub(crate) fn process(self, index: usize) -> Option<&'a dyn Process<M>> {
        match self.0 {
            Held::Explored(slots, _) => slots.get(index).map(|slot| &*slot.process),
            Held::Elsewhere(stage) => stage.process(index),
        }
    }

    #[inline]
    pub(crate) fn is_up(self, node: NodeId) -> bool {
        match self.0 {
            Held::Explored(_, env) => {
                env.state.nodes.get(node.index()).is_some_and(|n| n.status == Status::Up)
            }
            Held::Elsewhere(stage) => stage.is_up(node),
        }
    }

    /// The number of places in which a message may be under way.
    pub(crate) fn places(self) -> usize {
        match self.0 {
            Held::Explored(_, env) => env.state.flights.len(),
            Held::Elsewhere(stage) => stage.places(),
        }
    }

    /// The message in a place: sender, receiver, content.
    pub(crate) fn flight(self, place: usize) -> Option<(NodeId, NodeId, &'a M)> {
        match self.0 {
            Held::Explored(_, env) => {
                let flight = &env.state.flights[place];
                Some((flight.from, flight.to, flight.msg.as_ref()?))
            }
            Held::Elsewhere(stage) => stage.flight(place),
        }
    }

    /// The number of messages that a node has sent.
    pub(crate) fn sent(self, node: NodeId) -> u32 {
        match self.0 {
            Held::Explored(_, env) => env.state.sent(node),
            Held::Elsewhere(stage) => stage.sent(node),
        }
    }

    /// The message that the present step delivers: sender, and number among its messages.
    pub(crate) fn delivered(self) -> Option<(NodeId, u32)> {
        match self.0 {
            Held::Explored(_, env) => env.delivered,
            Held::Elsewhere(stage) => stage.delivered(),
        }
    }

    /// The time by which properties judge bounds, in nanoseconds.
    pub(crate) fn now(self, node: NodeId) -> u64 {
        match self.0 {
            Held::Explored(_, env) => match env.rules.clocks {
                Clocks::Shared | Clocks::Drift { .. } => env.state.clock(node),
                Clocks::Independent => 0,
            },
            Held::Elsewhere(stage) => stage.now(),
        }
    }
}
