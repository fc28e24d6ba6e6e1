//! RandTree: a random overlay tree of bounded degree, as in Mace.
//!
//! Every node starts as the root of a tree without other nodes, and asks the one peer that it knows
//! to accept it as a child. Trees that meet merge: the one whose root has the larger number joins
//! the other. A node that has no room for another child passes the request down to one of its
//! children. A node whose request is not answered in time turns to the next peer that it knows;
//! nodes in a tree probe their peers periodically, in case there is still another tree.
//!
//! Both bugs were found by observing its behaviour, not by reading its code: one by an
//! almost-invariant (Avenger, section 3.2.1), the other by its delay (MacePC, figure 1).

use std::collections::BTreeSet;

use everhold::prelude::*;
use everhold::{Network, System};

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// A node does not check the origin of a request that was passed down to it: it accepts its own
    /// parent as a child (Avenger, section 3.2.1).
    AcceptsParent,
    /// A root with a pending request to join a better one forgets it when it accepts a child, and
    /// rejects the answer: there are two trees until a probe finds out (MacePC, figure 1).
    ForgetsJoin,
}

/// The time after which an unanswered request to join is repeated.
pub const JOIN: Duration = Duration::from_secs(5);
/// The interval between probes for other trees.
pub const RECOVERY: Duration = Duration::from_secs(10);
/// The largest number of children of a node in Mace.
pub const DEGREE: usize = 12;

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// A request to accept `node` as a child. A full root passes it on to a child, and adds its own
    /// id.
    Join {
        /// The node that wants to join.
        node: NodeId,
        /// The root that passed the request down.
        redirected_by: Option<NodeId>,
    },
    /// You are my child now.
    Accepted {
        /// The root of the tree.
        root: NodeId,
        /// The other children.
        siblings: BTreeSet<NodeId>,
    },
    /// You asked a node below you: stay the root.
    Loop,
    /// You are the better root: I will join you.
    RootForce,
    /// I am no longer your child.
    Remove,
    /// Parent to child: the tree has another root.
    NewRoot(NodeId),
    /// Parent to child: these are my other children.
    UpdateSiblings(BTreeSet<NodeId>),
    /// My tree has this root. What is the root of yours?
    Probe(NodeId),
    /// To a root: there is a tree with this better root.
    ProbeJoin(NodeId),
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// It has asked to be accepted.
    Joining,
    /// It has a parent, or is a root.
    Joined,
}

/// A node of the tree.
#[derive(Clone, Debug, Serialize)]
pub struct RandTree {
    #[serde(skip)]
    bug: Bug,
    #[serde(skip)]
    degree: usize,
    me: NodeId,
    status: Status,
    root: NodeId,
    parent: Option<NodeId>,
    children: BTreeSet<NodeId>,
    siblings: BTreeSet<NodeId>,
    /// Known peers, in the order in which they were learned.
    peers: Vec<NodeId>,
    /// The peer to turn to next.
    #[serde(skip)]
    next: usize,
    /// The node that was asked to accept this one.
    asked: Option<NodeId>,
}

impl RandTree {
    fn new(me: NodeId, peer: NodeId, degree: usize, bug: Bug) -> Self {
        RandTree {
            bug,
            degree,
            me,
            status: Status::Joining,
            root: me,
            parent: None,
            children: BTreeSet::new(),
            siblings: BTreeSet::new(),
            peers: vec![peer],
            next: 0,
            asked: None,
        }
    }

    fn is_root(&self) -> bool {
        self.root == self.me
    }

    /// Asks `peer` to accept this root with its tree.
    fn ask(&mut self, cx: &mut Cx<Msg>, peer: NodeId) {
        self.status = Status::Joining;
        self.asked = Some(peer);
        cx.send(peer, Msg::Join { node: self.me, redirected_by: None });
        cx.set_timer("join", JOIN);
    }

    fn settle(&mut self, cx: &mut Cx<Msg>) {
        self.status = Status::Joined;
        self.asked = None;
        cx.cancel_timer("join");
    }

