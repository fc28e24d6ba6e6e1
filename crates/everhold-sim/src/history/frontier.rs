//! The frontier of an object, which is everything it may be by now: each state that some order of
//! the operations so far leads to, together with the unanswered operations that took effect on the
//! way.
//!
//! This is the just-in-time linearization of Lowe (2017, section 5): operations take effect only
//! when an answer forces them to. The cost of an answer depends on how many operations are open,
//! not on how many there were.

use std::collections::{BTreeMap, BTreeSet};

use everhold_node::fingerprint::{hash, mix};
use serde::{Serialize, Serializer};

use super::{ClientId, Model};

/// An open operation. A client that gave up on one has several; the numbers are reused, so that a
/// system whose states recur comes back to the same frontier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    client: ClientId,
    number: u32,
}

/// Serialised as briefly as possible, since monitors are shown in reports.
impl Serialize for Slot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ClientId { node, task } = self.client;
        match (task, self.number) {
            (0, 0) => node.serialize(serializer),
            (task, number) => (node, task, number).serialize(serializer),
        }
    }
}

#[derive(Clone, Serialize)]
#[serde(bound = "")]
pub(super) struct Frontier<M: Model> {
    open: BTreeMap<Slot, Open<M::Op>>,
    /// Keyed by their hash.
    #[serde(rename = "cases", serialize_with = "only_values")]
    configurations: BTreeMap<u64, Configuration<M>>,
    #[serde(skip)]
    configurations_max: usize,
}

#[derive(Clone, Serialize)]
struct Open<Op> {
    op: Op,
    /// The client has gone on without an answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    given_up: bool,
}

#[derive(Clone, Serialize)]
#[serde(bound = "")]
struct Configuration<M: Model> {
    state: M,
    /// The open operations that took effect, with the answers that they must get.
    done: BTreeMap<Slot, Option<M::Ret>>,
}

pub(super) enum Misfit<Ret> {
    NoOrder { possible: Vec<Ret> },
    Bounded,
}

impl<M: Model> Frontier<M> {
    pub(super) fn new(state: M, configurations_max: usize) -> Self {
        let first = Configuration { state, done: BTreeMap::new() };
        let configurations = BTreeMap::from([(first.hash(), first)]);
        Frontier { open: BTreeMap::new(), configurations, configurations_max }
    }

    pub(super) fn invoke(&mut self, client: ClientId, op: M::Op) -> Slot {
        let mut slot = Slot { client, number: 0 };
        while self.open.contains_key(&slot) {
            slot.number += 1;
        }
        self.open.insert(slot, Open { op, given_up: false });
        slot
    }

    /// Notes that nobody waits for the answer any more; the operation may still take effect.
    pub(super) fn give_up(&mut self, slot: Slot) {
        if let Some(open) = self.open.get_mut(&slot) {
            open.given_up = true;
        }
        self.forget_settled();
    }

    /// Keeps the configurations that agree with the answer; an error if none does.
    pub(super) fn complete(&mut self, slot: Slot, ret: &M::Ret) -> Result<(), Misfit<M::Ret>> {
        let with_effect = self.expand(slot).ok_or(Misfit::Bounded)?;
        let mut kept = BTreeMap::new();
        let mut possible = Vec::new();
        for mut configuration in with_effect {
            match configuration.done.remove(&slot).flatten() {
                Some(answer) if answer == *ret => {
                    kept.insert(configuration.hash(), configuration);
                }
                Some(answer) if !possible.contains(&answer) => possible.push(answer),
                _ => {}
            }
        }
        if kept.is_empty() {
            // Sorted, because the order of hashes means nothing to readers.
            possible.sort_by_key(|answer| format!("{answer:?}"));
            return Err(Misfit::NoOrder { possible });
        }
        self.open.remove(&slot);
        self.configurations = kept;
        self.forget_settled();
        Ok(())
    }

    /// The only state in which the object can be, if no operation is open.
    pub(super) fn settled(&self) -> Option<&M> {
        let mut all = self.configurations.values();
        match (self.open.is_empty(), all.next(), all.next()) {
            (true, Some(only), None) => Some(&only.state),
            _ => None,
        }
    }

    /// All configurations in which `slot` took effect as late as possible; `None` if there are
    /// too many.
    fn expand(&self, slot: Slot) -> Option<Vec<Configuration<M>>> {
        let mut seen: BTreeSet<u64> = self.configurations.keys().copied().collect();
        let mut todo: Vec<Configuration<M>> = self.configurations.values().cloned().collect();
        let mut with_effect = Vec::new();
        while let Some(configuration) = todo.pop() {
            if configuration.done.contains_key(&slot) {
                with_effect.push(configuration);
                continue;
            }
            for (next, open) in &self.open {
                let Some(after) = configuration.after(*next, open) else { continue };
                if seen.len() >= self.configurations_max {
                    return None;
                }
                if seen.insert(after.hash()) {
                    todo.push(after);
                }
            }
        }
        Some(with_effect)
    }

    /// Drops the answers for which nobody waits, and the operations that took effect in every case.
    fn forget_settled(&mut self) {
        let given_up: Vec<Slot> =
            self.open.iter().filter(|(_, open)| open.given_up).map(|(slot, _)| *slot).collect();
        if given_up.is_empty() {
            return;
        }
        let mut all: Vec<_> = std::mem::take(&mut self.configurations).into_values().collect();
        for slot in given_up {
            if all.iter().all(|configuration| configuration.done.contains_key(&slot)) {
                self.open.remove(&slot);
                all.iter_mut().for_each(|configuration| drop(configuration.done.remove(&slot)));
            }
            let answers = all.iter_mut().filter_map(|one| one.done.get_mut(&slot));
            answers.for_each(|answer| *answer = None);
        }
        self.configurations = all.into_iter().map(|one| (one.hash(), one)).collect();
    }
}

impl<M: Model> Configuration<M> {
    /// The configuration in which one more operation took effect; `None` if it did already, or if
    /// its effect makes no difference.
    fn after(&self, slot: Slot, open: &Open<M::Op>) -> Option<Self> {
        if self.done.contains_key(&slot) {
            return None;
        }
        let mut after = self.clone();
        let ret = after.state.apply(&open.op);
        if open.given_up && hash(&after.state) == hash(&self.state) {
            return None;
        }
        after.done.insert(slot, (!open.given_up).then_some(ret));
        Some(after)
    }

    fn hash(&self) -> u64 {
        mix(hash(&self.state), hash(&self.done))
    }
}

/// Serialises only the values: the keys are hashes of them and mean nothing to a reader.
fn only_values<V: Serialize, S: Serializer>(
    map: &BTreeMap<u64, V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map.values())
}
