//! The meaning of the operators on values. Both evaluators use these functions.
//!
//! Where a container is expected, null is the empty one. Arithmetic on null gives null. A
//! comparison of values without an order is unknown.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use everhold_trace::Value;

use crate::ast::BinaryOp;
use crate::verdict::Unknown;

pub(crate) static NULL: Value = Value::Null;

fn mismatch(op: &'static str, left: &Value, right: &Value) -> Unknown {
    Unknown::Mismatch { op, left: left.type_name(), right: Some(right.type_name()) }
}

pub(crate) fn mismatch_one(op: &'static str, value: &Value) -> Unknown {
    Unknown::Mismatch { op, left: value.type_name(), right: None }
}

/// Equality: numbers by size, everything else by structure.
#[inline]
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        #[expect(
            clippy::cast_precision_loss,
            reason = "comparing by size is meant to be approximate"
        )]
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => *a as f64 == *b,
        _ => left == right,
    }
}

/// Order: of numbers, texts, bytes, and lists of these.
pub(crate) fn compare(op: &'static str, left: &Value, right: &Value) -> Result<Ordering, Unknown> {
    let order = match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::List(a), Value::List(b)) => return compare_lists(op, a, b),
        _ => number(left).zip(number(right)).and_then(|(a, b)| a.partial_cmp(&b)),
    };
    order.ok_or_else(|| mismatch(op, left, right))
}

fn compare_lists(op: &'static str, a: &[Value], b: &[Value]) -> Result<Ordering, Unknown> {
    for (x, y) in a.iter().zip(b) {
        let order = compare(op, x, y)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(a.len().cmp(&b.len()))
}

pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        #[expect(
            clippy::cast_precision_loss,
            reason = "comparing by size is meant to be approximate"
        )]
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// Comparisons, membership and the relations between containers: returns the value of `left op
/// right`.
///
/// ```
/// use everhold_property::{BinaryOp, Value, relate};
/// assert_eq!(relate(BinaryOp::In, &Value::Int(1), &Value::set([1, 2])), Ok(true));
/// assert!(relate(BinaryOp::Lt, &Value::Int(1), &Value::Null).is_err());
/// ```
///
/// # Panics
///
/// If `op` is arithmetic or a connective, which relate nothing.
pub fn relate(op: BinaryOp, left: &Value, right: &Value) -> Result<bool, Unknown> {
    let order = || compare(op.text(), left, right);
    match op {
        BinaryOp::Eq => Ok(equal(left, right)),
        BinaryOp::Ne => Ok(!equal(left, right)),
        BinaryOp::Lt => order().map(Ordering::is_lt),
        BinaryOp::Le => order().map(Ordering::is_le),
        BinaryOp::Gt => order().map(Ordering::is_gt),
        BinaryOp::Ge => order().map(Ordering::is_ge),
        BinaryOp::In => contains(right, left),
        BinaryOp::NotIn => contains(right, left).map(|found| !found),
        BinaryOp::Subset => every_element("subset of", left, |item| contains(right, item)),
        BinaryOp::Disjoint => {
            every_element("disjoint from", left, |item| contains(right, item).map(|found| !found))
        }
        BinaryOp::Prefix => prefix(left, right),
        BinaryOp::Subsequence => subsequence(left, right),
        _ => unreachable!("{op:?} does not relate two values"),
    }
}

fn every_element(
    op: &'static str,
    container: &Value,
    mut test: impl FnMut(&Value) -> Result<bool, Unknown>,
) -> Result<bool, Unknown> {
    let mut all = true;
    let known = for_each_element(container, &mut |item| {
        all = all && test(item)?;
        Ok(())
    })?;
    if known { Ok(all) } else { Err(mismatch_one(op, container)) }
}

fn contains(container: &Value, item: &Value) -> Result<bool, Unknown> {
    let by_size = matches!(item, Value::Int(_) | Value::Float(_));
    match (container, item) {
        (Value::Null, _) => Ok(false),
        (Value::List(items), _) => Ok(items.iter().any(|other| equal(other, item))),
        (Value::Set(items), _) => {
            Ok(items.contains(item) || by_size && items.iter().any(|other| equal(other, item)))
        }
        (Value::Map(entries), _) => {
            Ok(entries.contains_key(item) || by_size && entries.keys().any(|key| equal(key, item)))
        }
        (Value::Record(fields), Value::Text(name)) => Ok(fields.contains_key(name)),
        (Value::Record(_), _) => Ok(false),
        (Value::Text(whole), Value::Text(part)) => Ok(whole.contains(part)),
        _ => Err(mismatch("in", item, container)),
    }
}

