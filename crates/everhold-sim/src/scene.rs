//! What properties look at, whoever runs the nodes: a strategy or a virtual clock.

use everhold_node::{Message, NodeId, Process};

use crate::env::{Env, Status};
use crate::system::Clocks;
use crate::timed;
use crate::world::Slot;

/// Nodes and network at one moment of an execution.
pub(crate) enum Scene<'a, M: Message> {
    /// Under a strategy.
    Explored(&'a [Slot<M>], &'a Env<M>),
    /// On a virtual clock.
    Timed(&'a [timed::Slot<M>], &'a timed::Env<M>),
}

impl<M: Message> Clone for Scene<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Message> Copy for Scene<'_, M> {}

impl<'a, M: Message> Scene<'a, M> {
    #[inline]
    pub(crate) fn nodes(self) -> usize {
        match self {
            Scene::Explored(slots, _) => slots.len(),
            Scene::Timed(slots, _) => slots.len(),
        }
    }

    #[inline]
    pub(crate) fn process(self, index: usize) -> Option<&'a dyn Process<M>> {
        match self {
            Scene::Explored(slots, _) => slots.get(index).map(|slot| &*slot.process),
            Scene::Timed(slots, _) => slots.get(index).map(|slot| &*slot.process),
        }
    }

    #[inline]
    pub(crate) fn is_up(self, node: NodeId) -> bool {
        match self {
            Scene::Explored(_, env) => {
                env.state.nodes.get(node.index()).is_some_and(|n| n.status == Status::Up)
            }
            Scene::Timed(_, env) => env.is_up(node),
        }
    }

    /// Whether a node left for ever.
    pub(crate) fn is_gone(self, node: NodeId) -> bool {
        match self {
            Scene::Explored(_, env) => {
                env.state.nodes.get(node.index()).is_some_and(|n| n.status == Status::Gone)
            }
            Scene::Timed(_, env) => env.is_gone(node),
        }
    }

    /// Places in which a message may be under way.
    pub(crate) fn places(self) -> usize {
        match self {
            Scene::Explored(_, env) => env.state.flights.len(),
            Scene::Timed(_, env) => env.places(),
        }
    }

    /// The message in a place: sender, receiver, content.
    pub(crate) fn flight(self, place: usize) -> Option<(NodeId, NodeId, &'a M)> {
        match self {
            Scene::Explored(_, env) => {
                let flight = &env.state.flights[place];
                Some((flight.from, flight.to, flight.msg.as_ref()?))
            }
            Scene::Timed(_, env) => env.flight(place),
        }
    }

    /// How many messages a node has sent.
    pub(crate) fn sent(self, node: NodeId) -> u32 {
        match self {
            Scene::Explored(_, env) => env.state.sent(node),
            Scene::Timed(_, env) => env.sent(node),
        }
    }

    /// The message that the present step delivers: sender, and number among its messages.
    pub(crate) fn delivered(self) -> Option<(NodeId, u32)> {
        match self {
            Scene::Explored(_, env) => env.delivered,
            Scene::Timed(_, env) => env.delivered(),
        }
    }

    /// The time by which properties judge bounds, in nanoseconds.
    pub(crate) fn now(self, node: NodeId) -> u64 {
        match self {
            Scene::Explored(_, env) => match env.rules.clocks {
                Clocks::Shared | Clocks::Drift { .. } => env.state.clock(node),
                Clocks::Independent => 0,
            },
            Scene::Timed(_, env) => env.now_ns(),
        }
    }
}
