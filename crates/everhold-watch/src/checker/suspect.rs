//! Violations that wait until they are certain; see `certainty`.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::{ExprKind, Property, Quantifier, State, Verdict, Witness};
use everhold_trace::wire::{Name, Stamp};
use everhold_trace::{NodeId, Value};

use super::PartitionChecker;
use crate::assemble::{Change, Changing};
use crate::certainty::{Alarm, Standing, Suspicion};
use crate::notice::{Certainty, Notice, ViolationId};
use crate::save::{Fields, Read, list, number, stamp};
use crate::world::{SlotId, World};

/// When the variables of nodes last changed their values.
#[derive(Clone, Debug, Default)]
pub(super) struct LastChanges(BTreeMap<NodeId, BTreeMap<Name, Stamp>>);

/// The part of a node that a change concerns.
pub(super) enum Concern {
    Nothing,
    One(Name),
    Some(Vec<Name>),
    All,
}

impl Concern {
    pub(super) fn is_with(&self, reads: &BTreeSet<String>) -> bool {
        match self {
            Concern::Nothing => false,
            Concern::One(name) => reads.contains(&**name),
            Concern::Some(names) => names.iter().any(|name| reads.contains(&**name)),
            Concern::All => true,
        }
    }
}

impl LastChanges {
    /// Remembers a change that is about to be made; says what changes by it.
    pub(super) fn note(&mut self, change: &Change, world: &World) -> Concern {
        let node = change.node;
        let concern = match &change.what {
            Changing::Observe(values) => changed(values, node, world),
            Changing::State(values) => {
                let is_told = |name: &Name| values.iter().any(|(told, _)| told == name);
                let before = world.variables(node).into_iter().map(|(name, _)| name);
                let gone = before.filter(|name| !is_told(name));
                match changed(values, node, world) {
                    Concern::Some(names) => Concern::Some(names.into_iter().chain(gone).collect()),
                    Concern::One(name) => Concern::Some(gone.chain([name]).collect()),
                    _ => Concern::Some(gone.collect()),
                }
            }
            Changing::Add(tuple) | Changing::Remove(tuple) => {
                let relation = Concern::One(Name::clone(&tuple.relation));
                // Of relations that are read by key, the cells say when they changed.
                if !world.mapped().contains(&*tuple.relation) {
                    return relation;
                }
                relation
            }
            Changing::Up { .. } | Changing::Down { .. } => {
                self.0.remove(&node);
                Concern::All
            }
            _ => Concern::Nothing,
        };
        let names = match &concern {
            Concern::One(name) => std::slice::from_ref(name),
            Concern::Some(names) => names,
            Concern::Nothing | Concern::All => return concern,
        };
        let changes = self.0.entry(node).or_default();
        for name in names {
            match changes.get_mut(name) {
                Some(at) => *at = change.at,
                None => drop(changes.insert(Name::clone(name), change.at)),
            }
        }
        concern
    }

    /// When one of these variables of a node last changed.
    fn last<'n>(&self, node: NodeId, names: impl IntoIterator<Item = &'n String>) -> Stamp {
        let Some(changes) = self.0.get(&node) else { return Stamp(0) };
        let last = names.into_iter().filter_map(|name| changes.get(name.as_str()));
        last.copied().max().unwrap_or_default()
    }

    pub(super) fn save(&self) -> Value {
        list(self.0.iter().flat_map(|(node, changes)| {
            let node = number(node.0.into());
            let one = move |(name, at): (&Name, &Stamp)| {
                list([node.clone(), name.as_ref().into(), stamp(*at)])
            };
            changes.iter().map(one)
        }))
    }

    pub(super) fn load(value: Value) -> Read<LastChanges> {
        let mut changes = LastChanges::default();
        let all = Fields::of(list([value]))?
            .each(|f| Ok((f.node()?, Name::from(f.text()?), f.stamp()?)))?;
        for (node, name, at) in all {
            changes.0.entry(node).or_default().insert(name, at);
        }
        Ok(changes)
    }
}

/// The variables that change by an observation.
fn changed(values: &[(Name, Value)], node: NodeId, world: &World) -> Concern {
    let differs = |(name, value): &&(Name, Value)| world.variable(node, name) != Ok(value);
    match values {
        [one] if differs(&one) => Concern::One(Name::clone(&one.0)),
        [_] => Concern::Nothing,
        _ => {
            let names = values.iter().filter(differs).map(|(name, _)| Name::clone(name));
            Concern::Some(names.collect())
        }
    }
}

/// Whether a witness names all nodes that a violation depends on.
fn is_universal(property: &Property) -> bool {
    !property.body.any(&mut |expr| match &expr.kind {
        ExprKind::Aggregate { .. } | ExprKind::History { .. } => true,
        ExprKind::Quantified { quantifier, .. } => *quantifier != Quantifier::Forall,
        _ => false,
    })
}

impl PartitionChecker {
    /// Tells the suspicions of a rule and key what a change means for them.
    pub(super) fn suspect(
        &mut self,
        place: usize,
        key: &Option<Value>,
        verdict: Verdict,
        (at, by): (Stamp, Option<NodeId>),
    ) {
        if self.suspicions.is_empty() {
            return;
        }
        let of = (self.rules[place].name.clone(), key.clone());
        let Some(some) = self.suspicions.get_mut(&of) else { return };
        let assembler = &self.assembler;
        let error = |node| assembler.error_of(node);
        for one in some {
            match (one.over, verdict, by) {
                (None, Verdict::Violated, Some(node)) => one.goes_on(node, at, &error),
                (None, Verdict::Holds, Some(node)) => one.is_over(node, at),
                (None, Verdict::Holds, None) => one.over = Some(at),
                (Some(_), _, Some(node)) => one.ends(node, at),
                _ => {}
            }
        }
    }

