//! The serde serializer behind [`Value::of`].

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use crate::id::NODE_ID_TOKEN;
use crate::{NodeId, Value};

/// The serde name under which [`serialize_set`] marks a sequence as a set.
pub const SET_TOKEN: &str = "$everhold::Set";

/// The error of a `Serialize` implementation that could not show its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError(String);

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValueError {}

impl ser::Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        ValueError(message.to_string())
    }
}

/// Records a sequence as a set; for `#[serde(serialize_with = "...")]` on a field.
///
/// Serde has no sets: without this a `BTreeSet` is recorded as a list, and a hash set as a list in
/// an order that changes from run to run.
///
/// ```
/// use std::collections::BTreeSet;
/// use everhold_trace::{Value, value::serialize_set};
///
/// #[derive(serde::Serialize)]
/// struct Quorum {
///     #[serde(serialize_with = "serialize_set")]
///     members: BTreeSet<u32>,
/// }
///
/// let value = Value::of(&Quorum { members: [3, 1].into() });
/// assert_eq!(value.to_string(), "{members: {1, 3}}");
/// ```
pub fn serialize_set<T: Serialize, S: Serializer>(
    set: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(SET_TOKEN, set)
}

/// Turns what it is given into a [`Value`].
#[derive(Clone, Copy)]
pub(super) struct ToValue;

type Done = Result<Value, ValueError>;

impl Serializer for ToValue {
    type Ok = Value;
    type Error = ValueError;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Entries;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    fn serialize_bool(self, v: bool) -> Done {
        Ok(Value::Bool(v))
    }
    fn serialize_i8(self, v: i8) -> Done {
        Ok(Value::Int(v.into()))
    }
    fn serialize_i16(self, v: i16) -> Done {
        Ok(Value::Int(v.into()))
    }
    fn serialize_i32(self, v: i32) -> Done {
        Ok(Value::Int(v.into()))
    }
    fn serialize_i64(self, v: i64) -> Done {
        Ok(Value::Int(v))
    }
    fn serialize_i128(self, v: i128) -> Done {
        Ok(i64::try_from(v).map_or_else(|_| Value::Text(v.to_string()), Value::Int))
    }
    fn serialize_u8(self, v: u8) -> Done {
        Ok(Value::Int(v.into()))
    }
    fn serialize_u16(self, v: u16) -> Done {
        Ok(Value::Int(v.into()))
    }
    fn serialize_u32(self, v: u32) -> Done {
        Ok(Value::Int(v.into()))
    }
    fn serialize_u64(self, v: u64) -> Done {
        Ok(v.into())
    }
    fn serialize_u128(self, v: u128) -> Done {
        Ok(i64::try_from(v).map_or_else(|_| Value::Text(v.to_string()), Value::Int))
    }
    fn serialize_f32(self, v: f32) -> Done {
        Ok(Value::Float(v.into()))
    }
    fn serialize_f64(self, v: f64) -> Done {
        Ok(Value::Float(v))
    }
    fn serialize_char(self, v: char) -> Done {
        Ok(Value::Text(v.into()))
    }
    fn serialize_str(self, v: &str) -> Done {
        Ok(Value::Text(v.to_owned()))
    }
    fn serialize_bytes(self, v: &[u8]) -> Done {
        Ok(Value::Bytes(v.to_vec()))
    }
    fn serialize_none(self) -> Done {
        Ok(Value::Null)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Done {
        Ok(Value::Null)
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Done {
        Ok(Value::Null)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        Ok(Value::Text(variant.to_owned()))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &str, value: &T) -> Done {
        let inner = value.serialize(self)?;
        Ok(match (name, inner) {
            (NODE_ID_TOKEN, Value::Int(id)) => {
                Value::Node(NodeId(u32::try_from(id).map_err(|_| {
                    ValueError(format!("node id {id} is out of range; node ids are 32 bits"))
                })?))
            }
            (SET_TOKEN, Value::List(items)) => Value::Set(items.into_iter().collect()),
            (_, inner) => inner,
        })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        Ok(variant_of(Some(variant), value.serialize(self)?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Items, ValueError> {
        Ok(Items::new(None, len.unwrap_or(0)))
    }
    fn serialize_tuple(self, len: usize) -> Result<Items, ValueError> {
        Ok(Items::new(None, len))
    }
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Items, ValueError> {
        Ok(Items::new(None, len))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Items, ValueError> {
        Ok(Items::new(Some(variant), len))
    }
    fn serialize_map(self, _len: Option<usize>) -> Result<Entries, ValueError> {
        Ok(Entries { key: None, entries: BTreeMap::new() })
    }
    fn serialize_struct(self, _: &'static str, _len: usize) -> Result<Fields, ValueError> {
        Ok(Fields { variant: None, fields: BTreeMap::new() })
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Fields, ValueError> {
        Ok(Fields { variant: Some(variant), fields: BTreeMap::new() })
    }
}

fn variant_of(name: Option<&'static str>, payload: Value) -> Value {
    match name {
        Some(name) => Value::Variant { name: name.to_owned(), payload: Box::new(payload) },
        None => payload,
    }
}

/// Collects a sequence, tuple or tuple variant.
pub(super) struct Items {
    variant: Option<&'static str>,
    items: Vec<Value>,
}

impl Items {
    fn new(variant: Option<&'static str>, len: usize) -> Self {
        // The length is a hint from foreign code; do not let it reserve without bound.
        Items { variant, items: Vec::with_capacity(len.min(1024)) }
    }

    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        self.items.push(value.serialize(ToValue)?);
        Ok(())
    }

    fn done(self) -> Value {
        variant_of(self.variant, Value::List(self.items))
    }
}

impl SerializeSeq for Items {
    type Ok = Value;
    type Error = ValueError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        self.push(value)
    }
    fn end(self) -> Done {
        Ok(self.done())
    }
}

impl SerializeTuple for Items {
    type Ok = Value;
    type Error = ValueError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        self.push(value)
    }
    fn end(self) -> Done {
        Ok(self.done())
    }
}

impl SerializeTupleStruct for Items {
    type Ok = Value;
    type Error = ValueError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        self.push(value)
    }
    fn end(self) -> Done {
        Ok(self.done())
    }
}

impl SerializeTupleVariant for Items {
    type Ok = Value;
    type Error = ValueError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        self.push(value)
    }
    fn end(self) -> Done {
        Ok(self.done())
    }
}

/// Collects a map.
pub(super) struct Entries {
    key: Option<Value>,
    entries: BTreeMap<Value, Value>,
}

impl SerializeMap for Entries {
    type Ok = Value;
    type Error = ValueError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), ValueError> {
        self.key = Some(key.serialize(ToValue)?);
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        let key = self.key.take().ok_or_else(|| ValueError("a map value without a key".into()))?;
        self.entries.insert(key, value.serialize(ToValue)?);
        Ok(())
    }
    fn end(self) -> Done {
        Ok(Value::Map(self.entries))
    }
}

/// Collects a struct or struct variant.
pub(super) struct Fields {
    variant: Option<&'static str>,
    fields: BTreeMap<String, Value>,
}

impl Fields {
    fn put<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), ValueError> {
        self.fields.insert(key.to_owned(), value.serialize(ToValue)?);
        Ok(())
    }

