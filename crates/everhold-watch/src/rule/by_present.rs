//! Keyed rules about the present alone: one evaluator for all keys.
//!
//! Such a rule remembers nothing of a key but what the snapshot says, so that a key costs nothing
//! here. The evaluator holds what the nodes show under the key that was judged last. To judge
//! another key, only the nodes that say something of either key are set, and only what depends on
//! these is evaluated again. Where the same nodes say the same of two keys, the verdict is the same,
//! so that those of the last few thousand such cases are kept.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use everhold_property::{Evaluator, Modality, Row, Rule, Scope, State, Verdict};
use everhold_trace::NodeId;
use rustc_hash::FxHasher;

use super::keyed::Keyed;
use super::rows::Rows;
use crate::world::{SlotId, World};

/// At most this many verdicts are kept.
const VERDICTS_MAX: usize = 4096;

/// A node that says something of a key, as its place among those that are up, and what it says: the
/// address of a row that [`Rows`] keeps, or 0 if that is not known.
type Told = (usize, usize);

#[derive(Clone, Debug)]
pub(super) struct ByPresent {
    rows: Rows,
    /// `None` until somebody is there.
    evaluator: Option<Evaluator>,
    /// The nodes that are up, in order, each with what it shows under a key of which it says nothing.
    up: Vec<(NodeId, Option<Arc<Row>>)>,
    /// The key that the evaluator holds.
    held: Option<SlotId>,
    /// The nodes that say something of the key that was loaded last, as places in `up`, in order.
    told: Vec<usize>,
    /// Verdicts by the content of a key, valid as long as the rows stay where they are.
    verdicts: HashMap<Vec<Told>, Verdict, BuildHasherDefault<FxHasher>>,
    /// The number of times that [`Rows`] had dropped its rows when these verdicts were kept.
    cleared: u64,
    /// The content of the key that is judged; kept to reuse its memory.
    next: Vec<Told>,
    rows_next: Vec<(usize, Option<Arc<Row>>)>,
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
            verdicts: HashMap::default(),
            cleared: 0,
            next: Vec::new(),
            rows_next: Vec::new(),
        })
    }

    /// Follows a change of the members, or of what is known of whole nodes.
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
        self.verdicts.clear();
    }

    /// Judges a key. `only` is the one node that says something else of it than when it was last
    /// judged, if that is known.
    pub(super) fn judge(&mut self, world: &World, slot: SlotId, only: Option<NodeId>) -> Verdict {
        if self.evaluator.is_none() {
            self.refresh(world);
        }
        let Some(mut evaluator) = self.evaluator.take() else { return Verdict::Unknown };
        let verdict = match only {
            Some(node) if self.held == Some(slot) => {
                self.load_one(&mut evaluator, world, slot, node);
                evaluator.verdict()
            }
            _ => self.judge_whole(&mut evaluator, world, slot),
        };
        self.evaluator = Some(evaluator);
        verdict
    }

    fn judge_whole(&mut self, evaluator: &mut Evaluator, world: &World, slot: SlotId) -> Verdict {
        self.look_up(world, slot);
        // A row that was looked up and then let go is no name for what it says.
        let stay = self.cleared == self.rows.cleared();
        if !stay {
            self.verdicts.clear();
            self.cleared = self.rows.cleared();
        } else if let Some(verdict) = self.verdicts.get(&self.next) {
            self.held = None; // The evaluator holds another key.
            return *verdict;
        }
        self.load(evaluator);
        self.held = Some(slot);
        let verdict = evaluator.verdict();
        if stay && self.rows.are_kept() {
            if self.verdicts.len() >= VERDICTS_MAX {
                self.verdicts.clear();
            }
            self.verdicts.insert(self.next.clone(), verdict);
        }
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

    /// Looks up the content of a key, in the order of the nodes.
    fn look_up(&mut self, world: &World, slot: SlotId) {
        let mut rows = std::mem::take(&mut self.rows_next);
        rows.clear();
        for cell in &world.slot(slot).cells {
            let place = self.place(cell.node).filter(|_| self.rows.reads(&cell.relation));
            rows.extend(place.map(|place| (place, None)));
        }
        rows.sort_unstable_by_key(|(place, _)| *place);
        rows.dedup_by_key(|(place, _)| *place);
        self.next.clear();
        for (place, row) in &mut rows {
            *row = self.rows.row(world, slot, self.up[*place].0);
            self.next.push((*place, row.as_ref().map_or(0, |row| Arc::as_ptr(row).addr())));
        }
        self.rows_next = rows;
    }

    /// Sets what was looked up, and what the key before it leaves behind.
    fn load(&mut self, evaluator: &mut Evaluator) {
        for place in &self.told {
            if self.rows_next.binary_search_by_key(place, |(next, _)| *next).is_err() {
                let (node, blank) = &self.up[*place];
                evaluator.set_row(*node, blank.clone());
            }
        }
        self.told.clear();
        for (place, row) in &self.rows_next {
            evaluator.set_row(self.up[*place].0, row.clone());
            self.told.push(*place);
        }
    }
}
