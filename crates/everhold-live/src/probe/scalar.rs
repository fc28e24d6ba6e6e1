//! Values that fit into a ring without allocating.

use std::fmt;

use everhold_trace::id::NODE_ID_TOKEN;
use everhold_trace::{NodeId, Value};
use serde::ser::{self, Impossible, Serialize, Serializer};

/// A plain value, borrowed for the duration of an observation.
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
    /// A node.
    Node(NodeId),
    /// Text, which is copied.
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

impl Serialize for Scalar<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Scalar::Null => serializer.serialize_unit(),
            Scalar::Bool(truth) => serializer.serialize_bool(*truth),
            Scalar::Int(number) => serializer.serialize_i64(*number),
            Scalar::Float(number) => serializer.serialize_f64(*number),
            Scalar::Node(node) => node.serialize(serializer),
            Scalar::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Passes a value to a function as a scalar, without allocation; returns an error if it is not a
/// scalar. The scalar is the same that [`Value::of`] makes of the value.
#[inline]
pub(super) fn flat<T: Serialize, R>(
    value: &T,
    then: impl FnOnce(Scalar<'_>) -> R,
) -> Result<R, NotFlat> {
    value.serialize(Flat { then, is_node: false })
}

/// Passes a scalar to a function.
struct Flat<F> {
    then: F,
    /// Whether a number is the number of a node.
    is_node: bool,
}

/// The error for a value that is not a scalar.
#[derive(Debug)]
pub(super) struct NotFlat;

impl fmt::Display for NotFlat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value is not a scalar")
    }
}

impl std::error::Error for NotFlat {}

impl ser::Error for NotFlat {
    fn custom<T: fmt::Display>(_: T) -> NotFlat {
        NotFlat
    }
}

type Never<R> = Impossible<R, NotFlat>;

impl<R, F: FnOnce(Scalar<'_>) -> R> Flat<F> {
    #[inline]
    fn int(self, number: impl TryInto<i64>) -> Result<R, NotFlat> {
        let number = number.try_into().map_err(|_| NotFlat)?;
        let scalar = match self.is_node {
            true => Scalar::Node(NodeId(u32::try_from(number).map_err(|_| NotFlat)?)),
            false => Scalar::Int(number),
        };
        Ok((self.then)(scalar))
    }

    #[inline]
    fn pass(self, scalar: Scalar<'_>) -> Result<R, NotFlat> {
        Ok((self.then)(scalar))
    }
}

macro_rules! ints {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(#[inline]
        fn $method(self, number: $type) -> Result<R, NotFlat> {
            self.int(number)
        })*
    };
}

impl<R, F: FnOnce(Scalar<'_>) -> R> Serializer for Flat<F> {
    type Ok = R;
    type Error = NotFlat;
    type SerializeSeq = Never<R>;
    type SerializeTuple = Never<R>;
    type SerializeTupleStruct = Never<R>;
    type SerializeTupleVariant = Never<R>;
    type SerializeMap = Never<R>;
    type SerializeStruct = Never<R>;
    type SerializeStructVariant = Never<R>;

    ints! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32,
        serialize_u64: u64, serialize_u128: u128,
    }

    #[inline]
    fn serialize_bool(self, truth: bool) -> Result<R, NotFlat> {
        self.pass(Scalar::Bool(truth))
    }
    fn serialize_f32(self, number: f32) -> Result<R, NotFlat> {
        self.pass(Scalar::Float(number.into()))
    }
    fn serialize_f64(self, number: f64) -> Result<R, NotFlat> {
        self.pass(Scalar::Float(number))
    }
    fn serialize_char(self, letter: char) -> Result<R, NotFlat> {
        self.pass(Scalar::Text(letter.encode_utf8(&mut [0; 4])))
    }
    #[inline]
    fn serialize_str(self, text: &str) -> Result<R, NotFlat> {
        self.pass(Scalar::Text(text))
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<R, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_none(self) -> Result<R, NotFlat> {
        self.pass(Scalar::Null)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<R, NotFlat> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<R, NotFlat> {
        self.pass(Scalar::Null)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<R, NotFlat> {
        self.pass(Scalar::Null)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &str) -> Result<R, NotFlat> {
        self.pass(Scalar::Text(name))
    }
    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        mut self,
        name: &'static str,
        value: &T,
    ) -> Result<R, NotFlat> {
        self.is_node = name == NODE_ID_TOKEN;
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<R, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Never<R>, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_tuple(self, _: usize) -> Result<Never<R>, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never<R>, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never<R>, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Never<R>, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Never<R>, NotFlat> {
        Err(NotFlat)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never<R>, NotFlat> {
        Err(NotFlat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize)]
    enum Mode {
        Shared,
        Held(u8),
    }

    #[derive(serde::Serialize)]
    struct Wrapped<T>(T);

    #[derive(serde::Serialize)]
    struct Unit;

    /// Checks that a value in the ring is the same as the value on the heap.
    #[track_caller]
    fn check(value: impl Serialize, is_flat: bool) {
        let found = flat(&value, |scalar| Value::from(scalar));
        assert_eq!(found.is_ok(), is_flat);
        if let Ok(found) = found {
            assert_eq!(found, Value::of(&value));
        }
    }

    #[test]
    fn scalars_are_flat_and_mean_what_they_mean_on_the_heap() {
        check(true, true);
        check((-1_i8, 1).0, true);
        check(u64::from(u32::MAX), true);
        check(i64::MIN, true);
        check(1_u128, true);
        check(0.1_f32, true);
        check(f64::NAN, true);
        check('ß', true);
        check("text", true);
        check(String::from("text"), true);
        check((), true);
        check(None::<i32>, true);
        check(Some(3), true);
        check(Unit, true);
        check(NodeId(3), true);
        check(Some(Wrapped(NodeId(3))), true);
        check(Wrapped(Wrapped(7)), true);
        check(Mode::Shared, true);
        check(Scalar::Node(NodeId(9)), true);
        check(Scalar::Text("x"), true);
        // Values outside these types are not scalars.
        check(u64::MAX, false);
        check(i128::MIN, false);
        check(Mode::Held(1), false);
        check(vec![1], false);
        check((1, 2), false);
        check([("a", 1)].into_iter().collect::<std::collections::BTreeMap<_, _>>(), false);
    }
}
