//! From records to the state of a node: the one meaning that watches, recordings and evidence share.

use std::collections::{BTreeMap, BTreeSet};

use super::{Tuple, What};
use crate::{EventKind, Value};

/// Applies a tuple to the value that a node holds under its key. A key has one value: adding
/// replaces it; removing takes it away if it is still the value that is removed, so what replaced a
/// tuple before it was removed stays.
pub fn settle(held: &mut Option<Value>, tuple: &Tuple, holds: bool) {
    match (held.as_mut(), holds) {
        (Some(value), true) => value.clone_from(&tuple.value),
        (None, true) => *held = Some(tuple.value.clone()),
        (Some(value), false) if *value == tuple.value => *held = None,
        (_, false) => {}
    }
}

/// Makes a tuple part of a state, or takes it out: its relation is a variable that maps keys to
/// values. The same as [`settle`], for all keys of a relation.
pub fn relate(fields: &mut BTreeMap<String, Value>, tuple: &Tuple, holds: bool) {
    let map = relation(fields, &tuple.relation);
    match map.get_mut(&tuple.key) {
        Some(value) if holds => value.clone_from(&tuple.value),
        Some(value) if *value == tuple.value => drop(map.remove(&tuple.key)),
        None if holds => drop(map.insert(tuple.key.clone(), tuple.value.clone())),
        _ => {}
    }
}

/// The map of a relation, which is made if need be.
pub fn relation<'a>(
    fields: &'a mut BTreeMap<String, Value>,
    name: &str,
) -> &'a mut BTreeMap<Value, Value> {
    let is_map = matches!(fields.get(name), Some(Value::Map(_)));
    if !is_map {
        fields.insert(name.to_owned(), Value::Map(BTreeMap::new()));
    }
    match fields.get_mut(name) {
        Some(Value::Map(map)) => map,
        _ => unreachable!("it was just made a map"),
    }
}

/// The observations of one node: its variables, and its relations as maps from key to value.
///
/// ```
/// use everhold_trace::wire::{Shown, Tuple, What};
///
/// let mut shown = Shown::default();
/// let lock = |mode: &str| Tuple { relation: "locks".into(), key: 7.into(), value: mode.into() };
/// shown.apply(&What::Observe(vec![("term".into(), 3.into())]));
/// shown.apply(&What::Add(lock("shared")));
/// shown.apply(&What::Add(lock("exclusive"))); // a key has one value
/// shown.apply(&What::Remove(lock("shared"))); // which was replaced before
/// assert_eq!(shown.state().to_string(), r#"{locks: {7 -> "exclusive"}, term: 3}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Shown {
    fields: BTreeMap<String, Value>,
    relations: BTreeSet<String>,
    telling: Option<Told>,
}

/// The observations since the node began to tell everything.
#[derive(Clone, Debug, Default)]
struct Told {
    variables: BTreeSet<String>,
    tuples: BTreeSet<(String, Value)>,
}

impl Shown {
    /// The state, as traces and properties see it.
    #[must_use]
    pub fn state(&self) -> Value {
        Value::Record(self.fields.clone())
    }

    /// Whether this field is a relation, made of tuples, and not a variable.
    #[must_use]
    pub fn is_relation(&self, name: &str) -> bool {
        self.relations.contains(name)
    }

    /// Takes in a record; returns whether it is one that shows something.
    pub fn apply(&mut self, what: &What) -> bool {
        match what {
            What::Observe(values) => self.observe(values),
            What::State(values) => {
                let relations = &self.relations;
                self.fields.retain(|name, _| relations.contains(name));
                self.observe(values);
            }
            What::Add(tuple) => self.tuple(tuple, true),
            What::Remove(tuple) => self.tuple(tuple, false),
            What::Refresh => {
                self.telling = Some(Told::default());
                return false;
            }
            What::Whole => return self.forget_untold(),
            What::Event(EventKind::Crash | EventKind::Restart | EventKind::Start) => {
                *self = Shown::default();
                return false;
            }
            What::Event(_) | What::Send { .. } | What::Note(_) => return false,
        }
        true
    }

