//! Values that fit into a ring without allocating.

use everhold_trace::{NodeId, Value};

/// A plain value, borrowed for the moment of an observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A participant.
    Node(NodeId),
    /// Text; copied.
    Text(&'a str),
}

impl From<Scalar<'_>> for Value {
    fn from(scalar: Scalar<'_>) -> Value {
        match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(truth) => Value::Bool(truth),
            Scalar::Int(number) => Value::Int(number),
            Scalar::Float(number) => Value::Float(number),
            Scalar::Node(node) => Value::Node(node),
            Scalar::Text(text) => Value::Text(text.to_owned()),
        }
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $scalar:expr),* $(,)?) => {
        $(impl From<$type> for Scalar<'_> {
            #[inline]
            fn from($value: $type) -> Self {
                $scalar
            }
        })*
    };
}

from! {
    () => |_nothing| Scalar::Null,
    bool => |truth| Scalar::Bool(truth),
    i32 => |number| Scalar::Int(number.into()),
    u32 => |number| Scalar::Int(number.into()),
    i64 => |number| Scalar::Int(number),
    f64 => |number| Scalar::Float(number),
    NodeId => |node| Scalar::Node(node),
}

impl<'a> From<&'a str> for Scalar<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Scalar::Text(text)
    }
}

impl<'a> From<&'a String> for Scalar<'a> {
    fn from(text: &'a String) -> Self {
        Scalar::Text(text)
    }
}
