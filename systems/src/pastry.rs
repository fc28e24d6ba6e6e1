//! Pastry (Rowstron and Druschel, 2001) as in Mace, with the performance bug that MacePC found in
//! it (FSE 2010, section 5.2).
//!
//! A node joins by sending a join to a node that it knows. The nodes on the way to the owner of its
//! identifier send it rows of their routing tables, and the last one also sends its leafset. When
//! it has every row and a leafset, it has joined and announces itself to the nodes that it has
//! learned of. Since the result is right only if one node joins at a time, a maintenance protocol
//! exchanges leafsets every 20 s, and slowly repairs what went wrong.
//!
//! The bug appears when many nodes join at once. The node that all of them contact adds a joiner
//! only when that one confirms, so each joiner gets an empty leafset and believes to be in a ring
//! of two. Then all of them confirm; the bootstrap node's leafset fills up, and nodes are evicted
//! from it that know no node near them. Each round of maintenance brings them a few places nearer.
//!
//! Differences from Mace's Pastry: identifiers have 64 bits; entries of the table are not ranked by
//! measured delays; a node that leaves one side of a leafset is considered for the other one
//! (without this, as [Bamboo](crate::bamboo)'s first bug shows, the strict stopping condition waits
//! for maintenance even with the fix).

use everhold::prelude::*;
use everhold::timed::Timed;
use everhold::{Network, System};

use crate::dht::{Ids, Overlay, ROWS, Ring, Routing};

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A node that is evicted from a leafset is not told, and later changes of its provider's
    /// leafset are not passed on.
    SilentEviction,
}

/// The node that all others contact first.
pub const BOOTSTRAP: NodeId = NodeId(0);
/// The interval at which a node requests the leafset of one of its leaves.
pub const LEAFSET_MAINTENANCE: Duration = Duration::from_secs(20);
/// The interval at which a node requests a row from each of its neighbours in the table.
pub const TABLE_MAINTENANCE: Duration = Duration::from_secs(60);
/// The interval at which a node joins again, to heal a split ring.
pub const RECOVERY: Duration = Duration::from_secs(60);
/// The time after which a node repeats an unanswered join.
pub const JOIN_RETRY: Duration = Duration::from_secs(5);
/// The capacity of a cell of the table, in nodes.
const CELL_MAX: usize = 10;

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Routed towards the owner of the joiner's identifier.
    Join {
        /// The joiner.
        joiner: NodeId,
        /// The first row that it still needs.
        row: usize,
    },
    /// A row of the sender's table.
    Row {
        /// The number of the row.
        row: usize,
        /// The number of times that it has changed.
        version: u64,
        /// The nodes in it; the sender itself belongs to every row.
        nodes: Vec<NodeId>,
    },
    /// This version of a row arrived.
    RowAck {
        /// The number of the row.
        row: usize,
        /// The version that arrived.
        version: u64,
    },
    /// Asks for a row.
    RowRequest {
        /// The number of the row.
        row: usize,
    },
    /// The sender's leafset.
    Leafset {
        /// The number of times that it has changed.
        version: u64,
        /// The nodes in it.
        leaves: Vec<NodeId>,
    },
    /// This version of a leafset arrived.
    LeafsetAck {
        /// The version that arrived.
        version: u64,
    },
    /// Asks for a leafset.
    LeafsetRequest,
    /// Asks whether the receiver is there.
    InformRequest {
        /// Whether the sender has joined, so that the receiver may use it.
        joined: bool,
    },
    /// The sender is present and has joined.
    Inform,
    /// The sender has not joined and must not be used.
    Remove,
}

/// The size of a message in bytes: a header, and 28 for each node (an address and 160 bits).
#[must_use]
pub fn size(msg: &Msg) -> u64 {
    let nodes = match msg {
        Msg::Row { nodes, .. } => nodes.len(),
        Msg::Leafset { leaves, .. } => leaves.len(),
        Msg::Join { .. } => 1,
        _ => 0,
    };
    60 + 28 * nodes as u64
}

/// The parts that a joiner has received so far, and their senders.
#[derive(Clone, Debug, Default, Serialize)]
struct Joining {
    rows: [Option<(NodeId, u64)>; ROWS],
    leafset: Option<(NodeId, u64)>,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct Pastry {
    bug: Bug,
    joined: bool,
    routing: Routing,
    row_versions: [u64; ROWS],
    leafset_version: u64,
    joining: Joining,
    /// Joins that arrived before this node had joined.
    deferred: Vec<(NodeId, usize)>,
}

impl Overlay for Pastry {
    fn is_joined(&self) -> bool {
        self.joined
    }

    fn routing(&self) -> &Routing {
        &self.routing
    }
}

impl Pastry {
    /// A node that has not started yet.
    #[must_use]
    pub fn new(me: NodeId, bug: Bug) -> Pastry {
        Pastry {
            bug,
            joined: false,
            routing: Routing::new(me, Ids::Even, CELL_MAX),
            row_versions: [0; ROWS],
            leafset_version: 0,
            joining: Joining::default(),
            deferred: Vec::new(),
        }
    }