fn prefix(left: &Value, right: &Value) -> Result<bool, Unknown> {
    match (left, right) {
        (Value::Text(part), Value::Text(whole)) => Ok(whole.starts_with(part)),
        (Value::Bytes(part), Value::Bytes(whole)) => Ok(whole.starts_with(part)),
        (Value::Null, Value::Null | Value::List(_) | Value::Text(_) | Value::Bytes(_)) => Ok(true),
        (Value::List(part), Value::Null) => Ok(part.is_empty()),
        (Value::List(part), Value::List(whole)) => {
            Ok(part.len() <= whole.len() && part.iter().zip(whole).all(|(a, b)| equal(a, b)))
        }
        _ => Err(mismatch("prefix of", left, right)),
    }
}

/// Whether the elements of one list occur in the other in the same order, with or without gaps.
fn subsequence(left: &Value, right: &Value) -> Result<bool, Unknown> {
    match (left, right) {
        (Value::Null, Value::Null | Value::List(_)) => Ok(true),
        (Value::List(part), Value::Null) => Ok(part.is_empty()),
        (Value::List(part), Value::List(whole)) => {
            // Matching each element at the first possible place leaves the most room for the rest.
            let mut whole = whole.iter();
            Ok(part.iter().all(|item| whole.any(|other| equal(other, item))))
        }
        _ => Err(mismatch("subsequence of", left, right)),
    }
}

/// `+ - * / %`. Integers stay integers, and division of them drops the remainder.
pub(crate) fn arithmetic(op: BinaryOp, left: &Value, right: &Value) -> Result<Value, Unknown> {
    match (left, right) {
        (Value::Null, Value::Null | Value::Int(_) | Value::Float(_))
        | (Value::Int(_) | Value::Float(_), Value::Null) => Ok(Value::Null),
        (Value::Int(a), Value::Int(b)) => integer(op, *a, *b).map(Value::Int),
        _ => match number(left).zip(number(right)) {
            Some((a, b)) => Ok(Value::Float(float(op, a, b))),
            None => Err(mismatch(op.text(), left, right)),
        },
    }
}

fn integer(op: BinaryOp, a: i64, b: i64) -> Result<i64, Unknown> {
    let result = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div | BinaryOp::Rem if b == 0 => return Err(Unknown::DivisionByZero),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        _ => unreachable!("{op:?} is not arithmetic"),
    };
    result.ok_or(Unknown::Overflow)
}

fn float(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Rem => a % b,
        _ => unreachable!("{op:?} is not arithmetic"),
    }
}

pub(crate) fn negate(value: &Value) -> Result<Value, Unknown> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or(Unknown::Overflow),
        Value::Float(number) => Ok(Value::Float(-number)),
        _ => Err(mismatch_one("-", value)),
    }
}

/// `value.name` of anything but a node. A field that is not there is null.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value, Unknown> {
    match value {
        Value::Null => Ok(&NULL),
        Value::Record(fields) => Ok(fields.get(name).unwrap_or(&NULL)),
        Value::Map(entries) => {
            let found = entries.iter().find(|(key, _)| key.as_text() == Some(name));
            Ok(found.map_or(&NULL, |(_, value)| value))
        }
        Value::Variant { name: variant, payload } if variant == name => Ok(payload),
        // A variant with fields is used like a record.
        Value::Variant { payload, .. } => match payload.as_ref() {
            Value::Record(fields) => Ok(fields.get(name).unwrap_or(&NULL)),
            _ => Ok(&NULL),
        },
        // A variant without a payload is text: it has no other variant's payload.
        Value::Text(_) => Ok(&NULL),
        _ => Err(mismatch_one(".", value)),
    }
}

