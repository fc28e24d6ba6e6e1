//! Keyed rules that look back or wait: one checker a key.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::{Changed, Checker, Modality, Rule, Verdict, Violation};

use super::keyed::Keyed;
use super::view::{KeyView, state_under};
use super::{Judged, forget_the_past};
use crate::world::{SlotId, Touched, World};

#[derive(Clone, Debug)]
pub(super) struct ByKey {
    pub(super) keyed: Keyed,
    pub(super) rule: Rule,
    pub(super) keys: BTreeMap<SlotId, OneKey>,
    /// The keys of which something is owed.
    pub(super) open: BTreeSet<SlotId>,
    /// The keys whose data was late; each is reported once, when that is over.
    pub(super) late: BTreeSet<SlotId>,
}

#[derive(Clone, Debug)]
pub(super) struct OneKey {
    pub(super) checker: Checker,
    pub(super) view: KeyView,
}

impl ByKey {
    pub(super) fn new(rule: &Rule, keyed: &Keyed) -> ByKey {
        ByKey {
            keyed: keyed.clone(),
            rule: rule.clone(),
            keys: BTreeMap::new(),
            open: BTreeSet::new(),
            late: BTreeSet::new(),
        }
    }

    pub(super) fn touch(
        &mut self,
        world: &World,
        touched: Touched,
        now_ns: u64,
        judged: &mut Vec<Judged>,
    ) {
        match touched {
            Touched::Cell { slot, .. } if !self.keyed.takes(world, slot) => {}
            Touched::Cell { slot, node, .. } => {
                let state = state_under(&self.keyed, world, Some(slot), node);
                let one = self.one(world, slot);
                one.view.set(node, state);
                let verdict = one.checker.step(&one.view, Changed::Node(node), now_ns);
                forget_the_past(&mut one.checker, verdict);
                self.judged(slot, verdict, judged);
            }
            Touched::Members(_) | Touched::Knowledge(_) => self.all(world, now_ns, judged),
            Touched::Node(_) if !self.keyed.variables.is_empty() => self.all(world, now_ns, judged),
            Touched::Node(_) | Touched::Channel(_) | Touched::Nothing => {}
        }
    }

    fn all(&mut self, world: &World, now_ns: u64, judged: &mut Vec<Judged>) {
        for slot in 0..world.slot_count() {
            if !world.is_used(slot) {
                self.forget(slot);
                continue;
            }
            if self.keyed.takes(world, slot) {
                self.judge_slot(world, slot, now_ns, judged);
            }
        }
    }

    /// Judges all that is said of a key.
    pub(super) fn judge_slot(
        &mut self,
        world: &World,
        slot: SlotId,
        now_ns: u64,
        judged: &mut Vec<Judged>,
    ) {
        let view = KeyView::of(&self.keyed, world, slot);
        let one = self.one(world, slot);
        one.view = view;
        let verdict = one.checker.step(&one.view, Changed::All, now_ns);
        forget_the_past(&mut one.checker, verdict);
        self.judged(slot, verdict, judged);
    }

    fn one(&mut self, world: &World, slot: SlotId) -> &mut OneKey {
        let (keyed, rule) = (&self.keyed, &self.rule);
        self.keys.entry(slot).or_insert_with(|| OneKey {
            checker: Checker::new(rule),
            view: KeyView::of(keyed, world, slot),
        })
    }

    fn judged(&mut self, slot: SlotId, verdict: Verdict, judged: &mut Vec<Judged>) {
        if self.keys.get(&slot).is_some_and(|one| one.checker.is_open()) {
            self.open.insert(slot);
        } else {
            self.open.remove(&slot);
        }
        self.note_late(slot, verdict);
        judged.push(Judged { slot: Some(slot), verdict });
    }

    pub(super) fn tick(&mut self, now_ns: u64, judged: &mut Vec<Judged>) {
        for slot in self.open.union(&self.late).copied().collect::<Vec<_>>() {
            let Some(one) = self.keys.get_mut(&slot) else { continue };
            let verdict = one.checker.tick(&one.view, now_ns);
            forget_the_past(&mut one.checker, verdict);
            let over = verdict == Verdict::Holds && self.late.contains(&slot);
            if verdict == Verdict::Violated || over {
                self.note_late(slot, verdict);
                judged.push(Judged { slot: Some(slot), verdict });
            }
        }
    }

    fn note_late(&mut self, slot: SlotId, verdict: Verdict) {
        match verdict {
            Verdict::Violated if self.has_deadline() => drop(self.late.insert(slot)),
            Verdict::Holds => drop(self.late.remove(&slot)),
            _ => {}
        }
    }

    pub(super) fn has_deadline(&self) -> bool {
        !matches!(self.rule.property().modality, Modality::Always | Modality::Sometimes)
    }

    pub(super) fn take_violation(&mut self, slot: SlotId) -> Option<Violation> {
        self.keys.get_mut(&slot)?.checker.take_violation()
    }

    /// The key is used no more.
    pub(super) fn forget(&mut self, slot: SlotId) {
        self.keys.remove(&slot);
        self.open.remove(&slot);
        self.late.remove(&slot);
    }

    /// Whether forgetting the key would forget something owed.
    pub(super) fn is_busy(&self, slot: SlotId) -> bool {
        self.open.contains(&slot)
    }
}
