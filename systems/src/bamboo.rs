//! Bamboo (Rhea and others, 2004) as in Mace, with two performance bugs that MacePC found in it
//! (FSE 2010, section 5.3).
//!
//! Bamboo is Pastry for networks with much churn. A join gives the joiner one leafset and nothing
//! else; frequent small exchanges repair whatever is wrong afterwards. Every second a node pushes
//! its leafset to one of its leaves and pulls the leafset of that node.
//!
//! The first bug: a node that is evicted from one side of a leafset may belong to the other side,
//! because with few known nodes the sides cannot be told apart. The code that checks this compares
//! with the farthest node of the first side, which by then is a different node.
//!
//! The second bug: each node first collects nodes and then announces itself. Two neighbours that do
//! so at the same time may not hear of each other. The fix is a field of [`Msg::Inform`], in which
//! the informant states on which side it sees the receiver. A receiver that disagrees starts the
//! exchange of leafsets at once.
//!
//! The paper counts a third bug but does not describe it. With the field alone, one execution of
//! thirty still waits for maintenance here: two nodes that join between the same neighbours agree
//! with both of these, one after the other, and never hear of each other. The fix: a node whose
//! neighbour is displaced by a nearer one pushes its leafset to the displaced one.
//!
//! Differences from Mace's Bamboo: delays are not probed. The paper describes the fix of the second
//! bug in one sentence; here the field distinguishes the sides ("you are my left neighbour"),
//! because only this reveals the mistake where three nodes each believe to be in a ring of two. The
//! first bug is rare, needs [`Ids::Crowded`], and is masked by the fix of the third.

use everhold::prelude::*;
use everhold::timed::Timed;
use everhold::{Network, System};

use crate::dht::{Id, Ids, Overlay, ROWS, Ring, Routing, Side};

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bug {
    /// No bug.
    None,
    /// The first: the bound of a side is moved before the node at the bound is considered for the
    /// other side. The third is there as well, since its fix masks this one.
    ForgetsEvicted,
    /// The second: nodes announce themselves without saying whom they take for their neighbours.
    /// The third is there as well.
    SilentNeighbours,
    /// The third: a neighbour that is displaced by a nearer node is not told.
    SilentDisplacement,
}

/// The node that all others contact first.
pub const BOOTSTRAP: NodeId = NodeId(0);
/// The interval at which a node exchanges leafsets with one of its leaves.
pub const LEAFSET_MAINTENANCE: Duration = Duration::from_secs(1);
/// The interval at which a node requests a row from a node of its table, and searches for the owner
/// of a random key.
pub const TABLE_MAINTENANCE: Duration = Duration::from_secs(5);
/// The time of a node's first search for a random key.
pub const FIRST_SAMPLE: Duration = Duration::from_millis(200);
/// The time after which a node repeats an unanswered join.
pub const JOIN_RETRY: Duration = Duration::from_secs(3);
/// The capacity of a cell of the table, in nodes.
const CELL_MAX: usize = 3;

/// The sides on which a node has another one as its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjacency {
    /// Whether it is the neighbour on the left.
    pub left: bool,
    /// Whether it is the neighbour on the right.
    pub right: bool,
}

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Routed towards the owner of the joiner's identifier.
    Join {
        /// The joiner.
        joiner: NodeId,
    },
    /// The sender's leafset; the receiver should answer with its own.
    LeafsetPush {
        /// The nodes in it.
        leaves: Vec<NodeId>,
    },
    /// The sender's leafset.
    LeafsetPull {
        /// The nodes in it.
        leaves: Vec<NodeId>,
    },
    /// Asks whether the receiver is there.
    InformRequest {
        /// Whether the sender has joined, so that the receiver may use it.
        joined: bool,
    },
    /// The sender is present and has joined.
    Inform {
        /// The fix: the sides on which the sender has the receiver as its neighbour.
        adjacency: Option<Adjacency>,
    },
    /// Asks for a row.
    RowRequest {
        /// The number of the row.
        row: usize,
    },
    /// A row of the sender's table.
    Row {
        /// The nodes in it.
        nodes: Vec<NodeId>,
    },
    /// Routed towards the owner of a key.
    GlobalSample {
        /// The key.
        key: Id,
        /// The node that searches for it.
        asker: NodeId,
    },
    /// The sender owns the key.
    GlobalSampleReply,
}