/// `value[index]`. An element that is not there is null.
pub(crate) fn index<'a>(value: &'a Value, index: &Value) -> Result<&'a Value, Unknown> {
    match (value, index) {
        (Value::Null, _) => Ok(&NULL),
        (Value::List(items), Value::Int(at)) => {
            let found = usize::try_from(*at).ok().and_then(|at| items.get(at));
            Ok(found.unwrap_or(&NULL))
        }
        (Value::Map(entries), key) => {
            let found = entries.get(key).or_else(|| {
                let by_size = matches!(key, Value::Int(_) | Value::Float(_));
                entries.iter().find(|(other, _)| by_size && equal(other, key)).map(|(_, v)| v)
            });
            Ok(found.unwrap_or(&NULL))
        }
        (Value::Record(fields), Value::Text(name)) => Ok(fields.get(name).unwrap_or(&NULL)),
        (Value::Variant { payload, .. }, Value::Int(_)) => self::index(payload, index),
        (Value::List(_), Value::Null) => Ok(&NULL),
        _ => Err(mismatch("[]", value, index)),
    }
}

/// `value is name`: a variant of that name, with or without a payload.
pub(crate) fn is_variant(value: &Value, name: &str) -> bool {
    match value {
        Value::Variant { name: variant, .. } => variant == name,
        Value::Text(text) => text == name,
        _ => false,
    }
}

/// The number of elements; 0 for null.
pub(crate) fn len(value: &Value) -> Result<Value, Unknown> {
    let len = match value {
        Value::Null => 0,
        Value::Text(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Set(items) => items.len(),
        Value::Map(entries) => entries.len(),
        Value::Record(fields) => fields.len(),
        _ => return Err(mismatch_one("len", value)),
    };
    Ok(Value::Int(i64::try_from(len).unwrap_or(i64::MAX)))
}

/// Calls `visit` on each element; false if the value is no container.
pub(crate) fn for_each_element(
    container: &Value,
    visit: &mut dyn FnMut(&Value) -> Result<(), Unknown>,
) -> Result<bool, Unknown> {
    match container {
        Value::Null => {}
        Value::List(items) => items.iter().try_for_each(visit)?,
        Value::Set(items) => items.iter().try_for_each(visit)?,
        Value::Map(entries) => entries.keys().try_for_each(visit)?,
        Value::Record(fields) => {
            fields.keys().try_for_each(|name| visit(&Value::Text(name.clone())))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The elements of a list or set, the keys of a map, the names of a record.
pub(crate) fn elements(container: &Value) -> Result<Vec<Value>, Unknown> {
    let mut items = Vec::new();
    let known = for_each_element(container, &mut |item| {
        items.push(item.clone());
        Ok(())
    })?;
    if known { Ok(items) } else { Err(mismatch_one("in", container)) }
}

/// The entries of a map or record, the positions and elements of a list.
pub(crate) fn entries(container: &Value) -> Result<Vec<(Value, &Value)>, Unknown> {
    match container {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => Ok((0..).map(Value::Int).zip(items).collect()),
        Value::Map(entries) => {
            Ok(entries.iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Record(fields) => {
            Ok(fields.iter().map(|(name, value)| (Value::Text(name.clone()), value)).collect())
        }
        _ => Err(mismatch_one("->", container)),
    }
}

/// A longer range is a mistake in the property or in the state, and would look like a hang.
const RANGE_MAX: i64 = 1_000_000;

/// The integers of a range; null on either side makes it empty.
pub(crate) fn range(from: &Value, to: &Value, inclusive: bool) -> Result<(i64, i64), Unknown> {
    match (from, to) {
        (Value::Int(from), Value::Int(to)) => {
            let end = if inclusive { to.checked_add(1).ok_or(Unknown::Overflow)? } else { *to };
            let len = end.checked_sub(*from).ok_or(Unknown::Overflow)?;
            if len > RANGE_MAX { Err(Unknown::Overflow) } else { Ok((*from, end)) }
        }
        (Value::Null, Value::Null | Value::Int(_)) | (Value::Int(_), Value::Null) => Ok((0, 0)),
        _ => Err(mismatch("..", from, to)),
    }
}

pub(crate) fn sorted(value: &Value) -> Result<Value, Unknown> {
    match value {
        Value::Null => Ok(Value::Bool(true)),
        Value::List(items) => {
            let mut sorted = true;
            for pair in items.windows(2) {
                sorted = sorted && compare("sorted", &pair[0], &pair[1])?.is_le();
            }
            Ok(Value::Bool(sorted))
        }
        _ => Err(mismatch_one("sorted", value)),
    }
}

pub(crate) fn set_of(items: Vec<Value>) -> Value {
    Value::Set(items.into_iter().collect::<BTreeSet<Value>>())
}
