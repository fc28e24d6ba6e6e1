//! Keyed rules about the present alone: one evaluator for all keys.
//!
//! Such a rule remembers nothing of a key but what the snapshot says, so that a key costs nothing
//! here. The evaluator holds what the nodes show under the key that was judged last. To judge
//! another key, only the nodes that say something of either key are set, and only what depends on
//! these is evaluated again.

use std::sync::Arc;

use everhold_property::{Evaluator, Modality, Row, Rule, Scope, State, Verdict};
use everhold_trace::NodeId;

use super::keyed::Keyed;
use super::rows::Rows;
use crate::world::{SlotId, World};

#[derive(Clone, Debug)]
pub(super) struct ByPresent {
    rows: Rows,
    /// `None` until somebody is there.
    evaluator: Option<Evaluator>,
    /// The nodes that are up, in order, each with what it shows under a key of which it says nothing.
    up: Vec<(NodeId, Option<Arc<Row>>)>,
    /// The key that the evaluator holds.
    held: Option<SlotId>,
    /// The nodes that say something of that key, as places in `up`, in order.
    told: Vec<usize>,
    /// Kept for its space.
    next: Vec<usize>,
}

impl ByPresent {
    /// `None` if the rule looks back or waits.
    pub(super) fn new(rule: &Rule, keyed: &Keyed) -> Option<ByPresent> {
        let (program, property) = (rule.program(), rule.property());
        let plain = property.modality == Modality::Always && property.scope == Scope::EveryCut;
        (plain && program.depth() == 0).then(|| ByPresent {
            rows: Rows::new(program, keyed),
            evaluator: None,
            up: Vec::new(),
            held: None,
            told: Vec::new(),
            next: Vec::new(),
        })
    }

    /// Who is there, or what is known of nodes as such, has changed.
    pub(super) fn refresh(&mut self, world: &World) {
        let members = world.members();
        let up = members.iter().filter(|member| member.up).map(|member| member.id);
        self.up = up.map(|node| (node, self.rows.blank(world, node))).collect();
        let mut evaluator = Evaluator::new(self.rows.program(), members);
        for (node, blank) in &self.up {
            evaluator.set_row(*node, blank.clone());
        }
        self.evaluator = Some(evaluator);
        (self.held, self.told) = (None, Vec::new());
    }

    /// Judges a key. `only` is the one node that says something else of it than when it was last
    /// judged, if that is known.
    pub(super) fn judge(&mut self, world: &World, slot: SlotId, only: Option<NodeId>) -> Verdict {
        if self.evaluator.is_none() {
            self.refresh(world);
        }
        let Some(mut evaluator) = self.evaluator.take() else { return Verdict::Unknown };
        match only {
            Some(node) if self.held == Some(slot) => {
                self.load_one(&mut evaluator, world, slot, node);
            }
            _ => self.load(&mut evaluator, world, slot),
        }
        let verdict = evaluator.verdict();
        self.evaluator = Some(evaluator);
        verdict
    }

    /// The key of a slot is not that which the evaluator may hold.
    pub(super) fn forget(&mut self, slot: SlotId) {
        if self.held == Some(slot) {
            self.held = None;
        }
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        let guess = node.index();
        if self.up.get(guess).is_some_and(|(up, _)| *up == node) {
            return Some(guess);
        }
        self.up.binary_search_by_key(&node, |(up, _)| *up).ok()
    }

    fn load_one(&mut self, evaluator: &mut Evaluator, world: &World, slot: SlotId, node: NodeId) {
        let Some(place) = self.place(node) else { return };
        evaluator.set_row(node, self.rows.row(world, slot, node));
        if let Err(at) = self.told.binary_search(&place) {
            self.told.insert(at, place);
        }
    }

    fn load(&mut self, evaluator: &mut Evaluator, world: &World, slot: SlotId) {
        let mut next = std::mem::take(&mut self.next);
        next.clear();
        for cell in &world.slot(slot).cells {
            if self.rows.reads(&cell.relation) {
                next.extend(self.place(cell.node));
            }
        }
        next.sort_unstable();
        next.dedup();
        for place in &self.told {
            if next.binary_search(place).is_err() {
                let (node, blank) = &self.up[*place];
                evaluator.set_row(*node, blank.clone());
            }
        }
        for place in &next {
            let node = self.up[*place].0;
            evaluator.set_row(node, self.rows.row(world, slot, node));
        }
        self.next = std::mem::replace(&mut self.told, next);
        self.held = Some(slot);
    }
}
