//! Termination detection in a ring, after Dijkstra, Feijen and van Gasteren (EWD 840) and Safra
//! (EWD 998).
//!
//! Active nodes may send work to others, which makes these active again; any node may become idle
//! at any time. A token that goes round while the nodes continue detects whether all are idle and
//! no work is in flight: it adds up, for each node, the messages sent less those received, and
//! turns black at a node that received something since the token's last visit.

use everhold::System;
use everhold::prelude::*;

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A node that receives work does not turn black, so the token does not learn that it came too
    /// early.
    StaysWhite,
    /// A node passes the token on while it is active.
    PassesWhileActive,
}

const NODES: usize = 4;
/// The largest number of messages that each node sends.
const SENDS_MAX: u32 = 3;
/// The duration of a piece of work.
const PIECE: Duration = Duration::from_millis(10);

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// A piece of work.
    Work,
    /// The token of the detection.
    Token(Token),
}

/// The observations of the token on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The messages sent less those received, summed over the nodes that it passed.
    sum: i64,
    /// Whether one of these nodes had received something.
    black: bool,
}

/// A node of the ring.
#[derive(Clone, Debug, Serialize)]
pub struct Worker {
    #[serde(skip)]
    bug: Bug,
    active: bool,
    /// Messages sent less messages received.
    counter: i64,
    /// Whether work was received since the token's last visit.
    black: bool,
    token: Option<Token>,
    /// Whether it announced that all nodes are idle.
    told: bool,
    #[serde(skip)]
    sends: u32,
}

impl Worker {
    fn new(number: usize, bug: Bug) -> Worker {
        // The first node starts with a token that has not visited any node.
        let token = (number == 0).then_some(Token { sum: 0, black: true });
        Worker { bug, active: true, counter: 0, black: false, token, told: false, sends: 0 }
    }

    /// Becomes idle, or gives work to another node.
    fn work(&mut self, cx: &mut Cx<Msg>) {
        let step = cx.choose("rest, or who gets work", NODES);
        if step == 0 || self.sends == SENDS_MAX {
            self.active = false;
            return;
        }
        self.sends += 1;
        self.counter += 1;
        cx.send(NodeId(((cx.id().index() + step) % NODES) as u32), Msg::Work);
        cx.set_timer("work", PIECE);
    }

    fn receive_work(&mut self, cx: &mut Cx<Msg>) {
        self.counter -= 1;
        self.black |= self.bug != Bug::StaysWhite;
        if !std::mem::replace(&mut self.active, true) {
            cx.set_timer("work", PIECE);
        }
    }

    /// An idle node passes the token on; the first node evaluates it, and starts another round.
    fn pass(&mut self, cx: &mut Cx<Msg>) {
        if self.told || self.active && self.bug != Bug::PassesWhileActive {
            return;
        }
        let Some(token) = self.token.take() else { return };
        let (sum, black) = (token.sum + self.counter, token.black || self.black);
        let next = match cx.id().index() {
            0 if sum == 0 && !black => {
                self.told = true;
                return;
            }
            0 => Token { sum: 0, black: false },
            _ => Token { sum, black },
        };
        self.black = false;
        let to = (cx.id().index() + NODES - 1) % NODES;
        cx.send(NodeId(to as u32), Msg::Token(next));
    }
}

impl Node for Worker {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("work", PIECE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Work => self.receive_work(cx),
            Msg::Token(token) => self.token = Some(token),
        }
        self.pass(cx);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.work(cx);
        self.pass(cx);
    }
}

/// The name of the specification.
pub const AT_REST: &str = "it is told when all is at rest";

/// The specification in the property language.
pub const PROPERTIES: &str = r#"
always "it is told when all is at rest":
  (exists n in nodes: n.told) implies in_flight("Work") == 0 and (forall n in nodes: not n.active)

always "counters add up to the work in flight":
  sum(n in nodes: n.counter) == in_flight("Work")

sometimes "it is told": exists n in nodes: n.told
"#;

/// Four nodes in a ring.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(bug)(system);
        system.property(PROPERTIES);
    }
}

/// The system without its properties.
pub fn environment(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("worker", NODES, |number| Worker::new(number, bug));
    }
}
