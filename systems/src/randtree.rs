//! RandTree: a random overlay tree of bounded degree, as in Mace.
//!
//! Every node starts alone, as the root of a tree of itself, and asks the one peer it knows to take
//! it in. Trees that meet merge: the one whose root has the larger number joins the other. A node
//! that has no room for another child passes the request down to one of those it has. A node whose
//! request is not answered in time turns to the next peer it knows; nodes in a tree probe their
//! peers now and then, in case there is still another tree.
//!
//! Two bugs that others found in it by looking at what it does, not by reading it: one by an
//! almost-invariant (Avenger, section 3.2.1), one by the time it takes (MacePC, figure 1).

use std::collections::BTreeSet;

use everhold::prelude::*;

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// A node does not look whose request it is that was passed down to it: it takes its own
    /// parent for a child (Avenger, section 3.2.1).
    AcceptsParent,
    /// A root that is asking to join a better one forgets it when it takes in a child, and turns
    /// down the answer: there are two trees until a probe finds out (MacePC, figure 1).
    ForgetsJoin,
}

/// How long a request to join may go unanswered.
pub const JOIN: Duration = Duration::from_secs(5);
/// The time between probes for other trees.
pub const RECOVERY: Duration = Duration::from_secs(10);
/// How many children a node of Mace's has at most.
pub const DEGREE: usize = 12;

/// What the nodes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Take `node` for a child. A full root passes this on to a child, and says so.
    Join {
        /// Who wants to join.
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
    /// You asked somebody below you: stay the root.
    Loop,
    /// You are the better root: I am going to join you.
    RootForce,
    /// I am not your child.
    Remove,
    /// Parent to child: the tree has another root.
    NewRoot(NodeId),
    /// Parent to child: these are my other children.
    UpdateSiblings(BTreeSet<NodeId>),
    /// My tree has this root. What about yours?
    Probe(NodeId),
    /// To a root: there is a tree with this better root.
    ProbeJoin(NodeId),
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// It has asked to be taken in.
    Joining,
    /// It has a parent or is a root.
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
    /// Known addresses, in the order in which they were learned.
    peers: Vec<NodeId>,
    /// The peer to turn to next.
    #[serde(skip)]
    next: usize,
    /// Who was asked to take this node in.
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

    /// Asks `peer` to take this root and its tree in.
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
            // The request came back: whoever it reached is below this node.
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
            // Its answer is under way.
        } else if self.children.len() < self.degree {
            self.adopt(cx, node);
        } else {
            self.redirect(cx, node);
        }
    }

    /// True if taking `node` for a child would close a loop.
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

    /// True while a better root was asked and has not answered.
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

    /// Takes another root, and tells those below.
    fn follow(&mut self, cx: &mut Cx<Msg>, root: NodeId) {
        self.root = root;
        for child in &self.children {
            cx.send(*child, Msg::NewRoot(root));
        }
    }

    fn siblings_of(&self, child: NodeId) -> BTreeSet<NodeId> {
        self.children.iter().copied().filter(|other| *other != child).collect()
    }

    /// Tells the children who they are, except one who knows.
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

    /// The next peer, in turn, that `is_of_use`.
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

    /// A tree with the root `other` exists. Of two trees the one with the larger root joins.
    fn probed(&mut self, cx: &mut Cx<Msg>, other: NodeId) {
        if other < self.root {
            self.join_better(cx, other);
        } else if self.root < other {
            cx.send(other, Msg::ProbeJoin(self.root));
        }
    }

    /// Has the root of this tree join a better one.
    fn join_better(&mut self, cx: &mut Cx<Msg>, better: NodeId) {
        if better >= self.root {
            // This tree has joined it, or a still better one, since.
        } else if self.is_root() {
            self.remember(better);
            self.ask(cx, better);
        } else {
            cx.send(self.root, Msg::ProbeJoin(better));
        }
    }

    /// True if parent and children agree.
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

/// The name of the specification that Avenger found (its table 1, RandTree1).
pub const PARENT_IS_NO_CHILD: &str = "the parent is not a child";
/// The name of the goal, which MacePC waits for.
pub const ONE_TREE: &str = "one tree";

/// The specification in the language.
pub const PROPERTIES: &str = r#"
always "the parent is not a child": forall n in nodes: n.parent not in n.children

always "nobody is next to itself": forall n in nodes: n.me not in n.children and n.parent != n.me
"#;

/// True once there is one tree that all are in: where MacePC stops the clock.
#[must_use]
pub fn is_one_tree(s: &View<'_, Msg>) -> bool {
    let joined = s.all::<RandTree>().all(|(_, node)| node.status == Status::Joined);
    joined
        && s.all::<RandTree>().filter(|(_, node)| node.is_root()).count() == 1
        && s.all::<RandTree>().all(|(_, a)| s.all::<RandTree>().all(|(_, b)| a.is_parent_of(b)))
}

/// A tree of `nodes` nodes with at most `degree` children each. Each knows the node after it.
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

/// The system without properties.
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
