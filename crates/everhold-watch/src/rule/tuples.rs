//! Keyed rules whose instances depend on their nodes alone: the fast path.
//!
//! `always "...": forall a, b in nodes: ..` is false of a key exactly if it is false of some pair of
//! nodes, so after a change of one node only the pairs with that node are judged. Nothing is kept
//! for a key besides the snapshot itself.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use everhold_property::{Modality, Program, Row, Rule, Scope, State, Tuples, Verdict};
use everhold_trace::{NodeId, Value};
use rustc_hash::FxHasher;

use super::keyed::Keyed;
use super::view::state_under;
use crate::world::{SlotId, World};

/// So many different values have their rows kept.
const ROWS_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct ByTuples {
    keyed: Keyed,
    program: Program,
    /// `None` until somebody is there.
    tuples: Option<Tuples>,
    /// The nodes that are up, in order, each with the place of its member.
    up: Vec<(NodeId, usize)>,
    /// What a node shows under a key of which it says nothing; by member.
    blanks: Vec<Option<Arc<Row>>>,
    /// The members that show something else at present.
    loaded: Vec<(NodeId, usize)>,
    /// Rows made before; only if nothing but one relation is read.
    rows: HashMap<Value, Arc<Row>, BuildHasherDefault<FxHasher>>,
}

impl ByTuples {
    /// `None` if the property is not of that form.
    pub(super) fn new(rule: &Rule, keyed: &Keyed) -> Option<ByTuples> {
        let program = rule.program().clone();
        let property = rule.property();
        let plain = property.modality == Modality::Always && property.scope == Scope::EveryCut;
        (plain && program.is_local() && program.depth() == 0).then(|| ByTuples {
            keyed: keyed.clone(),
            program,
            tuples: None,
            up: Vec::new(),
            blanks: Vec::new(),
            loaded: Vec::new(),
            rows: HashMap::default(),
        })
    }

    /// Who is there, or what is known of nodes as such, has changed.
    pub(super) fn refresh(&mut self, world: &World) {
        let members = world.members();
        self.tuples = Tuples::new(&self.program, members);
        self.loaded.clear();
        self.up = (members.iter().enumerate())
            .filter(|(_, member)| member.up)
            .map(|(place, member)| (member.id, place))
            .collect();
        self.blanks = members
            .iter()
            .map(|member| {
                let state = state_under(&self.keyed, world, None, member.id);
                state.map(|state| Arc::new(self.program.row(&state)))
            })
            .collect();
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
            if !self.keyed.relations.contains(&*cell.relation) {
                continue;
            }
            let at = self.up.partition_point(|(node, _)| *node < cell.node);
            let Some((node, place)) = self.up.get(at).copied() else { continue };
            if node == cell.node {
                let row = self.row(world, slot, node);
                tuples.set(node, row);
                self.loaded.push((node, place));
            }
        }
        self.tuples = Some(tuples);
    }

    fn row(&mut self, world: &World, slot: SlotId, node: NodeId) -> Option<Arc<Row>> {
        let simple = self.keyed.variables.is_empty() && self.keyed.relations.len() == 1;
        if !simple {
            let state = state_under(&self.keyed, world, Some(slot), node)?;
            return Some(Arc::new(self.program.row(&state)));
        }
        let relation = self.keyed.relations.first()?;
        let value = world.cell(slot, node, relation).ok()?;
        if let Some(row) = self.rows.get(value) {
            return Some(Arc::clone(row));
        }
        if self.rows.len() >= ROWS_MAX {
            self.rows.clear();
        }
        let state = Value::record([(relation.as_str(), value.clone())]);
        let row = Arc::new(self.program.row(&state));
        self.rows.insert(value.clone(), Arc::clone(&row));
        Some(row)
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