/// The size of a message in bytes: a header, and 28 for each node (an address and 160 bits).
#[must_use]
pub fn size(msg: &Msg) -> u64 {
    let nodes = match msg {
        Msg::Row { nodes } => nodes.len(),
        Msg::LeafsetPush { leaves } | Msg::LeafsetPull { leaves } => leaves.len(),
        Msg::Join { .. } | Msg::GlobalSample { .. } => 1,
        _ => 0,
    };
    60 + 28 * nodes as u64
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct Bamboo {
    bug: Bug,
    joined: bool,
    routing: Routing,
    /// Joins that arrived before this node had joined.
    deferred: Vec<NodeId>,
}

impl Overlay for Bamboo {
    fn is_joined(&self) -> bool {
        self.joined
    }

    fn routing(&self) -> &Routing {
        &self.routing
    }
}

impl Bamboo {
    /// A node that has not started yet.
    #[must_use]
    pub fn new(me: NodeId, ids: Ids, bug: Bug) -> Bamboo {
        let routing = Routing::new(me, ids, CELL_MAX);
        Bamboo { bug, joined: false, routing, deferred: Vec::new() }
    }

    fn me(&self) -> NodeId {
        self.routing.me()
    }

    /// Records a node; `live` if the node itself announced that it has joined.
    fn learn(&mut self, cx: &mut Cx<Msg>, node: NodeId, live: bool) {
        if node != self.me() {
            self.routing.learn(node);
            self.learn_leaf(cx, node, live);
        }
    }

    fn learn_leaf(&mut self, cx: &mut Cx<Msg>, node: NodeId, live: bool) {
        let Some(side) = self.routing.leafset.place(node) else { return };
        if !live {
            cx.send(node, Msg::InformRequest { joined: self.joined });
            return;
        }
        let neighbour = self.routing.leafset.neighbour(side);
        let evicted = self.routing.leafset.insert(side, node);
        if let Some(displaced) = neighbour
            && self.routing.leafset.neighbour(side) == Some(node)
        {
            self.introduce(cx, displaced);
        }
        let Some(evicted) = evicted else { return };
        let checked = match self.bug {
            Bug::ForgetsEvicted => self.routing.leafset.side(side).last().copied(),
            _ => Some(evicted),
        };
        if let Some(checked) = checked {
            self.learn_leaf(cx, checked, true);
        }
    }

    /// Sends a displaced neighbour the leaves, among them the one that displaced it.
    fn introduce(&self, cx: &mut Cx<Msg>, displaced: NodeId) {
        if self.bug == Bug::None {
            cx.send(displaced, Msg::LeafsetPush { leaves: self.leaves() });
        }
    }

    fn learn_leaves(&mut self, cx: &mut Cx<Msg>, from: NodeId, leaves: &[NodeId]) {
        for leaf in leaves {
            self.learn(cx, *leaf, false);
        }
        self.learn(cx, from, true);
    }

    fn leaves(&self) -> Vec<NodeId> {
        self.routing.leafset.iter().collect()
    }

    /// The sides on which this node has another one as its neighbour.
    fn adjacency(&self, node: NodeId) -> Adjacency {
        let is = |side| self.routing.leafset.neighbour(side) == Some(node);
        Adjacency { left: is(Side::Left), right: is(Side::Right) }
    }

    fn inform(&self, cx: &mut Cx<Msg>, to: NodeId) {
        let adjacency = match self.bug {
            Bug::SilentNeighbours => None,
            _ => Some(self.adjacency(to)),
        };
        cx.send(to, Msg::Inform { adjacency });
    }

    /// Handles the announcement of a node. If the two nodes disagree about their adjacency, they
    /// exchange leafsets.
    fn informed(&mut self, cx: &mut Cx<Msg>, from: NodeId, theirs: Option<Adjacency>) {
        self.learn(cx, from, true);
        let Some(theirs) = theirs else { return };
        let ours = self.adjacency(from);
        if (theirs.left, theirs.right) != (ours.right, ours.left) {
            cx.send(from, Msg::LeafsetPush { leaves: self.leaves() });
        }
    }

    fn serve(&self, cx: &mut Cx<Msg>, joiner: NodeId) {
        let next = self.routing.next_hop(self.routing.id_of(joiner));
        if next != self.me() {
            cx.send(next, Msg::Join { joiner });
        } else if joiner != self.me() {
            cx.send(joiner, Msg::LeafsetPull { leaves: self.leaves() });
        }
    }

    fn join(&self, cx: &mut Cx<Msg>) {
        cx.send(BOOTSTRAP, Msg::Join { joiner: self.me() });
        cx.set_timer("join", JOIN_RETRY);
    }

    fn finish_joining(&mut self, cx: &mut Cx<Msg>, provider: NodeId) {
        self.joined = true;
        cx.cancel_timer("join");
        self.inform(cx, provider);
        for joiner in std::mem::take(&mut self.deferred) {
            self.serve(cx, joiner);
        }
    }

    fn sampled(&self, cx: &mut Cx<Msg>, key: Id, asker: NodeId) {
        let next = self.routing.next_hop(key);
        if next != self.me() {
            cx.send(next, Msg::GlobalSample { key, asker });
        } else if asker != self.me() {
            cx.send(asker, Msg::GlobalSampleReply);
        }
    }

    fn maintain_leafset(&self, cx: &mut Cx<Msg>) {
        let leaves = self.leaves();
        if !leaves.is_empty() {
            let leaf = leaves[cx.choose("leaf", leaves.len())];
            cx.send(leaf, Msg::LeafsetPush { leaves });
        }
    }

    fn maintain_table(&self, cx: &mut Cx<Msg>) {
        let known = |row: &usize| !self.routing.table.row(*row).is_empty();
        let rows: Vec<usize> = (0..ROWS).filter(known).collect();
        if !rows.is_empty() {
            let row = rows[cx.choose("row", rows.len())];
            let nodes = self.routing.table.row(row);
            let node = nodes[cx.choose("node of the row", nodes.len())];
            cx.send(node, Msg::RowRequest { row });
        }
    }

    /// Handles the messages that only a joined node answers.
    fn joined_message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Join { joiner } => self.serve(cx, joiner),
            Msg::LeafsetPush { leaves } => {
                self.learn_leaves(cx, from, &leaves);
                cx.send(from, Msg::LeafsetPull { leaves: self.leaves() });
            }
            Msg::LeafsetPull { leaves } => self.learn_leaves(cx, from, &leaves),
            Msg::InformRequest { joined } => {
                if joined {
                    self.learn(cx, from, true);
                }
                self.inform(cx, from);
            }
            Msg::Inform { adjacency } => self.informed(cx, from, adjacency),
            Msg::RowRequest { row } => {
                cx.send(from, Msg::Row { nodes: self.routing.table.row(row).to_vec() });
            }
            Msg::Row { nodes } => {
                for node in nodes {
                    self.learn(cx, node, false);
                }
            }
            Msg::GlobalSample { key, asker } => self.sampled(cx, key, asker),
            Msg::GlobalSampleReply => self.learn(cx, from, true),
        }
    }
}