    fn me(&self) -> NodeId {
        self.routing.me()
    }

    /// Records a node; `live` if the node itself announced that it has joined.
    fn learn(&mut self, cx: &mut Cx<Msg>, node: NodeId, live: bool) {
        if node == self.me() {
            return;
        }
        if let Some(row) = self.routing.learn(node) {
            self.row_versions[row] += 1;
        }
        self.learn_leaf(cx, node, live);
    }

    fn learn_leaf(&mut self, cx: &mut Cx<Msg>, node: NodeId, live: bool) {
        let Some(side) = self.routing.leafset.place(node) else { return };
        if !live {
            cx.send(node, Msg::InformRequest { joined: self.joined });
            return;
        }
        self.leafset_version += 1;
        if let Some(evicted) = self.routing.leafset.insert(side, node) {
            self.learn_leaf(cx, evicted, true);
            self.evicted(cx, evicted);
        }
    }

    /// The fix: an evicted node is told about the nodes that are nearer to it than this one. A
    /// later leafset would contain only nodes near this one.
    fn evicted(&self, cx: &mut Cx<Msg>, node: NodeId) {
        if self.bug == Bug::None && self.joined && !self.routing.leafset.contains(node) {
            cx.send(node, self.leafset());
        }
    }

    fn leafset(&self) -> Msg {
        let leaves = self.routing.leafset.iter().collect();
        Msg::Leafset { version: self.leafset_version, leaves }
    }

    fn row(&self, row: usize) -> Msg {
        let nodes = self.routing.table.row(row).to_vec();
        Msg::Row { row, version: self.row_versions[row], nodes }
    }

    fn joins(&mut self, cx: &mut Cx<Msg>, from: NodeId, joiner: NodeId, row: usize) {
        if self.joined {
            self.serve(cx, joiner, row);
        } else if from == joiner {
            self.deferred.push((joiner, row));
        } else {
            cx.send(from, Msg::Remove);
        }
    }

    /// Sends a joiner its rows from here and passes its join on.
    fn serve(&self, cx: &mut Cx<Msg>, joiner: NodeId, row: usize) {
        let key = self.routing.id_of(joiner);
        let next = self.routing.next_hop(key);
        let is_last = next == self.me();
        let end = if is_last { ROWS } else { self.routing.id_of(self.me()).shared_prefix(key) + 1 };
        let end = end.max(row);
        if joiner != self.me() {
            if is_last {
                cx.send(joiner, self.leafset());
            }
            for row in row..end {
                cx.send(joiner, self.row(row));
            }
        }
        if !is_last {
            cx.send(next, Msg::Join { joiner, row: end });
        }
    }

    fn join(&self, cx: &mut Cx<Msg>) {
        let row = self.joining.rows.iter().position(Option::is_none).unwrap_or(ROWS);
        cx.send(BOOTSTRAP, Msg::Join { joiner: self.me(), row });
        cx.set_timer("join", JOIN_RETRY);
    }

    fn row_arrives(
        &mut self,
        cx: &mut Cx<Msg>,
        from: NodeId,
        (row, version): (usize, u64),
        nodes: &[NodeId],
    ) {
        for node in nodes.iter().chain([&from]) {
            self.learn(cx, *node, false);
        }
        if self.joined {
            cx.send(from, Msg::RowAck { row, version });
        } else {
            self.joining.rows[row] = Some((from, version));
            self.finish_joining(cx);
        }
    }

    fn leafset_arrives(&mut self, cx: &mut Cx<Msg>, from: NodeId, version: u64, leaves: &[NodeId]) {
        for leaf in leaves {
            self.learn(cx, *leaf, false);
        }
        self.learn(cx, from, true);
        if !self.joined {
            self.joining.leafset = Some((from, version));
            self.finish_joining(cx);
            return;
        }
        let provider = self.joining.leafset.map(|(provider, _)| provider);
        if self.bug == Bug::None && provider == Some(from) {
            self.pass_on(cx);
        }
        cx.send(from, Msg::LeafsetAck { version });
    }

    /// Passes news from the provider of the first leafset on to the leaves.
    fn pass_on(&self, cx: &mut Cx<Msg>) {
        for leaf in self.routing.leafset.iter() {
            cx.send(leaf, Msg::Inform);
            cx.send(leaf, self.leafset());
        }
    }

    fn finish_joining(&mut self, cx: &mut Cx<Msg>) {
        let Some((provider, version)) = self.joining.leafset else { return };
        if self.joining.rows.iter().any(Option::is_none) {
            return;
        }
        self.joined = true;
        cx.cancel_timer("join");
        cx.send(provider, Msg::LeafsetAck { version });
        for (row, got) in self.joining.rows.iter().enumerate() {
            if let Some((provider, version)) = *got {
                cx.send(provider, Msg::RowAck { row, version });
            }
        }
        self.announce(cx);
        for (joiner, row) in std::mem::take(&mut self.deferred) {
            self.serve(cx, joiner, row);
        }
    }