    /// Whether a violation has not been reported yet.
    pub(super) fn is_suspected(&self, place: usize, key: &Option<Value>, id: ViolationId) -> bool {
        if self.suspicions.is_empty() {
            return false;
        }
        let of = (self.rules[place].name.clone(), key.clone());
        let some = self.suspicions.get(&of);
        some.is_some_and(|some| some.iter().any(|one| one.violation.id == id))
    }

    /// Since when each node that a violation depends on shows what it shows.
    pub(super) fn begun(
        &self,
        place: usize,
        slot: Option<SlotId>,
        witness: &Witness,
    ) -> Vec<(NodeId, Stamp)> {
        let rule = &self.rules[place];
        let bound = witness.bindings.iter().filter_map(|item| match &item.value {
            Ok(Value::Node(node)) => Some(*node),
            _ => None,
        });
        let mut nodes: BTreeSet<NodeId> = bound.collect();
        if nodes.is_empty() || !is_universal(&rule.property) {
            let up = self.world.members().iter().filter(|member| member.up);
            nodes = up.map(|member| member.id).collect();
        }
        let cell_of = |node| {
            let cells = slot.map_or(&[][..], |slot| &self.world.slot(slot).cells);
            let read = |cell: &&crate::world::Cell| rule.reads.contains(&*cell.relation);
            let own = cells.iter().filter(|cell| cell.node == node).filter(read);
            own.map(|cell| cell.at).max().unwrap_or_default()
        };
        let told: Option<BTreeSet<&str>> = rule.keyed().map(|keyed| keyed.told().collect());
        let plain = |name: &&String| told.as_ref().is_none_or(|told| !told.contains(name.as_str()));
        let since = |node: NodeId| {
            let variables = self.last_changes.last(node, rule.reads.iter().filter(plain));
            (node, variables.max(cell_of(node)))
        };
        nodes.into_iter().map(since).collect()
    }

    /// Tells a violation if it is certain, or if possible ones are alarms; else it waits.
    pub(super) fn weigh(
        &mut self,
        place: usize,
        mut suspicion: Suspicion,
        at: Stamp,
        notices: &mut Vec<Notice>,
    ) {
        let error = |node| self.assembler.error_of(node);
        let is_certain = suspicion.standing(at, &error) == Standing::Definite;
        if is_certain || self.options.alarm == Alarm::Possible {
            if !is_certain {
                let error = suspicion.error_micros(&error);
                suspicion.violation.certainty = Certainty::Possible { error };
            }
            self.rules[place].counts.violations += 1;
            notices.push(Notice::Fired(suspicion.violation));
        } else {
            let of = (self.rules[place].name.clone(), suspicion.violation.key.clone());
            self.suspicions.entry(of).or_default().push(suspicion);
        }
    }

    /// Tells the suspicions that are decided now that all changes below `reached` are known.
    pub(super) fn decide(&mut self, reached: Stamp, notices: &mut Vec<Notice>) {
        for ((rule, key), some) in std::mem::take(&mut self.suspicions) {
            let Some(place) = self.rules.iter().position(|other| other.name == rule) else {
                continue;
            };
            let mut open = Vec::new();
            for one in some {
                let error = |node| self.assembler.error_of(node);
                match one.standing(reached, &error) {
                    Standing::Open => open.push(one),
                    Standing::Definite => self.is_definite(place, one, notices),
                    Standing::Possible => {
                        let error = one.error_micros(&error);
                        self.is_possible(place, one, error, notices);
                    }
                }
            }
            if !open.is_empty() {
                self.suspicions.insert((rule, key), open);
            }
        }
    }

    fn is_definite(&mut self, place: usize, one: Suspicion, notices: &mut Vec<Notice>) {
        let rule = &mut self.rules[place];
        rule.counts.violations += 1;
        let (id, since) = (one.violation.id, one.violation.at);
        let key = one.violation.key.clone();
        notices.push(Notice::Fired(one.violation));
        // One that waits for a node that fell silent may still go on.
        let waits = rule.firing.get(&key).is_some_and(|firing| firing.id == id);
        if let Some(at) = one.over.filter(|_| !waits) {
            notices.push(Notice::Resolved { id, rule: rule.name.clone(), key, since, at });
        }
    }

    fn is_possible(
        &mut self,
        place: usize,
        mut one: Suspicion,
        error: u64,
        notices: &mut Vec<Notice>,
    ) {
        let rule = &mut self.rules[place];
        rule.counts.possible += 1;
        let id = one.violation.id;
        if rule.firing.get(&one.violation.key).is_some_and(|firing| firing.id == id) {
            rule.firing.remove(&one.violation.key);
        }
        one.violation.certainty = Certainty::Possible { error };
        notices.push(Notice::Possible(one.violation));
    }

    /// Tells of clocks that began or ceased to disagree with the others.
    pub(super) fn tell_clocks(&mut self, notices: &mut Vec<Notice>) {
        let at = Stamp::from_micros(self.assembler.now());
        for news in self.assembler.take_clock_news() {
            let name = news.node.map_or_else(|| "the watch".to_owned(), |n| self.name_of(n));
            let (node, ahead, strays) = (news.node, news.ahead, news.strays);
            notices.push(Notice::Clock { node, name, ahead, strays, at });
        }
    }
}