impl Node for Bamboo {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        if self.me() == BOOTSTRAP {
            self.joined = true;
        } else {
            self.join(cx);
        }
        cx.set_timer("leafset_maintenance", LEAFSET_MAINTENANCE);
        cx.set_timer("table_maintenance", TABLE_MAINTENANCE);
        cx.set_timer("global_table_maintenance", FIRST_SAMPLE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        if self.joined {
            return self.joined_message(cx, from, msg);
        }
        match msg {
            Msg::Join { joiner } => self.deferred.push(joiner),
            Msg::LeafsetPull { leaves } => {
                self.learn_leaves(cx, from, &leaves);
                self.finish_joining(cx, from);
            }
            // A joiner does not yet exist for the others.
            _ => {}
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "join" => return self.join(cx),
            "leafset_maintenance" => cx.set_timer(timer, LEAFSET_MAINTENANCE),
            _ => cx.set_timer(timer, TABLE_MAINTENANCE),
        }
        match timer.name {
            _ if !self.joined => {}
            "leafset_maintenance" => self.maintain_leafset(cx),
            "table_maintenance" => self.maintain_table(cx),
            _ => {
                let key = Id(cx.random());
                self.sampled(cx, key, self.me());
            }
        }
    }
}

/// The condition that routing has stabilised among `nodes` nodes.
pub fn is_stable(
    nodes: usize,
    ids: Ids,
) -> impl Fn(&View<'_, Msg>) -> bool + Clone + Send + Sync + 'static {
    let ring = Ring::new(nodes, ids);
    move |view| ring.is_stable(|node| view.get::<Bamboo>(node))
}

/// The name of the goal.
pub const STABLE: &str = "routing has stabilised";

/// A system of `nodes` nodes that join at once.
pub fn system(
    nodes: usize,
    ids: Ids,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.network(Network::Streams);
        system.nodes("bamboo", nodes, |number| Bamboo::new(NodeId(number as u32), ids, bug));
        system.always("leaves have joined", |view| {
            let mut leaves = view.all::<Bamboo>().flat_map(|(_, node)| node.routing.leafset.iter());
            leaves.all(|leaf| view.get::<Bamboo>(leaf).is_none_or(|node| node.joined))
        });
        system.sometimes(STABLE, is_stable(nodes, ids));
    }
}

/// The system on the paper's default network, until routing has stabilised.
#[must_use]
pub fn timed(nodes: usize, ids: Ids, bug: Bug) -> Timed<Msg> {
    Timed::new(system(nodes, ids, bug))
        .durations(crate::timed::handlers())
        .message_size(size)
        .stop_when_each(|node: &Bamboo| node.joined)
        .stop_when(is_stable(nodes, ids))
        .unchecked()
}