    fn done(self) -> Value {
        variant_of(self.variant, Value::Record(self.fields))
    }
}

impl SerializeStruct for Fields {
    type Ok = Value;
    type Error = ValueError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), ValueError> {
        self.put(key, value)
    }
    fn end(self) -> Done {
        Ok(self.done())
    }
}

impl SerializeStructVariant for Fields {
    type Ok = Value;
    type Error = ValueError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), ValueError> {
        self.put(key, value)
    }
    fn end(self) -> Done {
        Ok(self.done())
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    enum Msg {
        Ping,
        Ack(u32),
        Pair(u8, bool),
        Vote { term: u64, from: NodeId },
    }

    #[test]
    fn each_shape_has_its_value() {
        let check = |source: &Msg, text: &str| assert_eq!(Value::of(source).to_string(), text);
        check(&Msg::Ping, "\"Ping\"");
        check(&Msg::Ack(3), "Ack(3)");
        check(&Msg::Pair(1, true), "Pair([1, true])");
        check(&Msg::Vote { term: 2, from: NodeId(1) }, "Vote({from: n1, term: 2})");
        assert_eq!(Value::of(&None::<u8>), Value::Null);
        assert_eq!(Value::of(&Some(3u8)), Value::Int(3));
        assert_eq!(Value::of(&(1, "a")).to_string(), "[1, \"a\"]");
        assert_eq!(Value::of(&BTreeMap::from([(1, 'x')])).to_string(), "{1 -> \"x\"}");
        assert_eq!(Value::of(&i128::MIN), Value::Text(i128::MIN.to_string()));
        assert_eq!(Value::of(&(u64::MAX / 2)), Value::Int(i64::MAX));
    }
}
