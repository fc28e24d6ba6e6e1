//! Heartbeats from all nodes to all with acknowledgements, and a token that has to make ten hops.

use std::time::Duration;

use everhold::System;
use everhold::node::{Cx, Node, NodeId, Timer};
use serde::Serialize;

use super::tell_others;

const PERIOD: Duration = Duration::from_millis(100);
const HOPS: u32 = 10;

/// The messages between members.
#[derive(Clone, Debug, Serialize)]
pub enum Beat {
    /// I am alive.
    Heartbeat,
    /// I received the heartbeat.
    Ack,
    /// The token, with the number of hops that it has made.
    Token(u32),
}

/// A member of the ring.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    nodes: u32,
    next: NodeId,
    /// The bug: loses a token that arrives while acknowledgements are missing.
    bug: bool,
    missing: u32,
    arrived: bool,
}

impl Node for Member {
    type Msg = Beat;
    fn start(&mut self, cx: &mut Cx<Beat>) {
        cx.set_timer("beat", PERIOD);
        if cx.id() == NodeId(0) {
            cx.send(self.next, Beat::Token(1));
        }
    }
    fn message(&mut self, cx: &mut Cx<Beat>, from: NodeId, msg: Beat) {
        match msg {
            Beat::Heartbeat => cx.send(from, Beat::Ack),
            Beat::Ack => self.missing = self.missing.saturating_sub(1),
            Beat::Token(HOPS) => self.arrived = true,
            Beat::Token(_) if self.bug && self.missing > 0 => {}
            Beat::Token(hops) => cx.send(self.next, Beat::Token(hops + 1)),
        }
    }
    fn timer(&mut self, cx: &mut Cx<Beat>, _: Timer) {
        self.missing = self.nodes - 1;
        tell_others(cx, self.nodes, &Beat::Heartbeat);
        cx.set_timer("beat", PERIOD);
    }
}

/// The ring.
pub fn system(nodes: u32, bug: bool) -> impl Fn(&mut System<Beat>) + Clone + Send + Sync {
    move |system| {
        for me in 0..nodes {
            let next = NodeId((me + 1) % nodes);
            system.node("member", Member { nodes, next, bug, missing: 0, arrived: false });
        }
        system.eventually("the token arrives", |s| s.all::<Member>().any(|(_, m)| m.arrived));
    }
}
