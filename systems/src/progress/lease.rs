//! A lock that is granted for a limited time; clients queue and repeat their requests until they
//! get it.

use std::collections::VecDeque;
use std::time::Duration;

use everhold::node::{Cx, Node, NodeId, Timer};
use everhold::{Faults, System};
use serde::Serialize;

const LEASE: Duration = Duration::from_millis(500);
const HOLD: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_millis(200);

/// The messages.
#[derive(Clone, Debug, Serialize)]
pub enum Msg {
    /// I want the lock.
    Ask,
    /// The lock is yours.
    Grant,
    /// I release the lock.
    Release,
}

/// Grants the lock.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lender {
    /// The bug: leases do not expire.
    bug: bool,
    holder: Option<NodeId>,
    line: VecDeque<NodeId>,
}

impl Lender {
    fn next(&mut self, cx: &mut Cx<Msg>) {
        cx.cancel_timer("lease");
        self.holder = self.line.pop_front();
        if let Some(holder) = self.holder {
            cx.send(holder, Msg::Grant);
            if !self.bug {
                cx.set_timer("lease", LEASE);
            }
        }
    }
}

impl Node for Lender {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Ask if self.holder == Some(from) => cx.send(from, Msg::Grant),
            Msg::Ask if self.line.contains(&from) => {}
            Msg::Ask => {
                self.line.push_back(from);
                if self.holder.is_none() {
                    self.next(cx);
                }
            }
            Msg::Release if self.holder == Some(from) => self.next(cx),
            Msg::Release => {}
            Msg::Grant => cx.unexpected(msg),
        }
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.next(cx);
    }
}

/// Takes the lock once.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    lender: NodeId,
    had: bool,
}

impl Node for Client {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(self.lender, Msg::Ask);
        cx.set_timer("again", AGAIN);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        if !self.had {
            self.had = true;
            cx.cancel_timer("again");
            cx.set_timer("hold", HOLD);
        }
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer.name == "hold" {
            cx.send(self.lender, Msg::Release);
        } else {
            cx.send(self.lender, Msg::Ask);
            cx.set_timer("again", AGAIN);
        }
    }
}

/// A lender and its clients, on a network that loses a few messages.
pub fn system(nodes: u32, bug: bool) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync {
    move |system| {
        let lender = system.node("lender", Lender { bug, ..Lender::default() });
        for _ in 1..nodes {
            system.node("client", Client { lender, had: false });
        }
        system.faults(Faults::none().lose(3));
        system.eventually("all had it", |s| s.all::<Client>().all(|(_, client)| client.had));
    }
}
