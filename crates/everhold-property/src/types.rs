//! Types of values, as declared or as observed.

use std::collections::BTreeMap;
use std::fmt;

use everhold_trace::Value;

/// The statically known type of a value.
///
/// Null belongs to every type: a field may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// Nothing is known; the type is compatible with every other.
    #[default]
    Any,
    /// Only null was seen.
    Null,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// A list of elements of one type.
    List(Box<Type>),
    /// A set of elements of one type.
    Set(Box<Type>),
    /// Keys and values.
    Map(Box<Type>, Box<Type>),
    /// Named fields.
    Record(BTreeMap<String, Type>),
    /// One of several named variants; those without a payload have the type null.
    Variant(BTreeMap<String, Type>),
    /// A node, of this kind if the kind is known.
    Node(Option<String>),
}

impl Type {
    /// The type of a value.
    ///
    /// ```
    /// use everhold_property::{Type, Value};
    /// assert_eq!(Type::of(&Value::list([1, 2])).to_string(), "list of int");
    /// ```
    #[must_use]
    pub fn of(value: &Value) -> Type {
        let join = |values: &mut dyn Iterator<Item = &Value>| {
            Box::new(values.map(Type::of).reduce(Type::join).unwrap_or_default())
        };
        match value {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Float(_) => Type::Float,
            Value::Text(_) => Type::Text,
            Value::Bytes(_) => Type::Bytes,
            Value::List(items) => Type::List(join(&mut items.iter())),
            Value::Set(items) => Type::Set(join(&mut items.iter())),
            Value::Map(entries) => {
                Type::Map(join(&mut entries.keys()), join(&mut entries.values()))
            }
            Value::Record(fields) => Type::Record(
                fields.iter().map(|(name, value)| (name.clone(), Type::of(value))).collect(),
            ),
            Value::Variant { name, payload } => {
                Type::Variant(BTreeMap::from([(name.clone(), Type::of(payload))]))
            }
            Value::Node(_) => Type::Node(None),
        }
    }

    /// The type of values of either type.
    #[must_use]
    pub fn join(self, other: Type) -> Type {
        match (self, other) {
            (Type::Null, other) | (other, Type::Null) => other,
            (a, b) if a == b => a,
            (Type::Int, Type::Float) | (Type::Float, Type::Int) => Type::Float,
            (Type::List(a), Type::List(b)) => Type::List(join_items(*a, *b)),
            (Type::Set(a), Type::Set(b)) => Type::Set(join_items(*a, *b)),
            (Type::Map(a, x), Type::Map(b, y)) => Type::Map(join_items(*a, *b), join_items(*x, *y)),
            (Type::Record(a), Type::Record(b)) => Type::Record(join_fields(a, b)),
            (Type::Variant(a), Type::Variant(b)) => Type::Variant(join_fields(a, b)),
            // An enumeration of which some variants carry a payload: those without one are recorded
            // as text.
            (Type::Variant(variants), Type::Text) | (Type::Text, Type::Variant(variants)) => {
                Type::Variant(variants)
            }
            (Type::Node(_), Type::Node(_)) => Type::Node(None),
            _ => Type::Any,
        }
    }

    /// Whether some value could be of both types.
    #[must_use]
    pub fn overlaps(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Any | Type::Null, _) | (_, Type::Any | Type::Null) => true,
            (Type::Int | Type::Float, Type::Int | Type::Float)
            | (Type::Node(_), Type::Node(_))
            | (Type::Record(_), Type::Record(_))
            | (Type::Variant(_), Type::Variant(_) | Type::Text)
            | (Type::Text, Type::Variant(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Set(a), Type::Set(b)) => a.overlaps(b),
            (Type::Map(a, x), Type::Map(b, y)) => a.overlaps(b) && x.overlaps(y),
            (a, b) => a == b,
        }
    }

    /// Whether the values have an order.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        match self {
            Type::Any | Type::Null | Type::Int | Type::Float | Type::Text | Type::Bytes => true,
            Type::List(items) => items.is_ordered(),
            _ => false,
        }
    }

    /// Whether the values are numbers.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Type::Any | Type::Null | Type::Int | Type::Float)
    }

    /// The type of a variable that ranges over such a value; `None` if the value is not a
    /// container.
    #[must_use]
    pub fn element(&self) -> Option<Type> {
        match self {
            Type::Any | Type::Null => Some(Type::Any),
            Type::List(items) | Type::Set(items) => Some(items.as_ref().clone()),
            Type::Map(keys, _) => Some(keys.as_ref().clone()),
            Type::Record(_) => Some(Type::Text),
            _ => None,
        }
    }

    /// The types of the key and the value of its entries; `None` if it has no entries.
    #[must_use]
    pub fn entry(&self) -> Option<(Type, Type)> {
        match self {
            Type::Any | Type::Null => Some((Type::Any, Type::Any)),
            Type::List(items) => Some((Type::Int, items.as_ref().clone())),
            Type::Map(keys, values) => Some((keys.as_ref().clone(), values.as_ref().clone())),
            Type::Record(fields) => {
                let value = fields.values().cloned().reduce(Type::join).unwrap_or_default();
                Some((Type::Text, value))
            }
            _ => None,
        }
    }
}

fn join_items(a: Type, b: Type) -> Box<Type> {
    // An empty container has no element type of its own, so it agrees with any other.
    match (a, b) {
        (Type::Any, other) | (other, Type::Any) => Box::new(other),
        (a, b) => Box::new(a.join(b)),
    }
}

fn join_fields(mut a: BTreeMap<String, Type>, b: BTreeMap<String, Type>) -> BTreeMap<String, Type> {
    for (name, other) in b {
        let joined = match a.remove(&name) {
            Some(own) => own.join(other),
            None => other,
        };
        a.insert(name, joined);
    }
    a
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Any => f.write_str("anything"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Float => f.write_str("float"),
            Type::Text => f.write_str("text"),
            Type::Bytes => f.write_str("bytes"),
            Type::List(items) => write!(f, "list of {items}"),
            Type::Set(items) => write!(f, "set of {items}"),
            Type::Map(keys, values) => write!(f, "map of {keys} to {values}"),
            Type::Record(_) => f.write_str("record"),
            Type::Variant(_) => f.write_str("variant"),
            Type::Node(None) => f.write_str("node"),
            Type::Node(Some(kind)) => write!(f, "{kind} node"),
        }
    }
}

/// The types of the states of nodes, by their kind.
///
/// ```
/// use everhold_property::{Schema, Value};
/// let mut schema = Schema::default();
/// schema.observe("server", &Value::record([("term", 3)]));
/// assert!(schema.state("server").is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    kinds: BTreeMap<String, Type>,
}

impl Schema {
    /// Merges the type of an observed state into that of its kind.
    pub fn observe(&mut self, kind: &str, state: &Value) {
        let seen = Type::of(state);
        let joined = match self.kinds.remove(kind) {
            Some(known) => known.join(seen),
            None => seen,
        };
        self.kinds.insert(kind.to_owned(), joined);
    }

    /// The state of nodes of this kind.
    #[must_use]
    pub fn state(&self, kind: &str) -> Option<&Type> {
        self.kinds.get(kind)
    }

    /// The kinds that are known.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}
