//! The coverage of a search: the part of the system's behaviour that it saw.

use std::collections::{BTreeMap, BTreeSet};

use everhold_node::fingerprint;

use crate::fault::FaultKind;
use crate::sketch::Sketch;

/// The behaviour that a search saw. Unless a field says otherwise, it counts only the executions
/// that were examined closely: the first ones and one in 64.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// For each kind of node and phase, how often each sort of message arrived in it.
    pub pairs: BTreeMap<(String, String, String), u64>,
    /// The whole states of the system.
    pub states: Sketch,
    /// The partial orders of all executions.
    pub orders: Sketch,
    /// Faults injected in all executions.
    pub faults: [u64; FaultKind::ALL.len()],
    /// The number of executions that were examined closely.
    pub sampled: u64,
    /// Counts by number and hash, so that counting a known pair allocates nothing.
    quick: BTreeMap<(u32, u64, &'static str), u64>,
    names: BTreeMap<(u32, u64), (String, String)>,
}

impl Coverage {
    /// Pairs of a phase and a message that both occurred, at the same kind of node, but never
    /// together.
    #[must_use]
    pub fn unseen_pairs(&self) -> Vec<(String, String, String)> {
        let mut phases: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for (kind, phase, message) in self.pairs.keys() {
            let (seen, messages) = phases.entry(kind).or_default();
            seen.insert(phase);
            messages.insert(message);
        }
        let mut unseen = Vec::new();
        for (kind, (seen, messages)) in &phases {
            for phase in seen {
                for message in messages {
                    let pair = ((*kind).to_owned(), (*phase).to_owned(), (*message).to_owned());
                    if !self.pairs.contains_key(&pair) {
                        unseen.push(pair);
                    }
                }
            }
        }
        unseen
    }

    /// Counts a message that arrived at a node of this kind in this phase.
    pub(crate) fn add_pair(&mut self, kind: u32, name: &str, phase: &str, message: &'static str) {
        let hash = fingerprint::hash(phase);
        let count = self.quick.entry((kind, hash, message)).or_default();
        *count += 1;
        if *count == 1 {
            self.names.entry((kind, hash)).or_insert_with(|| (name.to_owned(), phase.to_owned()));
        }
    }

    /// Turns the quick counts into pairs.
    pub(crate) fn finish(&mut self) {
        for ((kind, hash, message), count) in std::mem::take(&mut self.quick) {
            let (name, phase) = self.names[&(kind, hash)].clone();
            *self.pairs.entry((name, phase, message.to_owned())).or_default() += count;
        }
        self.names.clear();
    }

    pub(crate) fn merge(&mut self, other: &Coverage) {
        for (pair, count) in &other.pairs {
            *self.pairs.entry(pair.clone()).or_default() += count;
        }
        self.states.merge(&other.states);
        self.sampled += other.sampled;
    }
}
