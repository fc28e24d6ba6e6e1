//! What a variable can hold: the closed set of values that traces record and properties speak of.
//!
//! - [`Value`] with total order and hash, and its text form.
//! - [`Value::of`] turns any `Serialize` value into one.
//! - [`json`] maps it to JSON and back, losing nothing.
//! - [`diff`] names what changed between two values, and [`apply`] replays it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::Serialize;

use crate::NodeId;

mod diff;
pub mod json;
mod ser;
mod stable;

pub use diff::{ApplyError, Change, Path, Step, apply, diff};
pub use json::JsonError;
pub use ser::{SET_TOKEN, ValueError, serialize_set};
pub use stable::StableHash;

/// One recorded value.
///
/// Equality, order and hash are total and structural: floats compare by [`f64::total_cmp`] (a NaN
/// equals itself, `-0.0` is less than `0.0`), and `Int(1)` is not `Float(1.0)`; comparing numbers
/// by size is the business of the property language. Values of different kinds sort in the order
/// of the variants.
///
/// An integer outside the range of `i64` is kept as its decimal [`Text`](Value::Text): such
/// numbers are mostly hashes and random ids, for which exact equality matters and rounding to a
/// float would make two of them the same.
///
/// The text form is that of the property language:
///
/// | value | text | empty |
/// |---|---|---|
/// | null, booleans | `null`, `true` | |
/// | integers, floats | `3`, `3.0`, `nan`, `inf`, `-inf` | |
/// | text | `"a \"b\""`, escaped as in JSON | `""` |
/// | bytes | `bytes("00ff")` | `bytes("")` |
/// | list | `[1, 2]` | `[]` |
/// | set | `{1, 2}` | `{}` |
/// | map | `{"a" -> 1}` | `{->}` |
/// | record | `{role: "leader", term: 3}` | `{:}` |
/// | variant | `Accept({ballot: 3})` | |
/// | node | `n3` | |
///
/// ```
/// use everhold_trace::Value;
///
/// #[derive(serde::Serialize)]
/// struct Server { role: &'static str, term: u32 }
///
/// let value = Value::of(&Server { role: "leader", term: 3 });
/// assert_eq!(value.to_string(), r#"{role: "leader", term: 3}"#);
/// assert_eq!(value.get("term"), Some(&Value::Int(3)));
/// ```
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing: `None`, a unit.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text. A unit variant of an enum is its name.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// Values in order, repeats allowed.
    List(Vec<Value>),
    /// Distinct values without order.
    Set(BTreeSet<Value>),
    /// Keys of any kind to values.
    Map(BTreeMap<Value, Value>),
    /// Named fields.
    Record(BTreeMap<String, Value>),
    /// A case of an enum that carries something.
    Variant {
        /// The name of the case.
        name: String,
        /// What it carries: a value, a list (tuple) or a record (struct).
        payload: Box<Value>,
    },
    /// A participant, kept apart from numbers.
    Node(NodeId),
}

impl Value {
    /// Turns any serialisable value into a recorded one.
    ///
    /// Structs become records, unit variants text, other variants [`Value::Variant`], sequences
    /// and tuples lists, maps maps, `None` and `()` null, `Some(x)` is `x`, and a [`NodeId`] stays
    /// a node. A sequence that is really a set says so with [`serialize_set`].
    ///
    /// ```
    /// use everhold_trace::{NodeId, Value};
    /// assert_eq!(Value::of(&vec![1, 2]).to_string(), "[1, 2]");
    /// assert_eq!(Value::of(&NodeId(3)), Value::Node(NodeId(3)));
    /// assert_eq!(Value::of(&u64::MAX), Value::Text("18446744073709551615".into()));
    /// ```
    ///
    /// # Panics
    ///
    /// When the `Serialize` implementation itself reports an error (a poisoned lock, a borrowed
    /// cell). [`Value::try_of`] returns it instead.
    #[must_use]
    pub fn of(source: &(impl Serialize + ?Sized)) -> Value {
        match Value::try_of(source) {
            Ok(value) => value,
            Err(error) => panic!("a recorded value must serialise: {error}"),
        }
    }

    /// Like [`Value::of`], with the error of the `Serialize` implementation.
    pub fn try_of(source: &(impl Serialize + ?Sized)) -> Result<Value, ValueError> {
        source.serialize(ser::ToValue)
    }