    fn join(&mut self, cx: &mut Cx<Msg>, node: NodeId, redirected_by: Option<NodeId>) {
        let redirected_here = redirected_by == Some(self.root);
        if node == self.me {
            // The request returned to its sender, so the peer that received it is below this node.
            self.settle(cx);
        } else if !self.is_root() && node != self.root && !redirected_here {
            cx.send(self.root, Msg::Join { node, redirected_by });
        } else if self.is_above(node) {
            cx.send(node, Msg::Loop);
        } else if self.is_root() && node < self.me {
            cx.send(node, Msg::RootForce);
            self.remember(node);
            self.ask(cx, node);
        } else if self.children.contains(&node) {
            // The answer to that node's request is in flight.
        } else if self.children.len() < self.degree {
            self.adopt(cx, node);
        } else {
            self.redirect(cx, node);
        }
    }

    /// Whether accepting `node` as a child would close a loop.
    fn is_above(&self, node: NodeId) -> bool {
        self.bug != Bug::AcceptsParent && (self.parent == Some(node) || self.root == node)
    }

    fn adopt(&mut self, cx: &mut Cx<Msg>, node: NodeId) {
        self.children.insert(node);
        cx.send(node, Msg::Accepted { root: self.root, siblings: self.siblings_of(node) });
        if self.is_root() && !self.waits_for_better() {
            self.settle(cx);
        }
        self.tell_siblings(cx, node);
    }

    /// Whether a better root was asked and has not answered.
    fn waits_for_better(&self) -> bool {
        self.bug != Bug::ForgetsJoin && self.asked.is_some_and(|peer| peer < self.me)
    }

    fn redirect(&self, cx: &mut Cx<Msg>, node: NodeId) {
        let number = cx.choose("child that gets the request", self.children.len());
        let child = self.children.iter().nth(number).expect("chosen among the children");
        cx.send(*child, Msg::Join { node, redirected_by: Some(self.root) });
    }

    fn accepted(
        &mut self,
        cx: &mut Cx<Msg>,
        from: NodeId,
        root: NodeId,
        siblings: BTreeSet<NodeId>,
    ) {
        let wanted = match self.status {
            Status::Joining => true,
            Status::Joined => self.bug != Bug::ForgetsJoin && self.is_root() && root < self.me,
        };
        if self.parent == Some(from) {
            self.siblings = siblings;
        } else if !wanted || root == self.me || self.children.contains(&from) {
            cx.send(from, Msg::Remove);
        } else {
            self.parent = Some(from);
            self.siblings = siblings;
            self.settle(cx);
            self.follow(cx, root);
        }
    }

    /// Adopts another root, and informs the nodes below.
    fn follow(&mut self, cx: &mut Cx<Msg>, root: NodeId) {
        self.root = root;
        for child in &self.children {
            cx.send(*child, Msg::NewRoot(root));
        }
    }

    fn siblings_of(&self, child: NodeId) -> BTreeSet<NodeId> {
        self.children.iter().copied().filter(|other| *other != child).collect()
    }

    /// Informs the children about their siblings, except one that knows already.
    fn tell_siblings(&self, cx: &mut Cx<Msg>, except: NodeId) {
        for child in self.children.iter().filter(|child| **child != except) {
            cx.send(*child, Msg::UpdateSiblings(self.siblings_of(*child)));
        }
    }

    fn remember(&mut self, peer: NodeId) {
        if peer != self.me && !self.peers.contains(&peer) {
            self.peers.push(peer);
        }
    }

    /// The next peer in turn for which `is_of_use` is true.
    fn next_peer(&mut self, is_of_use: impl Fn(&Self, NodeId) -> bool) -> Option<NodeId> {
        let count = self.peers.len();
        let offset = (0..count).find(|i| is_of_use(self, self.peers[(self.next + i) % count]))?;
        let at = (self.next + offset) % count;
        self.next = at + 1;
        Some(self.peers[at])
    }

