//! Values as JSON, in both directions, losing nothing.
//!
//! Plain JSON where it is unambiguous: null, booleans, integers, finite floats (always with a
//! point or an exponent), text, lists as arrays, records as objects. The rest is an object with
//! one key that begins with `$`:
//!
//! | value | JSON |
//! |---|---|
//! | set | `{"$set": [1, 2]}` |
//! | map | `{"$map": [["a", 1]]}` |
//! | node | `{"$node": 3}` |
//! | bytes | `{"$bytes": "AP8="}` (base64) |
//! | variant | `{"$variant": ["Ack", 3]}` |
//! | float that JSON cannot say | `{"$float": "NaN"}`, `"inf"`, `"-inf"`, or the bits in hex |
//! | record that has a key beginning with `$` | `{"$record": {"$set": 1}}` |
//!
//! ```
//! use everhold_trace::{Value, value::json};
//! let value = Value::set([1, 2]);
//! assert_eq!(json::to_json(&value).to_string(), r#"{"$set":[1,2]}"#);
//! assert_eq!(json::from_json(json::to_json(&value)), Ok(value));
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value as Json};

use crate::{NodeId, Value};

/// A JSON value that stands for no [`Value`]: an unknown tag, or a tag with the wrong content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The tag, with its `$`.
    pub tag: String,
    /// The content that the tag requires.
    pub expected: &'static str,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JsonError { tag, expected } = self;
        write!(
            f,
            "`{tag}` must hold {expected}; a record with such a key is written {{\"$record\": ..}}"
        )
    }
}

impl std::error::Error for JsonError {}

/// The JSON for a value.
#[must_use]
pub fn to_json(value: &Value) -> Json {
    serde_json::to_value(AsJson(value)).expect("every value has a JSON form")
}

/// The value that a JSON text stands for; any JSON without `$` tags is one.
///
/// An integer outside the range of `i64` becomes text, as in [`Value::of`].
pub fn from_json(json: Json) -> Result<Value, JsonError> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(b),
        Json::Number(number) => number_value(&number),
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::List(from_array(items)?),
        Json::Object(fields) => from_object(fields)?,
    })
}

/// Serialises a value straight to its JSON form, without building the JSON tree.
#[derive(Clone, Copy, Debug)]
pub struct AsJson<'a>(pub &'a Value);

impl Serialize for AsJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => to.serialize_unit(),
            Value::Bool(b) => to.serialize_bool(*b),
            Value::Int(i) => to.serialize_i64(*i),
            Value::Float(x) if x.is_finite() => to.serialize_f64(*x),
            Value::Float(x) => tagged(to, "$float", &odd_float(*x)),
            Value::Text(text) => to.serialize_str(text),
            Value::Bytes(bytes) => tagged(to, "$bytes", &base64(bytes)),
            Value::List(items) => to.collect_seq(items.iter().map(AsJson)),
            Value::Set(items) => tagged(to, "$set", &Seq(|| items.iter().map(AsJson))),
            Value::Map(entries) => {
                let pairs = || entries.iter().map(|(key, value)| (AsJson(key), AsJson(value)));
                tagged(to, "$map", &Seq(pairs))
            }
            Value::Record(fields) if fields.keys().any(|key| key.starts_with('$')) => {
                tagged(to, "$record", &Fields(fields))
            }
            Value::Record(fields) => Fields(fields).serialize(to),
            Value::Variant { name, payload } => tagged(to, "$variant", &(name, AsJson(payload))),
            Value::Node(node) => tagged(to, "$node", &node.0),
        }
    }
}

/// How deep the JSON of a value nests; readers of JSON commonly stop at 128.
pub(crate) fn depth(value: &Value) -> usize {
    let deepest = |depths: &mut dyn Iterator<Item = usize>| depths.max().unwrap_or(0);
    match value {
        Value::List(items) => 1 + deepest(&mut items.iter().map(depth)),
        Value::Set(items) => 2 + deepest(&mut items.iter().map(depth)),
        Value::Map(entries) => {
            3 + deepest(&mut entries.iter().map(|(key, value)| depth(key).max(depth(value))))
        }
        // One more for the `$record` that may wrap it.
        Value::Record(fields) => 2 + deepest(&mut fields.values().map(depth)),
        Value::Variant { payload, .. } => 2 + depth(payload),
        _ => 1,
    }
}

fn tagged<S: Serializer, T: Serialize>(to: S, tag: &str, content: &T) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(1))?;
    map.serialize_entry(tag, content)?;
    map.end()
}

/// A sequence that can be walked again, as `Serialize` asks.
struct Seq<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Seq<F> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut seq = to.serialize_seq(None)?;
        for item in (self.0)() {
            seq.serialize_element(&item)?;
        }
        seq.end()
    }
}

struct Fields<'a>(&'a BTreeMap<String, Value>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, AsJson(value))))
    }
}

fn number_value(number: &serde_json::Number) -> Value {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(i), _, _) => Value::Int(i),
        (None, Some(u), _) => u.into(),
        (None, None, Some(x)) => Value::Float(x),
        (None, None, None) => Value::Text(number.to_string()),
    }
}

