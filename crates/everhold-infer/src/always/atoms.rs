//! Atoms: the distinct pairs of a node and one of its states, and where each of them occurred.

use everhold_trace::NodeId;
use hashbrown::HashTable;

use crate::dictionary::hash_of;
use crate::states::{StateId, States};
use crate::variables::KindId;

/// The number of a node and a state it was in, among those of its kind.
pub(super) type Atom = u32;

/// No node, or one that is down or has not reported.
pub(super) const NONE: Atom = Atom::MAX;

/// All nodes in all their states.
#[derive(Debug, Default)]
pub(super) struct Atoms {
    /// By kind.
    pub(super) kinds: Vec<KindAtoms>,
    /// The nodes over all runs: name and id.
    pub(super) nodes: Vec<(String, NodeId)>,
    /// By run and node: its kind and its atom after each number of events.
    pub(super) runs: Vec<Vec<(Option<KindId>, Vec<Atom>)>>,
}

/// The atoms of one kind.
#[derive(Debug, Default)]
pub(super) struct KindAtoms {
    /// The state of each atom.
    pub(super) states: Vec<StateId>,
    /// Its node, in [`Atoms::nodes`]. Nodes of one name and id in several runs are one.
    pub(super) nodes: Vec<u32>,
    table: HashTable<Atom>,
}

impl Atoms {
    pub(super) fn of(states: &States) -> Atoms {
        let mut atoms = Atoms {
            kinds: states.kinds.iter().map(|_| KindAtoms::default()).collect(),
            ..Atoms::default()
        };
        for run in &states.runs {
            let mut nodes = Vec::new();
            for (id, node) in (0..).map(NodeId).zip(&run.nodes) {
                let place = atoms.place(&node.name, id);
                let kind = node.kind;
                let atom = |(state, up): (&StateId, &bool)| match kind {
                    Some(kind) if *up && *state != States::ABSENT => {
                        atoms.kinds[kind].atom(*state, place)
                    }
                    _ => NONE,
                };
                nodes.push((kind, node.states.iter().zip(&node.up).map(atom).collect()));
            }
            atoms.runs.push(nodes);
        }
        atoms
    }

    fn place(&mut self, name: &str, id: NodeId) -> u32 {
        let same = |(known, other): &(String, NodeId)| known == name && *other == id;
        let place = self.nodes.iter().position(same).unwrap_or_else(|| {
            self.nodes.push((name.to_owned(), id));
            self.nodes.len() - 1
        });
        u32::try_from(place).expect("nodes are fewer than 2^32")
    }
}

impl KindAtoms {
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    fn atom(&mut self, state: StateId, node: u32) -> Atom {
        let hash = hash_of(&(state, node));
        let (states, nodes) = (&self.states, &self.nodes);
        let same = |atom: &Atom| (states[*atom as usize], nodes[*atom as usize]) == (state, node);
        if let Some(atom) = self.table.find(hash, same) {
            return *atom;
        }
        let atom = Atom::try_from(self.states.len()).expect("atoms are fewer than 2^32");
        self.states.push(state);
        self.nodes.push(node);
        let (states, nodes) = (&self.states, &self.nodes);
        self.table.insert_unique(hash, atom, |atom| {
            hash_of(&(states[*atom as usize], nodes[*atom as usize]))
        });
        atom
    }
}
