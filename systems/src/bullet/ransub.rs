//! RanSub: a new random subset of all nodes for every node in each epoch.

use everhold::prelude::*;

use super::wire::Msg;

/// The time between two subsets.
pub const EPOCH: Duration = Duration::from_secs(5);
/// The time at which the root starts the first epoch.
const FIRST_EPOCH: Duration = Duration::from_millis(100);
/// The number of nodes in a subset.
const SUBSET: usize = 10;
/// The number of children of a node in the tree.
const DEGREE: usize = 12;

/// A subset and the number of nodes that it represents.
#[derive(Clone, Debug, Default, Serialize)]
struct Part {
    members: Vec<NodeId>,
    count: u32,
}

/// The state of a node in RanSub.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RanSub {
    me: NodeId,
    parent: Option<NodeId>,
    children: Vec<NodeId>,
    epoch: u32,
    /// The subsets that the children collected: those of this epoch, and those of the last complete
    /// one.
    collecting: Vec<Part>,
    collected: Vec<Part>,
}

impl RanSub {
    /// The position of a node in a tree in which node `n` has the children `12 n + 1` to `12 n +
    /// 12`.
    pub(super) fn new(number: usize, nodes: usize) -> RanSub {
        let node = |number: usize| NodeId(number as u32);
        let children = number * DEGREE + 1..nodes.min(number * DEGREE + DEGREE + 1);
        RanSub {
            me: node(number),
            parent: number.checked_sub(1).map(|before| node(before / DEGREE)),
            children: children.map(node).collect(),
            epoch: 0,
            collecting: Vec::new(),
            collected: Vec::new(),
        }
    }

    pub(super) fn start(&self, cx: &mut Cx<Msg>) {
        if self.parent.is_none() {
            cx.set_timer("epoch", FIRST_EPOCH);
        }
    }

    /// Starts an epoch at the root; returns the root's own subset.
    pub(super) fn timer(&mut self, cx: &mut Cx<Msg>) -> Vec<NodeId> {
        cx.set_timer("epoch", EPOCH);
        self.distribute(cx, self.epoch + 1, Part::default())
    }

    /// Handles a subset from above: mixes it with the nodes known from below and passes it on.
    /// Returns the subset of this node.
    pub(super) fn distribute_from(
        &mut self,
        cx: &mut Cx<Msg>,
        epoch: u32,
        members: Vec<NodeId>,
        count: u32,
    ) -> Vec<NodeId> {
        self.distribute(cx, epoch, Part { members, count })
    }

    fn distribute(&mut self, cx: &mut Cx<Msg>, epoch: u32, above: Part) -> Vec<NodeId> {
        self.epoch = epoch;
        self.collecting.clear();
        let mut parts = self.collected.clone();
        parts.push(above);
        for child in &self.children {
            let Part { members, count } = compact(cx, &parts);
            cx.send(*child, Msg::Distribute { epoch, members, count });
        }
        let mine = compact(cx, &parts).members;
        self.collect_if_complete(cx);
        mine
    }

    pub(super) fn collect_from(
        &mut self,
        cx: &mut Cx<Msg>,
        epoch: u32,
        members: Vec<NodeId>,
        count: u32,
    ) {
        if epoch == self.epoch {
            self.collecting.push(Part { members, count });
            self.collect_if_complete(cx);
        }
    }

    fn collect_if_complete(&mut self, cx: &mut Cx<Msg>) {
        if self.collecting.len() < self.children.len() {
            return;
        }
        self.collected = std::mem::take(&mut self.collecting);
        if let Some(parent) = self.parent {
            let mut parts = self.collected.clone();
            parts.push(Part { members: vec![self.me], count: 1 });
            let Part { members, count } = compact(cx, &parts);
            cx.send(parent, Msg::Collect { epoch: self.epoch, members, count });
        }
    }
}

/// A subset of all parts, in which each part is represented by its weight.
fn compact(cx: &mut Cx<Msg>, parts: &[Part]) -> Part {
    let count: u32 = parts.iter().map(|part| part.count).sum();
    let mut members = Vec::new();
    if count == 0 {
        return Part { members, count };
    }
    for _ in 0..SUBSET {
        let mut at = cx.choose("part of the subset", count as usize) as u32;
        let part = parts.iter().find(|part| {
            let found = at < part.count;
            at = at.saturating_sub(part.count);
            found
        });
        let known = &part.expect("chosen below the sum").members;
        let member = known[cx.choose("member of the part", known.len())];
        if !members.contains(&member) {
            members.push(member);
        }
    }
    Part { members, count }
}