fn from_array(items: Vec<Json>) -> Result<Vec<Value>, JsonError> {
    items.into_iter().map(from_json).collect()
}

fn from_object(mut fields: Map<String, Json>) -> Result<Value, JsonError> {
    let tag = match fields.keys().next() {
        Some(key) if fields.len() == 1 && key.starts_with('$') => key.clone(),
        _ => return from_fields(fields),
    };
    let content = fields.remove(&tag).expect("the key was just seen");
    from_tagged(tag, content)
}

fn from_fields(fields: Map<String, Json>) -> Result<Value, JsonError> {
    let field = |(key, json)| Ok((key, from_json(json)?));
    fields.into_iter().map(field).collect::<Result<_, _>>().map(Value::Record)
}

fn from_tagged(tag: String, content: Json) -> Result<Value, JsonError> {
    let wrong = |expected| JsonError { tag: tag.clone(), expected };
    match (tag.as_str(), content) {
        ("$set", Json::Array(items)) => Ok(Value::Set(from_array(items)?.into_iter().collect())),
        ("$set", _) => Err(wrong("an array")),
        ("$map", Json::Array(pairs)) => {
            let expected = || wrong("an array of [key, value] pairs");
            let pairs = pairs.into_iter().map(|json| pair(json).ok_or_else(expected)?);
            pairs.collect::<Result<_, _>>().map(Value::Map)
        }
        ("$map", _) => Err(wrong("an array of [key, value] pairs")),
        ("$node", json) => {
            let id = json.as_u64().and_then(|id| u32::try_from(id).ok());
            id.map(|id| Value::Node(NodeId(id))).ok_or_else(|| wrong("a node number"))
        }
        ("$bytes", json) => {
            let bytes = json.as_str().and_then(unbase64);
            bytes.map(Value::Bytes).ok_or_else(|| wrong("base64 text with padding"))
        }
        ("$float", json) => {
            let float = json.as_str().and_then(parse_odd_float);
            float.map(Value::Float).ok_or_else(|| wrong("\"NaN\", \"inf\", \"-inf\" or 0x bits"))
        }
        ("$variant", json) => {
            let (name, payload) = match pair_of(json) {
                Some((Json::String(name), payload)) => (name, payload),
                _ => return Err(wrong("[\"Name\", payload]")),
            };
            Ok(Value::Variant { name, payload: Box::new(from_json(payload)?) })
        }
        ("$record", Json::Object(fields)) => from_fields(fields),
        ("$record", _) => Err(wrong("an object")),
        _ => Err(wrong("nothing this version knows")),
    }
}

fn pair_of(json: Json) -> Option<(Json, Json)> {
    match json {
        Json::Array(items) => {
            <[Json; 2]>::try_from(items).ok().map(|[first, second]| (first, second))
        }
        _ => None,
    }
}

fn pair(json: Json) -> Option<Result<(Value, Value), JsonError>> {
    let (key, value) = pair_of(json)?;
    Some(from_json(key).and_then(|key| Ok((key, from_json(value)?))))
}

fn odd_float(x: f64) -> String {
    if x.to_bits() == f64::NAN.to_bits() {
        "NaN".into()
    } else if x.is_nan() {
        format!("{:#018x}", x.to_bits())
    } else {
        x.to_string()
    }
}

fn parse_odd_float(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(f64::from_bits),
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as text: the standard alphabet, padded.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= chunk.len() {
                text.push(BASE64[(bits >> (18 - 6 * place)) as usize & 63].into());
            } else {
                text.push('=');
            }
        }
    }
    text
}

pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.trim_end_matches('=').as_bytes();
    if text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.chunks(4) {
        let mut bits = 0u32;
        for place in 0..4 {
            let digit = chunk.get(place).map_or(Some(0), |c| BASE64.iter().position(|d| d == c));
            bits = bits << 6 | u32::try_from(digit?).ok()?;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_round_trips_every_length() {
        for len in 0..20u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37)).collect();
            assert_eq!(unbase64(&base64(&bytes)), Some(bytes));
        }
        assert_eq!(base64(b"hello"), "aGVsbG8=");
        assert_eq!(unbase64("a"), None);
        assert_eq!(unbase64("a==="), None);
        assert_eq!(unbase64("!!!!"), None);
    }

    #[test]
    fn a_record_with_a_tag_for_a_key_is_escaped() {
        let value = Value::record([("$set", 1)]);
        let json = to_json(&value);
        assert_eq!(json.to_string(), r#"{"$record":{"$set":1}}"#);
        assert_eq!(from_json(json), Ok(value));
    }

    #[test]
    fn wrong_tags_say_what_was_expected() {
        let check = |text: &str, message: &str| {
            let error = from_json(serde_json::from_str(text).unwrap()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        };
        check(r#"{"$set": 1}"#, "`$set` must hold an array");
        check(r#"{"$map": [[1]]}"#, "[key, value] pairs");
        check(r#"{"$node": -1}"#, "a node number");
        check(r#"{"$bytes": "?"}"#, "base64");
        check(r#"{"$new": 1}"#, "nothing this version knows");
    }
}
