//! Keyed rules whose instances depend on their nodes alone: the fast path.
//!
//! `always "...": forall a, b in nodes: ..` is false of a key exactly if it is false of some pair of
//! nodes, so after a change of one node only the pairs with that node are judged. Nothing is kept
//! for a key besides the snapshot itself.

use std::sync::Arc;

use everhold_property::{Modality, Row, Rule, Scope, State, Tuples, Verdict};
use everhold_trace::NodeId;

use super::keyed::Keyed;
use super::rows::Rows;
use crate::world::{SlotId, World};

#[derive(Clone, Debug)]
pub(super) struct ByTuples {
    rows: Rows,
    /// `None` until somebody is there.
    tuples: Option<Tuples>,
    /// The nodes that are up, in order, each with the place of its member.
    up: Vec<(NodeId, usize)>,
    /// The state of a node under a key for which it has no tuple; by member.
    blanks: Vec<Option<Arc<Row>>>,
    /// The members that show something else at present.
    loaded: Vec<(NodeId, usize)>,
}

impl ByTuples {
    /// `None` if the property is not of that form.
    pub(super) fn new(rule: &Rule, keyed: &Keyed) -> Option<ByTuples> {
        let program = rule.program();
        let property = rule.property();
        let plain = property.modality == Modality::Always && property.scope == Scope::EveryCut;
        (plain && program.is_local() && program.depth() == 0).then(|| ByTuples {
            rows: Rows::new(program, keyed),
            tuples: None,
            up: Vec::new(),
            blanks: Vec::new(),
            loaded: Vec::new(),
        })
    }

    /// Follows a change of the members, or of what is known of whole nodes.
    pub(super) fn refresh(&mut self, world: &World) {
        let members = world.members();
        self.tuples = Tuples::new(self.rows.program(), members);
        self.loaded.clear();
        self.up = (members.iter().enumerate())
            .filter(|(_, member)| member.up)
            .map(|(place, member)| (member.id, place))
            .collect();
        self.blanks = members.iter().map(|member| self.rows.blank(world, member.id)).collect();
        if let Some(tuples) = &mut self.tuples {
            for (node, place) in &self.up {
                tuples.set(*node, self.blanks[*place].clone());
            }
        }
    }

    /// Judges a key: all of it, or the tuples with one node.
    pub(super) fn judge(&mut self, world: &World, slot: SlotId, with: Option<NodeId>) -> Verdict {
        if self.tuples.is_none() {
            self.refresh(world);
        }
        self.load(world, slot);
        let Some(tuples) = &self.tuples else { return Verdict::Unknown };
        let mut nodes = [NodeId(0); ARITY_MAX];
        let arity = tuples.arity();
        if arity > ARITY_MAX {
            return Verdict::Unknown;
        }
        let mut walk = Walk { tuples, up: &self.up, verdict: Verdict::Holds };
        match with {
            None => walk.all(&mut nodes[..arity], 0, None),
            Some(node) => (0..arity).for_each(|first| {
                walk.all(&mut nodes[..arity], 0, Some((first, node)));
            }),
        }
        walk.verdict
    }

    fn load(&mut self, world: &World, slot: SlotId) {
        let Some(mut tuples) = self.tuples.take() else { return };
        for (node, place) in self.loaded.drain(..) {
            tuples.set(node, self.blanks[place].clone());
        }
        for cell in &world.slot(slot).cells {
            if !self.rows.reads(&cell.relation) {
                continue;
            }
            let at = self.up.partition_point(|(node, _)| *node < cell.node);
            let Some((node, place)) = self.up.get(at).copied() else { continue };
            if node == cell.node {
                let row = self.rows.row(world, slot, node);
                tuples.set(node, row);
                self.loaded.push((node, place));
            }
        }
        self.tuples = Some(tuples);
    }
}

/// The longest tuples.
const ARITY_MAX: usize = 4;

struct Walk<'a> {
    tuples: &'a Tuples,
    up: &'a [(NodeId, usize)],
    verdict: Verdict,
}

impl Walk<'_> {
    /// Every tuple, or those in which a node first occurs at a place; ends at a violated one.
    fn all(&mut self, nodes: &mut [NodeId], at: usize, pin: Option<(usize, NodeId)>) {
        if self.verdict == Verdict::Violated {
            return;
        }
        if at == nodes.len() {
            self.verdict = self.verdict.and(self.tuples.judge(nodes));
            return;
        }
        for (node, place) in self.up {
            let pinned = match pin {
                Some((first, pinned)) if first == at => pinned == *node,
                Some((first, pinned)) if at < first => pinned != *node,
                _ => true,
            };
            if pinned && self.tuples.admits(at, *place) {
                nodes[at] = *node;
                self.all(nodes, at + 1, pin);
            }
        }
    }
}
