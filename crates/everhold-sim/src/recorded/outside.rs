//! A caller from outside the recorded nodes, as a node that sends the same messages again.

use everhold_node::{Cx, Message, Node, NodeId};
use serde::Serialize;

/// Sends everything at its start; the schedule says when it arrives.
#[derive(Clone, Serialize)]
#[serde(bound = "")]
pub(super) struct Outside<M> {
    #[serde(skip)]
    pub(super) says: Vec<(NodeId, M)>,
}

impl<M: Message> Node for Outside<M> {
    type Msg = M;

    fn start(&mut self, cx: &mut Cx<M>) {
        for (to, msg) in &self.says {
            cx.send(*to, msg.clone());
        }
    }

    fn message(&mut self, _: &mut Cx<M>, _: NodeId, _: M) {}
}