    fn join_again(&mut self, cx: &mut Cx<Msg>) {
        match self.next_peer(|this, peer| !this.children.contains(&peer)) {
            Some(peer) => self.ask(cx, peer),
            None => self.settle(cx),
        }
    }

    fn recover(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("recovery", RECOVERY);
        if self.status == Status::Joined {
            let elsewhere = self.next_peer(|this, peer| {
                !this.children.contains(&peer) && this.parent != Some(peer) && this.root != peer
            });
            if let Some(peer) = elsewhere {
                cx.send(peer, Msg::Probe(self.root));
            }
        }
    }

    /// Handles the news that a tree with the root `other` exists. Of two trees, the one with the
    /// larger root joins the other.
    fn probed(&mut self, cx: &mut Cx<Msg>, other: NodeId) {
        if other < self.root {
            self.join_better(cx, other);
        } else if self.root < other {
            cx.send(other, Msg::ProbeJoin(self.root));
        }
    }

    /// Makes the root of this tree join a better one.
    fn join_better(&mut self, cx: &mut Cx<Msg>, better: NodeId) {
        if better >= self.root {
            // This tree has joined that root, or a still better one, in the meantime.
        } else if self.is_root() {
            self.remember(better);
            self.ask(cx, better);
        } else {
            cx.send(self.root, Msg::ProbeJoin(better));
        }
    }

    /// Whether parent and children agree.
    fn is_parent_of(&self, other: &RandTree) -> bool {
        self.children.contains(&other.me) == (other.parent == Some(self.me))
    }
}

impl Node for RandTree {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.join_again(cx);
        cx.set_timer("recovery", RECOVERY);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Join { node, redirected_by } => self.join(cx, node, redirected_by),
            Msg::Accepted { root, siblings } => self.accepted(cx, from, root, siblings),
            Msg::Loop | Msg::RootForce if self.is_root() => self.settle(cx),
            Msg::Loop | Msg::RootForce => {}
            Msg::Remove => {
                self.children.remove(&from);
                self.tell_siblings(cx, from);
            }
            Msg::NewRoot(root) if self.parent == Some(from) => self.follow(cx, root),
            Msg::UpdateSiblings(siblings) if self.parent == Some(from) => self.siblings = siblings,
            Msg::NewRoot(_) | Msg::UpdateSiblings(_) => {}
            Msg::Probe(other) => self.probed(cx, other),
            Msg::ProbeJoin(better) => self.join_better(cx, better),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "join" => self.join_again(cx),
            _ => self.recover(cx),
        }
    }
}

/// The specification that Avenger found (its table 1, RandTree1).
pub const PARENT_IS_NO_CHILD: &str = "the parent is not a child";
/// The goal at which MacePC stops the clock.
pub const ONE_TREE: &str = "one tree";

/// The specification in the property language.
pub const PROPERTIES: &str = r#"
always "the parent is not a child": forall n in nodes: n.parent not in n.children

always "nobody is next to itself": forall n in nodes: n.me not in n.children and n.parent != n.me
"#;

/// Whether there is one tree that contains all nodes, where MacePC stops the clock.
#[must_use]
pub fn is_one_tree(s: &View<'_, Msg>) -> bool {
    let joined = s.all::<RandTree>().all(|(_, node)| node.status == Status::Joined);
    joined
        && s.all::<RandTree>().filter(|(_, node)| node.is_root()).count() == 1
        && s.all::<RandTree>().all(|(_, a)| s.all::<RandTree>().all(|(_, b)| a.is_parent_of(b)))
}

/// A tree of `nodes` nodes with at most `degree` children each. Each node knows the one after it.
pub fn system(
    nodes: usize,
    degree: usize,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(nodes, degree, bug)(system);
        system.property(PROPERTIES);
        system.sometimes(ONE_TREE, is_one_tree);
    }
}

/// The system without its properties.
pub fn environment(
    nodes: usize,
    degree: usize,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let id = |number: usize| NodeId((number % nodes) as u32);
        system.nodes("tree", nodes, |i| RandTree::new(id(i), id(i + 1), degree, bug));
        system.network(Network::Streams);
    }
}
