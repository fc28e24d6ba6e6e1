//! The two ends of a connection, which write down what they see.

use everhold_node::{Cx, Node, NodeId};
use serde::Serialize;

/// A message.
pub(crate) type Msg = u32;

/// The observations of one end of a connection, in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Seen {
    Got(Msg),
    Ended,
}
use Seen::{Ended, Got};

/// Sends its list at the start, then writes down what it sees.
#[derive(Clone, Default, Serialize)]
pub(crate) struct End {
    pub(crate) to: Option<NodeId>,
    pub(crate) first: Vec<Msg>,
    /// Sent when it is told that the connection ended.
    pub(crate) then: Option<Msg>,
    pub(crate) seen: Vec<Seen>,
}

impl Node for End {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        for msg in &self.first {
            cx.send(self.to.expect("whoever sends knows to whom"), *msg);
        }
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        self.seen.push(Got(msg));
    }
    fn disconnected(&mut self, cx: &mut Cx<Msg>, peer: NodeId) {
        self.seen.push(Ended);
        if let Some(msg) = self.then.take() {
            cx.send(peer, msg);
        }
    }
}