    /// Announces this node, with its rows, to the nodes that it has learned of.
    fn announce(&self, cx: &mut Cx<Msg>) {
        for leaf in self.routing.leafset.iter() {
            cx.send(leaf, Msg::Inform);
        }
        for row in 0..ROWS {
            for node in self.routing.table.row(row) {
                cx.send(*node, self.row(row));
            }
        }
    }

    fn maintain_table(&self, cx: &mut Cx<Msg>) {
        for row in 0..ROWS {
            let nodes = self.routing.table.row(row);
            if !nodes.is_empty() {
                let node = nodes[cx.choose("node of the row", nodes.len())];
                cx.send(node, Msg::RowRequest { row });
            }
        }
    }

    fn maintain_leafset(&self, cx: &mut Cx<Msg>) {
        if self.joined && !self.routing.leafset.is_empty() {
            let leaf = cx.choose("leaf", self.routing.leafset.len());
            let leaf = self.routing.leafset.iter().nth(leaf).expect("chosen below the length");
            cx.send(leaf, Msg::LeafsetRequest);
        }
    }

    /// Handles the messages that only a joined node answers.
    fn joined_message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::InformRequest { joined } => {
                if joined {
                    self.learn(cx, from, true);
                }
                cx.send(from, Msg::Inform);
            }
            Msg::Inform => self.learn(cx, from, true),
            Msg::LeafsetRequest => {
                self.learn(cx, from, true);
                cx.send(from, self.leafset());
            }
            Msg::LeafsetAck { version } if version < self.leafset_version => {
                cx.send(from, self.leafset());
            }
            Msg::RowRequest { row } => cx.send(from, self.row(row)),
            Msg::RowAck { row, version } if version < self.row_versions[row] => {
                cx.send(from, self.row(row));
            }
            _ => {}
        }
    }
}

impl Node for Pastry {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        if self.me() == BOOTSTRAP {
            self.joined = true;
        } else {
            self.join(cx);
            cx.set_timer("recovery", RECOVERY);
        }
        cx.set_timer("leafset_maintenance", LEAFSET_MAINTENANCE);
        cx.set_timer("table_maintenance", TABLE_MAINTENANCE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Join { joiner, row } => self.joins(cx, from, joiner, row),
            Msg::Row { row, version, nodes } => self.row_arrives(cx, from, (row, version), &nodes),
            Msg::Leafset { version, leaves } => self.leafset_arrives(cx, from, version, &leaves),
            Msg::Remove => self.leafset_version += u64::from(self.routing.remove(from)),
            // A joiner does not yet exist for the others.
            other if self.joined => self.joined_message(cx, from, other),
            _ => {}
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "join" => self.join(cx),
            "leafset_maintenance" => {
                self.maintain_leafset(cx);
                cx.set_timer(timer, LEAFSET_MAINTENANCE);
            }
            "table_maintenance" => {
                self.maintain_table(cx);
                cx.set_timer(timer, TABLE_MAINTENANCE);
            }
            _ => {
                if self.joined {
                    cx.send(BOOTSTRAP, Msg::Join { joiner: self.me(), row: ROWS });
                }
                cx.set_timer(timer, RECOVERY);
            }
        }
    }
}

/// The condition that routing has stabilised among `nodes` nodes, including the leafsets, as in the
/// property in Mace's source.
pub fn is_stable(nodes: usize) -> impl Fn(&View<'_, Msg>) -> bool + Clone + Send + Sync + 'static {
    let ring = Ring::new(nodes, Ids::Even).complete();
    move |view| ring.is_stable(|node| view.get::<Pastry>(node))
}

/// The name of the goal.
pub const STABLE: &str = "routing has stabilised";

/// A system of `nodes` nodes that join at once.
pub fn system(nodes: usize, bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.network(Network::Streams);
        system.nodes("pastry", nodes, |number| Pastry::new(NodeId(number as u32), bug));
        system.always("leaves have joined", |view| {
            let mut leaves = view.all::<Pastry>().flat_map(|(_, node)| node.routing.leafset.iter());
            leaves.all(|leaf| view.get::<Pastry>(leaf).is_none_or(|node| node.joined))
        });
        system.sometimes(STABLE, is_stable(nodes));
    }
}

/// The system on the paper's default network, until routing has stabilised.
#[must_use]
pub fn timed(nodes: usize, bug: Bug) -> Timed<Msg> {
    Timed::new(system(nodes, bug))
        .durations(crate::timed::handlers())
        .message_size(size)
        .stop_when_each(|node: &Pastry| node.joined)
        .stop_when(is_stable(nodes))
        .unchecked()
}
