//! Checkpoints as values: lists of fields in a fixed order, written as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::vec::IntoIter;

use everhold_trace::value::json::{AsJson, from_json};
use everhold_trace::wire::Stamp;
use everhold_trace::{NodeId, Value};

/// A checkpoint that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCheckpoint(pub(crate) String);

impl fmt::Display for BadCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a checkpoint of this version: {}", self.0)
    }
}

impl std::error::Error for BadCheckpoint {}

pub(crate) type Read<T> = Result<T, BadCheckpoint>;

pub(crate) fn bad(reason: impl fmt::Display) -> BadCheckpoint {
    BadCheckpoint(reason.to_string())
}

/// The bytes of a checkpoint.
pub(crate) fn to_bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(&AsJson(value)).unwrap_or_default()
}

/// The checkpoint that bytes stand for.
pub(crate) fn from_bytes(bytes: &[u8]) -> Read<Value> {
    from_json(serde_json::from_slice(bytes).map_err(bad)?).map_err(bad)
}

pub(crate) fn number(number: u64) -> Value {
    Value::Int(number.cast_signed())
}

pub(crate) fn stamp(stamp: Stamp) -> Value {
    number(stamp.0)
}

/// Several fields, or several items.
pub(crate) fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

/// The fields of a list, in order.
pub(crate) struct Fields(IntoIter<Value>);

impl Fields {
    pub(crate) fn of(value: Value) -> Read<Fields> {
        items(value).map(|items| Fields(items.into_iter()))
    }

    pub(crate) fn any(&mut self) -> Read<Value> {
        self.0.next().ok_or_else(|| bad("a field is missing"))
    }

    pub(crate) fn number(&mut self) -> Read<u64> {
        match self.any()? {
            Value::Int(number) => Ok(number.cast_unsigned()),
            other => Err(bad(format_args!("a number is {}", other.type_name()))),
        }
    }

    pub(crate) fn stamp(&mut self) -> Read<Stamp> {
        self.number().map(Stamp)
    }

    pub(crate) fn node(&mut self) -> Read<NodeId> {
        u32::try_from(self.number()?).map(NodeId).map_err(bad)
    }

    pub(crate) fn flag(&mut self) -> Read<bool> {
        Ok(self.any()? == Value::Bool(true))
    }

    pub(crate) fn text(&mut self) -> Read<String> {
        match self.any()? {
            Value::Text(text) => Ok(text),
            other => Err(bad(format_args!("a text is {}", other.type_name()))),
        }
    }

    pub(crate) fn items(&mut self) -> Read<Vec<Value>> {
        items(self.any()?)
    }

    /// Each item by itself.
    pub(crate) fn each<T>(&mut self, read: impl Fn(&mut Fields) -> Read<T>) -> Read<Vec<T>> {
        self.items()?.into_iter().map(|item| read(&mut Fields::of(item)?)).collect()
    }

    pub(crate) fn record(&mut self) -> Read<BTreeMap<String, Value>> {
        match self.any()? {
            Value::Record(fields) => Ok(fields),
            other => Err(bad(format_args!("a record is {}", other.type_name()))),
        }
    }
}

fn items(value: Value) -> Read<Vec<Value>> {
    match value {
        Value::List(items) => Ok(items),
        other => Err(bad(format_args!("a list is {}", other.type_name()))),
    }
}
