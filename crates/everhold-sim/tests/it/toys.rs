//! Small systems to explore.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::System;
use serde::Serialize;

/// A number on its way.
pub(crate) type Msg = u32;

/// Keeps what it receives, in order.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Log {
    pub(crate) received: Vec<Msg>,
}

impl Node for Log {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        self.received.push(msg);
    }
}

/// Sends some numbers when it starts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sender {
    pub(crate) to: Vec<(NodeId, Msg)>,
}

impl Node for Sender {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        for (to, msg) in &self.to {
            cx.send(*to, *msg);
        }
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
}

/// Passes what it receives on, one higher.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Relay {
    pub(crate) to: NodeId,
    pub(crate) passed: u32,
}

impl Node for Relay {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        self.passed += 1;
        cx.send(self.to, msg + 1);
    }
}

/// `senders` nodes send one number each to one log.
pub(crate) fn funnel(senders: u32) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let log = system.node("log", Log::default());
        for number in 0..senders {
            system.node("sender", Sender { to: vec![(log, number)] });
        }
    }
}

/// Sends a number when its timer fires; a message cancels the timer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fickle {
    pub(crate) to: NodeId,
    pub(crate) number: Msg,
    pub(crate) heard: u32,
}

impl Node for Fickle {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("send", Duration::from_millis(10));
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.heard += 1;
        cx.cancel_timer("send");
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.send(self.to, self.number);
    }
}

/// Takes only one message, and refuses the rest for ever.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Once {
    pub(crate) taken: Option<Msg>,
}

impl Node for Once {
    type Msg = Msg;
    const GUARDED: bool = true;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        self.taken = Some(msg);
    }
    fn accepts(&self, _: NodeId, _: &Msg) -> bool {
        self.taken.is_none()
    }
}