    fn observe(&mut self, values: &[(super::Name, Value)]) {
        for (name, value) in values {
            let name = name.as_ref();
            match self.fields.get_mut(name) {
                Some(held) => held.clone_from(value),
                None => drop(self.fields.insert(name.to_owned(), value.clone())),
            }
            self.relations.remove(name);
            if let Some(told) = &mut self.telling {
                told.variables.insert(name.to_owned());
            }
        }
    }

    fn tuple(&mut self, tuple: &Tuple, holds: bool) {
        let name = tuple.relation.as_ref();
        relate(&mut self.fields, tuple, holds);
        if !self.relations.contains(name) {
            self.relations.insert(name.to_owned());
        }
        if let Some(told) = &mut self.telling {
            told.tuples.insert((name.to_owned(), tuple.key.clone()));
        }
    }

    /// The node has told everything since it began to: what it did not tell is gone.
    fn forget_untold(&mut self) -> bool {
        let Some(told) = self.telling.take() else { return false };
        let relations = &self.relations;
        self.fields.retain(|name, value| match value {
            Value::Map(map) if relations.contains(name) => {
                map.retain(|key, _| told.tuples.contains(&(name.clone(), key.clone())));
                true
            }
            _ => told.variables.contains(name),
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(key: i64, value: &str) -> Tuple {
        Tuple { relation: "locks".into(), key: key.into(), value: value.into() }
    }

    #[track_caller]
    fn check(records: &[What], expected: &str) {
        let mut shown = Shown::default();
        for what in records {
            let _ = shown.apply(what);
        }
        assert_eq!(shown.state().to_string(), expected);
    }

    #[test]
    fn tuples_are_maps_whose_keys_have_one_value() {
        let (add, remove) = (|k, v| What::Add(tuple(k, v)), |k, v| What::Remove(tuple(k, v)));
        check(&[add(1, "a"), add(1, "b"), remove(1, "a")], r#"{locks: {1 -> "b"}}"#);
        check(&[add(1, "a"), remove(1, "b"), add(2, "c")], r#"{locks: {1 -> "a", 2 -> "c"}}"#);
        check(&[add(1, "a"), remove(1, "a")], "{locks: {->}}");
        check(&[remove(1, "a")], "{locks: {->}}");
    }

    #[test]
    fn a_whole_state_is_that_of_the_variables() {
        let state = |x: i64| What::State(vec![("x".into(), x.into())]);
        let y = What::Observe(vec![("y".into(), 1.into())]);
        check(&[y, What::Add(tuple(1, "a")), state(2)], r#"{locks: {1 -> "a"}, x: 2}"#);
    }

    #[test]
    fn what_is_not_told_again_is_gone() {
        let x = || What::Observe(vec![("x".into(), 1.into())]);
        let y = || What::Observe(vec![("y".into(), 1.into())]);
        let add = |key| What::Add(tuple(key, "a"));
        let again = [x(), y(), add(1), add(2), What::Refresh, y(), add(2), What::Whole];
        check(&again, r#"{locks: {2 -> "a"}, y: 1}"#);
        check(&again[..7], r#"{locks: {1 -> "a", 2 -> "a"}, x: 1, y: 1}"#);
        check(&[x(), What::Whole], "{x: 1}");
    }

    /// The value under one key and the map of all of them are changed by one rule.
    #[test]
    fn one_key_is_settled_like_the_map() {
        let mut seed = 5_u64;
        let (mut held, mut fields) = (None, BTreeMap::new());
        for _ in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let tuple = tuple(1, ["a", "b", "c"][(seed >> 40) as usize % 3]);
            let holds = seed >> 63 == 0;
            settle(&mut held, &tuple, holds);
            relate(&mut fields, &tuple, holds);
            assert_eq!(relation(&mut fields, "locks").get(&1.into()), held.as_ref());
        }
    }
}
