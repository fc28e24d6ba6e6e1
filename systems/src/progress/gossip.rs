//! A rumour: at every tick, each node that knows it tells it to a random peer.

use std::time::Duration;

use everhold::node::{Cx, Node, NodeId, Timer};
use everhold::{Faults, System};
use serde::Serialize;

const PERIOD: Duration = Duration::from_millis(100);

/// The rumour.
#[derive(Clone, Debug, Serialize)]
pub struct Rumour;

/// A node that listens and tells.
#[derive(Clone, Debug, Serialize)]
pub struct Gossip {
    nodes: u32,
    knows: bool,
    /// The number of times that it may still tell the rumour; with the bug it gives up.
    left: Option<u32>,
}

impl Node for Gossip {
    type Msg = Rumour;
    fn start(&mut self, cx: &mut Cx<Rumour>) {
        cx.set_timer("tell", PERIOD);
    }
    fn message(&mut self, _: &mut Cx<Rumour>, _: NodeId, _: Rumour) {
        self.knows = true;
    }
    fn timer(&mut self, cx: &mut Cx<Rumour>, _: Timer) {
        cx.set_timer("tell", PERIOD);
        if !self.knows || self.left == Some(0) {
            return;
        }
        self.left = self.left.map(|left| left - 1);
        let other = 1 + (cx.random() % u64::from(self.nodes - 1)) as u32;
        cx.send(NodeId((cx.id().0 + other) % self.nodes), Rumour);
    }
}

/// Nodes of which the first one knows the rumour.
pub fn system(nodes: u32, bug: bool) -> impl Fn(&mut System<Rumour>) + Clone + Send + Sync {
    move |system| {
        for me in 0..nodes {
            let left = bug.then_some(2);
            system.node("node", Gossip { nodes, knows: me == 0, left });
        }
        system.faults(Faults::none().lose(2));
        system.eventually("all know", |s| s.all::<Gossip>().all(|(_, node)| node.knows));
    }
}
