//! Path-vector routing as in BGP, with numbers of 16 and of 32 bits.
//!
//! Every router belongs to a system with a number and tells its peers the way to each network that
//! it knows: a path of such numbers. A router that finds itself on a path does not take it, and
//! prefers the shortest of the others. Numbers had 16 bits once. To a router that knows no others,
//! a larger number is shown as [`AS_TRANS`]; the real path travels beside, in an attribute that it
//! passes on without looking (RFC 4893).
//!
//! A driver has networks announced and withdrawn and lets links fail, never so many that the
//! network falls apart. The first bug is the one that Avenger found in XORP 1.6 (section 3.1.1).

mod router;

use everhold::Value;
use everhold::prelude::*;
use everhold::property::{Library, Type};

pub use router::{Msg, Route, Router, Update};

/// What is wrong with the routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// A router does not tell a peer of a path that the peer is on, which saves messages. But one
    /// that knows no large numbers takes all that have one for the same (Avenger, BGP1).
    MistakesTrans,
    /// A router ignores a path that it is on itself. It should also forget the one that its peer
    /// told it before, which this one replaces (Avenger, BGP2).
    KeepsReplaced,
}

/// Stands for a number that does not fit 16 bits.
pub const AS_TRANS: u32 = 23_456;

/// A destination; here every router has one, with its own number.
pub type Prefix = u8;

/// The numbers of the routers: the last two do not fit 16 bits.
pub const NUMBERS: [u32; 6] = [100, 101, 102, 103, 70_004, 70_005];

/// Each of the first four has a link to each; each of the last two to two of them.
const LINKS: [(u32, u32); 10] =
    [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 0), (4, 1), (5, 2), (5, 3)];
/// The first so many of them may fail, two at most: then there is still a way to all.
const FAILING: usize = 6;
const FAILURES: u32 = 2;
/// How many networks are announced or withdrawn.
const CHANGES: u32 = 4;

/// Announces, withdraws and cuts links.
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

/// BGP1 of Avenger's table 1.
pub const REACHABLE: &str = "what one can reach, all can";
/// BGP2.
pub const NO_LOOPS: &str = "no packet goes round";

/// BGP1 and BGP2 in the language, once the routers have nothing more to tell.
pub const PROPERTIES: &str = r#"
always "what one can reach, all can" when all quiet:
  forall a, b in router nodes, network in b.table: network in a.table

always "no packet goes round" when all quiet:
  forall n in router nodes, network in n.table:
    not loops(n, list(m in router nodes: [m, m.table[network].next_hop]))

sometimes "all know the way to three networks": forall n in router nodes: len(n.table) >= 3
"#;

/// `loops(node, hops)`: whether a packet that starts at the node comes back to where it was;
/// `hops` lists pairs of a node and the next.
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

/// The system without properties.
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
