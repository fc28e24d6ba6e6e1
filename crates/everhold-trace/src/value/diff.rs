//! The changes between two values, and how to apply them to a third.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Name;
use crate::Value;

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A field of a record.
    Field(String),
    /// A position in a list.
    Index(usize),
    /// A key of a map, or an element of a set.
    Key(Value),
    /// The payload of a variant.
    Payload,
}

/// The way from the root of a value to a part of it; empty for the root itself.
///
/// ```
/// use everhold_trace::value::{Path, Step};
/// let path = Path(vec![Step::Field("log".into()), Step::Index(2), Step::Field("term".into())]);
/// assert_eq!(path.to_string(), "log[2].term");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub Vec<Step>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if i == 0 => write!(f, "{}", Name(name))?,
                Step::Field(name) => write!(f, ".{}", Name(name))?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
                Step::Payload => write!(f, "()")?,
            }
        }
        Ok(())
    }
}

/// One difference between two values. `None` means that the part is absent on that side.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    /// Where.
    pub path: Path,
    /// The value before the change.
    pub old: Option<Value>,
    /// The value after the change.
    pub new: Option<Value>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{}: {old} -> {new}", self.path),
            (None, Some(new)) => write!(f, "{}: + {new}", self.path),
            (Some(old), None) => write!(f, "{}: - {old}", self.path),
            (None, None) => write!(f, "{}: unchanged", self.path),
        }
    }
}

/// The smallest parts that differ, in the order in which [`apply`] replays them.
///
/// Records, maps, sets and variants of one name are compared part by part; lists position by
/// position, so an insertion at the front shows as a change of every later position.
///
/// ```
/// use everhold_trace::{Value, value::diff};
/// let old = Value::record([("term", 1), ("vote", 0)]);
/// let new = Value::record([("term", 2), ("vote", 0)]);
/// let changes = diff(&old, &new);
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].to_string(), "term: 1 -> 2");
/// ```
#[must_use]
pub fn diff(old: &Value, new: &Value) -> Vec<Change> {
    let mut differ = Differ { path: Vec::new(), changes: Vec::new() };
    differ.compare(Some(old), Some(new));
    differ.changes
}

/// A change that does not fit the value it is applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyError {
    /// The change's path.
    pub path: Path,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no place `{}` in the state before; write a full state before the first change",
            self.path
        )
    }
}

impl std::error::Error for ApplyError {}

/// Replays changes on a value; `apply(old, &diff(old, new))` makes it `new`.
///
/// Only the paths and the new parts are used.
pub fn apply(value: &mut Value, changes: &[Change]) -> Result<(), ApplyError> {
    for change in changes {
        set(value, &change.path.0, change.new.as_ref())
            .ok_or_else(|| ApplyError { path: change.path.clone() })?;
    }
    Ok(())
}

struct Differ {
    path: Vec<Step>,
    changes: Vec<Change>,
}

impl Differ {
    fn compare(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(a), Some(b)) if a == b => {}
            (Some(Value::Record(a)), Some(Value::Record(b))) => {
                self.entries(a, b, |key: &String| Step::Field(key.clone()));
            }
            (Some(Value::Map(a)), Some(Value::Map(b))) => {
                self.entries(a, b, |key: &Value| Step::Key(key.clone()));
            }
            (Some(Value::Set(a)), Some(Value::Set(b))) => self.elements(a, b),
            (Some(Value::List(a)), Some(Value::List(b))) => self.items(a, b),
            (
                Some(Value::Variant { name: a, payload: x }),
                Some(Value::Variant { name: b, payload: y }),
            ) if a == b => self.step(Step::Payload, Some(x), Some(y)),
            _ => self.changes.push(Change {
                path: Path(self.path.clone()),
                old: old.cloned(),
                new: new.cloned(),
            }),
        }
    }

    fn step(&mut self, step: Step, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        self.path.push(step);
        self.compare(old, new);
        self.path.pop();
    }

    fn entries<K: Ord>(
        &mut self,
        old: &BTreeMap<K, Value>,
        new: &BTreeMap<K, Value>,
        step: impl Fn(&K) -> Step,
    ) {
        let keys: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
        for key in keys {
            self.step(step(key), old.get(key), new.get(key));
        }
    }

    fn elements(&mut self, old: &BTreeSet<Value>, new: &BTreeSet<Value>) {
        for element in old.symmetric_difference(new) {
            let side = |set: &BTreeSet<Value>| set.get(element).cloned();
            let (old, new) = (side(old), side(new));
            self.step(Step::Key(element.clone()), old.as_ref(), new.as_ref());
        }
    }

    fn items(&mut self, old: &[Value], new: &[Value]) {
        for i in 0..old.len().min(new.len()) {
            self.step(Step::Index(i), Some(&old[i]), Some(&new[i]));
        }
        for (i, item) in new.iter().enumerate().skip(old.len()) {
            self.step(Step::Index(i), None, Some(item));
        }
        // From the back, so that each removal is of the last item when replayed.
        for (i, item) in old.iter().enumerate().skip(new.len()).rev() {
            self.step(Step::Index(i), Some(item), None);
        }
    }
}

fn set(value: &mut Value, path: &[Step], new: Option<&Value>) -> Option<()> {
    let Some((step, rest)) = path.split_first() else {
        *value = new?.clone();
        return Some(());
    };
    match (value, step) {
        (Value::Record(fields), Step::Field(key)) => set_entry(fields, key, rest, new),
        (Value::Map(entries), Step::Key(key)) => set_entry(entries, key, rest, new),
        (Value::Set(elements), Step::Key(key)) if rest.is_empty() => {
            match new {
                Some(_) => elements.insert(key.clone()),
                None => elements.remove(key),
            };
            Some(())
        }
        (Value::List(items), Step::Index(index)) => set_item(items, *index, rest, new),
        (Value::Variant { payload, .. }, Step::Payload) => set(payload, rest, new),
        _ => None,
    }
}

fn set_entry<K: Ord + Clone>(
    entries: &mut BTreeMap<K, Value>,
    key: &K,
    rest: &[Step],
    new: Option<&Value>,
) -> Option<()> {
    match (rest, new) {
        ([], Some(new)) => {
            entries.insert(key.clone(), new.clone());
            Some(())
        }
        ([], None) => entries.remove(key).map(|_| ()),
        _ => set(entries.get_mut(key)?, rest, new),
    }
}

fn set_item(
    items: &mut Vec<Value>,
    index: usize,
    rest: &[Step],
    new: Option<&Value>,
) -> Option<()> {
    match (rest, new) {
        ([], Some(new)) if index == items.len() => {
            items.push(new.clone());
            Some(())
        }
        ([], None) if index + 1 == items.len() => items.pop().map(|_| ()),
        ([], None) => None,
        _ => set(items.get_mut(index)?, rest, new),
    }
}