    /// The kind of this value in words, for messages: `"int"`, `"record"` and so on.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Map(_) => "map",
            Value::Record(_) => "record",
            Value::Variant { .. } => "variant",
            Value::Node(_) => "node",
        }
    }

    /// The field of a record.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Value> {
        match self {
            Value::Record(fields) => fields.get(field),
            _ => None,
        }
    }

    /// The text of a text value.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an integer value.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Builds a record from its fields.
    ///
    /// ```
    /// use everhold_trace::Value;
    /// assert_eq!(Value::record([("x", 1), ("y", 2)]).to_string(), "{x: 1, y: 2}");
    /// ```
    pub fn record<K: Into<String>, V: Into<Value>>(
        fields: impl IntoIterator<Item = (K, V)>,
    ) -> Value {
        Value::Record(fields.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// Builds a set from its elements.
    pub fn set<V: Into<Value>>(elements: impl IntoIterator<Item = V>) -> Value {
        Value::Set(elements.into_iter().map(Into::into).collect())
    }

    /// Builds a list from its elements.
    pub fn list<V: Into<Value>>(elements: impl IntoIterator<Item = V>) -> Value {
        Value::List(elements.into_iter().map(Into::into).collect())
    }

    /// The place of this kind in the order of kinds.
    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::Text(_) => 4,
            Value::Bytes(_) => 5,
            Value::List(_) => 6,
            Value::Set(_) => 7,
            Value::Map(_) => 8,
            Value::Record(_) => 9,
            Value::Variant { .. } => 10,
            Value::Node(_) => 11,
        }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => a.cmp(b),
            (Value::Set(a), Value::Set(b)) => a.cmp(b),
            (Value::Map(a), Value::Map(b)) => a.cmp(b),
            (Value::Record(a), Value::Record(b)) => a.cmp(b),
            (Value::Variant { name: a, payload: x }, Value::Variant { name: b, payload: y }) => {
                a.cmp(b).then_with(|| x.cmp(y))
            }
            (Value::Node(a), Value::Node(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Null => {}
            Value::Bool(b) => b.hash(state),
            Value::Int(i) => i.hash(state),
            // Two floats are equal under `total_cmp` exactly when their bits are.
            Value::Float(x) => x.to_bits().hash(state),
            Value::Text(text) => text.hash(state),
            Value::Bytes(bytes) => bytes.hash(state),
            Value::List(list) => list.hash(state),
            Value::Set(set) => set.hash(state),
            Value::Map(map) => map.hash(state),
            Value::Record(fields) => fields.hash(state),
            Value::Variant { name, payload } => (name, payload).hash(state),
            Value::Node(node) => node.hash(state),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            Value::Float(x) if x.is_nan() => f.write_str("nan"),
            // `Debug` keeps the decimal point, so that a float never reads as an integer.
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Text(text) => write_quoted(f, text),
            Value::Bytes(bytes) => write_bytes(f, bytes),
            Value::List(list) => write_items(f, ["[", "]", "[]"], list),
            Value::Set(set) => write_items(f, ["{", "}", "{}"], set),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| Entry(key, " -> ", value));
                write_items(f, ["{", "}", "{->}"], entries)
            }
            Value::Record(fields) => {
                let entries = fields.iter().map(|(key, value)| Entry(Name(key), ": ", value));
                write_items(f, ["{", "}", "{:}"], entries)
            }
            Value::Variant { name, payload } => write!(f, "{name}({payload})"),
            Value::Node(node) => write!(f, "{node}"),
        }
    }
}

/// Key, separator, value.
struct Entry<'a, K>(K, &'static str, &'a Value);

impl<K: fmt::Display> fmt::Display for Entry<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.0, self.1, self.2)
    }
}

/// A field name: bare when it is an identifier, quoted otherwise.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        let head = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if head && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            f.write_str(self.0)
        } else {
            write_quoted(f, self.0)
        }
    }
}

fn write_items<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    [open, close, empty]: [&str; 3],
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() {
        return f.write_str(empty);
    }
    f.write_str(open)?;
    while let Some(item) = items.next() {
        write!(f, "{item}{}", if items.peek().is_some() { ", " } else { "" })?;
    }
    f.write_str(close)
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("bytes(\"")?;
    for byte in bytes {
        write!(f, "{byte:02x}")?;
    }
    f.write_str("\")")
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Value::Int(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Int(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or_else(|_| Value::Text(number.to_string()), Value::Int)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<NodeId> for Value {
    fn from(node: NodeId) -> Self {
        Value::Node(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_tells_containers_apart() {
        let check = |value: Value, text: &str| assert_eq!(value.to_string(), text);
        check(Value::set([1, 2]), "{1, 2}");
        check(Value::Set(BTreeSet::new()), "{}");
        check(Value::Record(BTreeMap::new()), "{:}");
        check(Value::Map(BTreeMap::new()), "{->}");
        check(Value::Map([("a".into(), 1.into())].into()), r#"{"a" -> 1}"#);
        check(Value::record([("odd key", 1)]), r#"{"odd key": 1}"#);
        check(Value::Float(2.0), "2.0");
        check(Value::Float(f64::NEG_INFINITY), "-inf");
        check(Value::Bytes(vec![0, 255]), "bytes(\"00ff\")");
        check(Value::Variant { name: "Ack".into(), payload: Box::new(3.into()) }, "Ack(3)");
        check(Value::Node(NodeId(7)), "n7");
    }

    #[test]
    fn the_order_is_total_on_floats() {
        let nan = Value::Float(f64::NAN);
        assert_eq!(nan, nan.clone());
        assert!(Value::Float(-0.0) < Value::Float(0.0));
        assert!(Value::Float(f64::INFINITY) < nan);
        assert_ne!(Value::Int(1), Value::Float(1.0));
    }
}
