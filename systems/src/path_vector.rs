//! Path-vector routing as in BGP, with numbers of 16 and of 32 bits.
//!
//! Every router belongs to an autonomous system with a number, and announces to its peers a path to
//! each network that it knows: a list of such numbers. A router ignores a path that contains its
//! own number, and prefers the shortest of the others. Numbers once had 16 bits. To a router that
//! supports no others, a larger number is shown as [`AS_TRANS`]; the full path travels in an
//! additional attribute, which the router passes on without reading it (RFC 4893).
//!
//! A driver announces and withdraws networks and makes links fail, but never so many that the
//! network is disconnected. The first bug is the one that Avenger found in XORP 1.6 (section
//! 3.1.1).

mod router;

use everhold::Value;
use everhold::prelude::*;
use everhold::property::{Library, Type};
use everhold::{Network, System};

pub use router::{Msg, Route, Router, Update};

/// The known bugs of the routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A router does not announce a path to a peer that is on it, which saves messages. But a
    /// router that supports no large numbers cannot distinguish peers with such numbers (Avenger,
    /// BGP1).
    MistakesTrans,
    /// A router ignores a path that contains itself. It should also remove the peer's previous
    /// path, which this one replaces (Avenger, BGP2).
    KeepsReplaced,
}

/// The number that stands for one that does not fit 16 bits.
pub const AS_TRANS: u32 = 23_456;

/// A destination; here every router has one, which has the router's number.
pub type Prefix = u8;

/// The numbers of the routers: the last two do not fit 16 bits.
pub const NUMBERS: [u32; 6] = [100, 101, 102, 103, 70_004, 70_005];

/// The links: each of the first four has one to each other; each of the last two has one to two of
/// these.
const LINKS: [(u32, u32); 10] =
    [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 0), (4, 1), (5, 2), (5, 3)];
/// The number of leading links that may fail, two at most, so that every router stays reachable.
const FAILING: usize = 6;
const FAILURES: u32 = 2;
/// The number of times that a network is announced or withdrawn.
const CHANGES: u32 = 4;

/// Announces and withdraws networks, and cuts links.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    failures: u32,
    changes: u32,
}

impl Driver {
    const PAUSE: Duration = Duration::from_secs(30);

    fn cut(&mut self, cx: &mut Cx<Msg>) {
        let (one, other) = LINKS[cx.choose("link that fails", FAILING)];
        self.failures += 1;
        cx.send(NodeId(one), Msg::Down(NodeId(other)));
        cx.send(NodeId(other), Msg::Down(NodeId(one)));
    }

    fn change(&mut self, cx: &mut Cx<Msg>) {
        let network = cx.choose("network", NUMBERS.len());
        self.changes += 1;
        cx.send(NodeId(network as u32), Msg::Toggle);
    }
}

impl Node for Driver {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("act", Driver::PAUSE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        if self.failures < FAILURES && cx.flip("a link fails") {
            self.cut(cx);
        } else {
            self.change(cx);
        }
        if self.changes < CHANGES {
            cx.set_timer("act", Driver::PAUSE);
        }
    }
}

/// BGP1 in Avenger's table 1.
pub const REACHABLE: &str = "what one can reach, all can";
/// BGP2.
pub const NO_LOOPS: &str = "no packet goes round";

/// BGP1 and BGP2 in the property language, judged once the routers have nothing more to announce.
pub const PROPERTIES: &str = r#"
always "what one can reach, all can" when all quiet:
  forall a, b in router nodes, network in b.table: network in a.table

always "no packet goes round" when all quiet:
  forall n in router nodes, network in n.table:
    not loops(n, list(m in router nodes: [m, m.table[network].next_hop]))

sometimes "all know the way to three networks": forall n in router nodes: len(n.table) >= 3
"#;

/// `loops(node, hops)`: whether a packet that starts at the node returns to a node where it was
/// before; `hops` lists pairs of a node and the next one.
#[must_use]
pub fn library() -> Library {
    let node = || Type::Node(None);
    let hops = Type::List(Box::new(Type::List(Box::new(node()))));
    Library::new().with_function("loops", [node(), hops], Type::Bool, loops)
}

fn loops(arguments: &[Value]) -> Result<Value, String> {
    let [Value::Node(start), Value::List(hops)] = arguments else {
        return Err("loops takes a node and a list of pairs of nodes".to_owned());
    };
    let next = |from: NodeId| {
        hops.iter().find_map(|hop| match hop {
            Value::List(pair) => match &pair[..] {
                [Value::Node(at), Value::Node(to)] if *at == from && to != at => Some(*to),
                _ => None,
            },
            _ => None,
        })
    };
    let walk = std::iter::successors(Some(*start), |at| next(*at));
    Ok(Value::Bool(walk.take(hops.len() + 1).count() > hops.len()))
}

/// Six routers, two of them with large numbers, and a driver.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(bug)(system);
        system.library(library());
        system.property(PROPERTIES);
    }
}

/// The system without its properties.
pub fn environment(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("router", NUMBERS.len(), |me| Router::new(me, peers(me), bug));
        system.node("driver", Driver { failures: 0, changes: 0 });
        system.network(Network::Streams);
    }
}

fn peers(me: usize) -> impl Iterator<Item = NodeId> {
    let me = me as u32;
    LINKS.into_iter().filter_map(move |(one, other)| match me {
        _ if me == one => Some(NodeId(other)),
        _ if me == other => Some(NodeId(one)),
        _ => None,
    })
}
