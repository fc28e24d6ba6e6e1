//! Clients repeat a request until it is answered.

use std::collections::BTreeSet;
use std::time::Duration;

use everhold::node::{Cx, Node, NodeId, Timer};
use everhold::{Faults, System};
use serde::Serialize;

const AGAIN: Duration = Duration::from_millis(50);

/// The messages.
#[derive(Clone, Debug, Serialize)]
pub enum Msg {
    /// Please carry this out.
    Request,
    /// It is carried out.
    Answer,
}

/// Carries out requests, once for each client.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Server {
    /// The bug: does not answer a request that it knows.
    bug: bool,
    known: BTreeSet<NodeId>,
}

impl Node for Server {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, _: Msg) {
        let fresh = self.known.insert(from);
        if fresh || !self.bug {
            cx.send(from, Msg::Answer);
        }
    }
}

/// Repeats its request until it is answered.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    server: NodeId,
    answered: bool,
}

impl Client {
    fn ask(&self, cx: &mut Cx<Msg>) {
        cx.send(self.server, Msg::Request);
        cx.set_timer("again", AGAIN);
    }
}

impl Node for Client {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.ask(cx);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.answered = true;
        cx.cancel_timer("again");
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.ask(cx);
    }
}

/// A server and its clients, on a network that loses a few messages.
pub fn system(nodes: u32, bug: bool) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync {
    move |system| {
        let server = system.node("server", Server { bug, ..Server::default() });
        for _ in 1..nodes {
            system.node("client", Client { server, answered: false });
        }
        system.faults(Faults::none().lose(5));
        system.eventually("all are answered", |s| s.all::<Client>().all(|(_, c)| c.answered));
    }
}
