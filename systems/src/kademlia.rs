//! Routing by the XOR distance of identifiers, as in Kademlia (Maymounkov and Mazières, 2002).
//!
//! The distance of two identifiers is their exclusive or. In each subtree of the identifier tree
//! that does not contain it, every node knows one other node, if there is one. To find the node
//! nearest to a key, a node asks the nearest one that it knows for a nearer one, and continues
//! until the node that it asks knows none. That node stores the key.
//!
//! So all nodes that search for a key find the same node, and no node is nearer (Dinv, table 2).

use std::collections::{BTreeMap, BTreeSet};

use everhold::System;
use everhold::Value;
use everhold::prelude::*;
use everhold::property::{Library, Type};

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A node answers with the identifier that is nearest as a number.
    ComparesNumbers,
    /// A node that searches for a key takes the first answer for the nearest node.
    StopsEarly,
}

/// An identifier of a node, or a key.
pub type Id = u8;

/// The identifiers of the nodes.
const IDS: [Id; 8] = [0x0b, 0x1e, 0x33, 0x58, 0x7f, 0x94, 0xa1, 0xe6];
/// The number of keys that are stored and searched for.
const KEYS: usize = 24;
/// The number of searches of each node.
const LOOKUPS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Do you know a node that is nearer to this key than you?
    Find(Id),
    /// This is the nearest node that I know; it may be myself.
    Nearest {
        /// The key.
        key: Id,
        /// The node.
        node: NodeId,
    },
    /// You are the nearest node: store this key.
    Store(Id),
}

/// A node of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    #[serde(skip)]
    bug: Bug,
    me: NodeId,
    id: Id,
    /// By number of leading bits that they share with this node's identifier: one node each.
    contacts: BTreeMap<u32, NodeId>,
    /// Running lookups, with the nearest node so far.
    searches: BTreeMap<Id, NodeId>,
    /// The results of finished lookups.
    nearest: BTreeMap<Id, NodeId>,
    stored: BTreeSet<Id>,
    #[serde(skip)]
    lookups: u32,
}

fn id_of(node: NodeId) -> Id {
    IDS[node.index()]
}

/// The distance in Kademlia.
#[must_use]
pub fn distance(a: Id, b: Id) -> Id {
    a ^ b
}

impl Peer {
    fn new(number: usize, bug: Bug) -> Self {
        Peer {
            bug,
            me: NodeId(number as u32),
            id: IDS[number],
            contacts: BTreeMap::new(),
            searches: BTreeMap::new(),
            nearest: BTreeMap::new(),
            stored: BTreeSet::new(),
            lookups: 0,
        }
    }

    /// Fills the table with an arbitrary node of each subtree.
    fn fill_table(&mut self, cx: &mut Cx<Msg>) {
        let mut parts: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        for node in (0..IDS.len() as u32).map(NodeId).filter(|node| *node != self.me) {
            let shared = distance(self.id, id_of(node)).leading_zeros();
            parts.entry(shared).or_default().push(node);
        }
        for (shared, nodes) in parts {
            let number = cx.choose("contact", nodes.len());
            self.contacts.insert(shared, nodes[number]);
        }
    }

    /// The node nearest to a key among those that this node knows, including itself.
    fn nearest_known(&self, key: Id, measure: impl Fn(Id, Id) -> Id) -> NodeId {
        let known = self.contacts.values().copied().chain([self.me]);
        known.min_by_key(|node| measure(key, id_of(*node))).expect("it knows itself")
    }

    fn look_up(&mut self, cx: &mut Cx<Msg>) {
        let key = (cx.choose("key", KEYS) * 256 / KEYS) as Id;
        self.lookups += 1;
        match self.nearest_known(key, distance) {
            // A lookup of this key is waiting for an answer.
            _ if self.searches.contains_key(&key) => {}
            me if me == self.me => self.found(cx, key, me),
            nearest => {
                self.searches.insert(key, nearest);
                cx.send(nearest, Msg::Find(key));
            }
        }
    }

    fn find(&self, cx: &mut Cx<Msg>, from: NodeId, key: Id) {
        let node = match self.bug {
            Bug::ComparesNumbers => self.nearest_known(key, Id::abs_diff),
            _ => self.nearest_known(key, distance),
        };
        cx.send(from, Msg::Nearest { key, node });
    }

    fn answered(&mut self, cx: &mut Cx<Msg>, key: Id, node: NodeId) {
        let Some(so_far) = self.searches.remove(&key) else { return };
        let is_nearer = distance(key, id_of(node)) < distance(key, id_of(so_far));
        if is_nearer && self.bug != Bug::StopsEarly {
            self.searches.insert(key, node);
            cx.send(node, Msg::Find(key));
        } else {
            self.found(cx, key, if is_nearer { node } else { so_far });
        }
    }

    fn found(&mut self, cx: &mut Cx<Msg>, key: Id, node: NodeId) {
        self.nearest.insert(key, node);
        cx.send(node, Msg::Store(key));
    }
}

impl Node for Peer {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.fill_table(cx);
        cx.set_timer("look up", PAUSE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Find(key) => self.find(cx, from, key),
            Msg::Nearest { key, node } => self.answered(cx, key, node),
            Msg::Store(key) => drop(self.stored.insert(key)),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.look_up(cx);
        if self.lookups < LOOKUPS {
            cx.set_timer("look up", PAUSE);
        }
    }
}

/// All lookups of a key end at the same node.
pub const SAME_NODE: &str = "all find the same node";
/// No node is nearer to a key than the one that stores it (Dinv, table 2: minimal distance).
pub const MINIMAL: &str = "the nearest stores";

/// The specifications in the property language; [`library`] supplies their function.
pub const PROPERTIES: &str = r#"
always "the nearest stores":
  forall n, m in nodes, key in n.stored: distance(key, n.id) <= distance(key, m.id)

always "all find the same node":
  forall a, b in nodes, key -> node in a.nearest where key in b.nearest: b.nearest[key] == node

sometimes "eight keys are stored": sum(n in nodes: len(n.stored)) >= 8
"#;

/// `distance(a, b)`: the distance of two identifiers.
#[must_use]
pub fn library() -> Library {
    Library::new().with_function("distance", [Type::Int, Type::Int], Type::Int, |ids| match ids {
        [Value::Int(a), Value::Int(b)] => Ok(Value::Int(a ^ b)),
        _ => Err("distance takes two identifiers".to_owned()),
    })
}

/// Eight nodes that search for keys.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(bug)(system);
        system.library(library());
        system.property(PROPERTIES);
    }
}

/// The system without its properties.
pub fn environment(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| drop(system.nodes("peer", IDS.len(), |number| Peer::new(number, bug)))
}
