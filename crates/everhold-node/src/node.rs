//! A participant written as handlers.

use std::fmt::Debug;

use everhold_trace::NodeId;
use serde::Serialize;

use crate::context::Cx;
use crate::timer::Timer;

/// A message between the nodes of one system: usually one `enum` for the whole system.
///
/// Implemented for every type that qualifies; there is nothing to write.
pub trait Message: Clone + Debug + Serialize + 'static {}

impl<T: Clone + Debug + Serialize + 'static> Message for T {}

/// A participant: local state and what it does at each event.
///
/// One handler runs at a time and runs to its end, so a node needs no locks. Whatever is not a
/// function of its own state, it asks of the [`Cx`].
///
/// A node shows itself by being [`Serialize`]: that is what traces, state diffs and fingerprints
/// see. Mark with `#[serde(skip)]` what no reader should see; write `Serialize` by hand to show a
/// view, as a wrapper around a foreign state machine does. Skip only what decides nothing, such as
/// settings and caches: where states are told apart (in an exhaustive search, or to find an endless
/// round), states that differ in hidden parts alone are one state.
///
/// ```
/// use everhold_node::{Cx, Node, NodeId};
/// use serde::Serialize;
///
/// #[derive(Clone, Debug, Serialize)]
/// enum Msg { Ping, Pong }
///
/// #[derive(Clone, Serialize)]
/// struct Echo { answered: u32 }
///
/// impl Node for Echo {
///     type Msg = Msg;
///     fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
///         match msg {
///             Msg::Ping => {
///                 self.answered += 1;
///                 cx.send(from, Msg::Pong);
///             }
///             Msg::Pong => cx.unexpected(msg),
///         }
///     }
/// }
/// ```
pub trait Node: Serialize + 'static {
    /// The system's message type.
    type Msg: Message;

    /// Whether [`accepts`](Node::accepts) may ever say no. A node that refuses a message without
    /// having set this is reported, so forgetting it cannot hide a message.
    const GUARDED: bool = false;

    /// Runs once, before anything else happens at this node.
    fn start(&mut self, cx: &mut Cx<Self::Msg>) {
        let _ = cx;
    }

    /// A message arrives.
    fn message(&mut self, cx: &mut Cx<Self::Msg>, from: NodeId, msg: Self::Msg);

    /// A timer set with [`Cx::set_timer`] fires.
    fn timer(&mut self, cx: &mut Cx<Self::Msg>, timer: Timer) {
        let _ = (cx, timer);
    }

    /// The node comes back after a crash: memory is as first created, the disk has what was
    /// synced. By default it starts again.
    fn restart(&mut self, cx: &mut Cx<Self::Msg>) {
        self.start(cx);
    }

    /// The connection to `peer` ended: a stream broke, or the peer crashed or left. What the peer
    /// sent before and arrived was handled before; what this node sent may or may not have arrived,
    /// and nothing that was sent on the old connection arrives from now on. The next message makes
    /// a new connection. By default nothing happens.
    ///
    /// Only connections end: on a network of datagrams nobody is told anything.
    ///
    /// ```
    /// use everhold_node::{Cx, Node, NodeId};
    /// use serde::Serialize;
    ///
    /// #[derive(Clone, Serialize)]
    /// struct Client { server: NodeId, unanswered: Option<u32> }
    ///
    /// impl Node for Client {
    ///     type Msg = u32;
    ///     fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {
    ///         self.unanswered = None;
    ///     }
    ///     fn disconnected(&mut self, cx: &mut Cx<u32>, peer: NodeId) {
    ///         if let Some(request) = self.unanswered.filter(|_| peer == self.server) {
    ///             cx.send(self.server, request);
    ///         }
    ///     }
    /// }
    /// ```
    fn disconnected(&mut self, cx: &mut Cx<Self::Msg>, peer: NodeId) {
        let _ = (cx, peer);
    }

    /// The guard: which messages this node takes now. The others wait, in their order for each
    /// sender, and are offered again after every event of this node.
    fn accepts(&self, from: NodeId, msg: &Self::Msg) -> bool {
        let _ = (from, msg);
        true
    }

    /// True while this node must not be left alone for ever: if nothing can happen any more and
    /// it still waits, that is reported as a deadlock.
    fn is_waiting(&self) -> bool {
        false
    }
}
