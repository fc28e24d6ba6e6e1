//! Judging in the forms that keep nothing for a key, and at some moments only.

use everhold_trace::NodeId;
use everhold_trace::wire::Stamp;

use super::sampling::Due;
use super::{Form, Judged, Watched, nanos};
use crate::world::{SlotId, Touched, World};

impl Watched {
    /// Notes what changed for the next moment at which the rule is judged.
    pub(super) fn put_off(&mut self, touched: Touched, world: &World, at: Stamp) {
        let Some(moments) = &mut self.moments else { return };
        match (&self.keyed, touched) {
            (_, Touched::Nothing)
            | (None, Touched::Cell { mapped: false, .. })
            | (Some(_), Touched::Channel(_)) => {}
            (Some(keyed), Touched::Cell { slot, .. }) => {
                if keyed.takes(world, slot) {
                    moments.note(Some(slot), at);
                }
            }
            (Some(keyed), Touched::Node(_)) if keyed.variables.is_empty() => {}
            _ => moments.note(None, at),
        }
    }

    /// Judges what changed before the last moment at which the rule is judged, if that is over.
    /// Returns that moment.
    pub(crate) fn settle(
        &mut self,
        world: &World,
        now: Stamp,
        judged: &mut Vec<Judged>,
    ) -> Option<Stamp> {
        let (at, due) = self.moments.as_mut()?.take(now)?;
        self.timed(world, judged, |rule, judged| match due {
            // Who is there decides what every form judges anew.
            Due::All => rule.judge(world, Touched::Members(NodeId(0)), at, judged),
            Due::Slots(slots) => {
                slots.into_iter().for_each(|slot| rule.judge_slot(world, slot, at, judged));
            }
        });
        Some(at)
    }

    /// Judges all that is said of a key.
    fn judge_slot(&mut self, world: &World, slot: SlotId, at: Stamp, judged: &mut Vec<Judged>) {
        let verdict = match &mut self.form {
            Form::Tuples(tuples) => tuples.judge(world, slot, None),
            Form::Present(present) => present.judge(world, slot, None),
            Form::ByKey(by_key) => return by_key.judge_slot(world, slot, nanos(at), judged),
            Form::Whole(_) => return,
        };
        judged.push(Judged { slot: Some(slot), verdict });
    }

    /// Judges what a change touched, in the forms that keep nothing for a key.
    pub(super) fn judge_cheaply(
        &mut self,
        world: &World,
        touched: Touched,
        at: Stamp,
        judged: &mut Vec<Judged>,
    ) {
        let variables = self.keyed.as_ref().is_some_and(|keyed| !keyed.variables.is_empty());
        match touched {
            Touched::Cell { slot, .. } if !self.takes(world, slot) => {}
            Touched::Cell { slot, node, .. } => {
                let verdict = match &mut self.form {
                    Form::Tuples(tuples) => {
                        // A violation is over only if no other tuple violates, and a key is
                        // decided only if all its tuples are.
                        let key = &world.slot(slot).key;
                        let firing =
                            !self.firing.is_empty() && self.firing.contains_key(&Some(key.clone()));
                        let all = firing || self.undecided.contains(&slot);
                        tuples.judge(world, slot, (!all).then_some(node))
                    }
                    Form::Present(present) => present.judge(world, slot, Some(node)),
                    Form::Whole(_) | Form::ByKey(_) => return,
                };
                judged.push(Judged { slot: Some(slot), verdict });
            }
            Touched::Members(_) | Touched::Knowledge(_) => self.judge_all(world, at, judged),
            Touched::Node(_) if variables => self.judge_all(world, at, judged),
            Touched::Node(_) | Touched::Channel(_) | Touched::Nothing => {}
        }
    }

    /// Whether the key of a slot is among those that the rule is judged for.
    fn takes(&self, world: &World, slot: SlotId) -> bool {
        self.keyed.as_ref().is_some_and(|keyed| keyed.takes(world, slot))
    }

    fn judge_all(&mut self, world: &World, at: Stamp, judged: &mut Vec<Judged>) {
        match &mut self.form {
            Form::Tuples(tuples) => tuples.refresh(world),
            Form::Present(present) => present.refresh(world),
            Form::Whole(_) | Form::ByKey(_) => return,
        }
        for slot in (0..world.slot_count()).filter(|slot| world.is_used(*slot)) {
            if self.takes(world, slot) {
                self.judge_slot(world, slot, at, judged);
            }
        }
    }
}
