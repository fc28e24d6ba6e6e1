//! A list of messages on its way from a source to a sink.

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Faults, Links, System};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Msg {
    Data(u32),
    Beat(u32),
}
use Msg::Beat;

/// Sends its list at the start.
#[derive(Clone, Serialize)]
pub(crate) struct Source {
    pub(crate) to: NodeId,
    pub(crate) list: Vec<Msg>,
}

impl Node for Source {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.list.iter().for_each(|msg| cx.send(self.to, *msg));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
}

/// Writes down what arrives; the end of a connection is `Beat(99)`.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Sink {
    pub(crate) seen: Vec<Msg>,
}

impl Node for Sink {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        self.seen.push(msg);
    }
    fn disconnected(&mut self, _: &mut Cx<Msg>, _: NodeId) {
        self.seen.push(Beat(99));
    }
}

pub(crate) fn transfer(
    links: Links,
    faults: Faults,
    list: Vec<Msg>,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let sink = system.node("sink", Sink::default());
        system.node("source", Source { to: sink, list: list.clone() });
        system.links(links.clone());
        system.faults(faults.clone());
    }
}
