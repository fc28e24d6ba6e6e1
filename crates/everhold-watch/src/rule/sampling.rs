//! Rules that are judged for a part of the keys, and at some of the moments.

use std::collections::BTreeSet;

use everhold_property::{Sampling, Share};
use everhold_trace::Value;
use everhold_trace::value::StableHash;
use everhold_trace::wire::Stamp;

use crate::save::{Fields, Read, list, number};
use crate::world::{SlotId, World};

/// Whether a share of the keys has this one. That depends on the key alone, so that rules with the
/// same share look at the same keys, and a larger share has all keys of a smaller one.
pub(super) fn is_in(share: Option<Share>, key: &Value) -> bool {
    let Some(Share { some, of }) = share else { return true };
    let place = u128::from(mixed(StableHash::of(key))) * u128::from(of);
    (place >> 64) < u128::from(some)
}

/// The last step of `SplitMix64`: partitions rest on the hash itself, and a share of the keys must be
/// spread over all of them.
fn mixed(hash: u64) -> u64 {
    let z = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The changes since the last judgement of a rule that is judged at some moments only.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    /// The microseconds between two moments.
    every: u64,
    /// The moment at which it is judged next, in microseconds; nothing changed if there is none.
    due: Option<u64>,
    /// Whether anything may have changed; otherwise these keys.
    all: bool,
    slots: BTreeSet<SlotId>,
}

/// The part that must be judged again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    All,
    Slots(BTreeSet<SlotId>),
}

impl Moments {
    /// `None` if the rule is judged after every change.
    pub(super) fn of(sampling: Sampling) -> Option<Moments> {
        let every = (sampling.every? / 1_000).max(1);
        Some(Moments { every, due: None, all: false, slots: BTreeSet::new() })
    }

    /// Something changed: what is said of a key, or (`None`) anything.
    pub(super) fn note(&mut self, slot: Option<SlotId>, at: Stamp) {
        let next = (at.micros() / self.every + 1) * self.every;
        self.due = Some(self.due.unwrap_or(next));
        match slot {
            Some(slot) => drop(self.slots.insert(slot)),
            None => self.all = true,
        }
    }

    /// Whether a key waits to be judged.
    pub(super) fn waits(&self, slot: SlotId) -> bool {
        self.slots.contains(&slot)
    }

    /// Takes the part that is due by now, with the moment at which it is judged. Every change before that moment has
    /// been noted, and none after it.
    pub(super) fn take(&mut self, now: Stamp) -> Option<(Stamp, Due)> {
        let due = self.due.filter(|due| now.micros() >= *due)?;
        self.due = None;
        let slots = std::mem::take(&mut self.slots);
        let what = if std::mem::take(&mut self.all) { Due::All } else { Due::Slots(slots) };
        Some((Stamp::from_micros(due), what))
    }

    pub(super) fn save(&self, world: &World) -> Value {
        let keys = self.slots.iter().map(|slot| world.slot(*slot).key.clone());
        let due = self.due.map_or(Value::Null, number);
        list([due, self.all.into(), list(keys)])
    }

    pub(super) fn load(&mut self, saved: Value, world: &World) -> Read<()> {
        let mut fields = Fields::of(saved)?;
        self.due = match fields.any()? {
            Value::Null => None,
            due => Some(Fields::of(list([due]))?.number()?),
        };
        self.all = fields.flag()?;
        self.slots = fields.items()?.iter().filter_map(|key| world.slot_of(key)).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(some: u64, of: u64) -> Option<Share> {
        Some(Share { some, of })
    }

    /// Other versions must look at the same keys.
    #[test]
    fn a_share_has_the_same_keys_for_ever() {
        let keys = (0..400).filter(|key| is_in(share(1, 100), &Value::Int(*key)));
        assert_eq!(keys.collect::<Vec<i64>>(), GOLDEN);
    }

    const GOLDEN: [i64; 6] = [173, 174, 210, 319, 324, 379];

    #[test]
    fn a_share_is_as_large_as_it_says_and_has_all_of_a_smaller_one() {
        let keys: Vec<Value> = (0..20_000).map(|i| Value::from(format!("lock-{i}"))).collect();
        let of = |some, of| keys.iter().filter(move |key| is_in(share(some, of), key));
        // 200 are expected, give or take 14; 5 standard deviations are 70.
        assert!((130..270).contains(&of(1, 100).count()), "{}", of(1, 100).count());
        assert!(of(1, 100).all(|key| is_in(share(1, 10), key)));
        assert_eq!(of(3, 3).count(), keys.len());
    }

    /// The keys of one partition are sampled as all are.
    #[test]
    fn a_share_is_spread_over_partitions() {
        let keys: Vec<Value> = (0..20_000).map(Value::Int).collect();
        for partition in 0..8 {
            let here =
                |key: &&Value| crate::log::partition_of(crate::world::hash_of(key), 8) == partition;
            let sampled = keys.iter().filter(here).filter(|key| is_in(share(1, 10), key)).count();
            // 250 are expected, give or take 15; 5 standard deviations are 75.
            assert!((175..325).contains(&sampled), "{sampled} in partition {partition}");
        }
    }

    #[test]
    fn changes_are_due_at_the_next_moment() {
        let at = |micros| Stamp::from_micros(micros);
        let sampling = Sampling { keys: None, every: Some(100_000) };
        let mut moments = Moments::of(sampling).expect("it is judged at moments");
        assert_eq!(moments.take(at(1_000)), None, "nothing changed");
        moments.note(Some(3), at(1_000));
        moments.note(Some(4), at(1_099));
        assert_eq!(moments.take(at(1_099)), None);
        assert_eq!(moments.take(at(1_350)), Some((at(1_100), Due::Slots([3, 4].into()))));
        assert_eq!(moments.take(at(1_500)), None, "it was taken");
    }
}
