//! From the bytes of a record to values.

use std::cmp::Ordering;

use everhold_trace::Value;

use crate::capture::{Capture, Format};
use crate::language::{Comparison, Condition, Expr, Literal, Path};
use crate::program::{HEADER, TEXT};
use crate::resolve::Resolved;

/// A record of a probe, as the kernel's program wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Nanoseconds of the monotonic clock.
    pub(crate) time: u64,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// The number of the program.
    pub(crate) number: u32,
    unreadable: u32,
    /// The part after the first words.
    pub(crate) body: Vec<u8>,
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

fn word(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
    part.map_or(0, u64::from_le_bytes)
}

impl Record {
    pub(crate) fn read(bytes: &[u8]) -> Option<Record> {
        if bytes.len() < HEADER {
            return None;
        }
        let (process, number) = (word(bytes, 8), word(bytes, 16));
        Some(Record {
            time: word(bytes, 0),
            process: (process >> 32) as u32,
            thread: process as u32,
            number: number as u32,
            unreadable: (number >> 32) as u32,
            body: bytes[HEADER..].to_vec(),
        })
    }

    /// The value of a capture.
    fn capture(&self, resolved: &Resolved, wanted: usize) -> Result<Value, Unreadable> {
        let all: usize = resolved.captures.iter().map(|capture| capture.words().len()).sum();
        let before = &resolved.captures[..wanted];
        let index: usize = before.iter().map(|capture| capture.words().len()).sum();
        let texts = before.iter().filter(|capture| capture.is_text()).count();
        let capture = &resolved.captures[wanted];
        for at in index..index + capture.words().len() {
            if self.unreadable & 1 << at != 0 {
                return Err(Unreadable);
            }
        }
        let text = || self.body.get(8 * all + TEXT * texts..).unwrap_or_default();
        Ok(match capture {
            Capture::Scalar { size, format, .. } => {
                scalar(word(&self.body, 8 * index), *size, format)
            }
            Capture::CText { .. } => {
                let text = &text()[..TEXT.min(text().len())];
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                String::from_utf8_lossy(&text[..end]).into_owned().into()
            }
            Capture::Text { .. } => {
                let len = word(&self.body, 8 * (index + 1));
                let len = usize::try_from(len).unwrap_or(TEXT).min(TEXT).min(text().len());
                String::from_utf8_lossy(&text()[..len]).into_owned().into()
            }
        })
    }

    /// The value of an expression.
    pub(crate) fn value(&self, resolved: &Resolved, of: &Expr) -> Result<Value, Unreadable> {
        match of {
            Expr::Literal(literal) => Ok(constant(literal)),
            Expr::Read(path) => self.path(resolved, path),
        }
    }

    fn path(&self, resolved: &Resolved, path: &Path) -> Result<Value, Unreadable> {
        let found = resolved.reads.iter().find(|(known, _)| known == path);
        found.map_or(Err(Unreadable), |(_, capture)| self.capture(resolved, *capture))
    }

    /// Whether all conditions hold. The kernel has asked those between numbers already.
    pub(crate) fn satisfies(
        &self,
        resolved: &Resolved,
        conditions: &[Condition],
    ) -> Result<bool, Unreadable> {
        for condition in conditions {
            let left = self.value(resolved, &condition.left)?;
            let right = self.value(resolved, &condition.right)?;
            if !holds(&left, condition.comparison, &right) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn holds(left: &Value, comparison: Comparison, right: &Value) -> bool {
    let truth = |value: &Value| match value {
        Value::Bool(truth) => Value::Int(i64::from(*truth)),
        other => other.clone(),
    };
    let (left, right) = (truth(left), truth(right));
    let order = match (&left, &right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        (Value::Float(left), Value::Float(right)) => {
            left.partial_cmp(right).unwrap_or(Ordering::Less)
        }
        // Things of different kinds are different, and in no order.
        _ => return (left == right) == (comparison == Comparison::Equal),
    };
    comparison.holds(order)
}

fn constant(literal: &Literal) -> Value {
    match literal {
        Literal::Int(number) => (*number).into(),
        Literal::Text(text) => text.as_str().into(),
        Literal::Bool(truth) => (*truth).into(),
        Literal::Null => Value::Null,
    }
}

/// The value of the lower bytes of a word.
fn scalar(word: u64, size: u8, format: &Format) -> Value {
    let spare = 64 - 8 * u32::from(size);
    let unsigned = word << spare >> spare;
    let signed = (word << spare).cast_signed() >> spare;
    match format {
        Format::Unsigned => unsigned.into(),
        Format::Signed => signed.into(),
        Format::Bool => (unsigned & 0xff != 0).into(),
        Format::Char => char::from_u32(unsigned as u32).unwrap_or('\u{fffd}').to_string().into(),
        Format::Float if size == 4 => Value::Float(f32::from_bits(unsigned as u32).into()),
        Format::Float => Value::Float(f64::from_bits(unsigned)),
        Format::Enum(names) => {
            match names.get(&signed).or_else(|| names.get(&unsigned.cast_signed())) {
                Some(name) => name.as_str().into(),
                None => signed.into(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_bytes_count() {
        assert_eq!(scalar(0xffff_ffff_0000_00fe, 1, &Format::Unsigned), 254.into());
        assert_eq!(scalar(0xfe, 1, &Format::Signed), (-2).into());
        assert_eq!(scalar(0x1_0000_0001, 4, &Format::Bool), true.into());
        assert_eq!(scalar(u64::MAX, 8, &Format::Unsigned), "18446744073709551615".into());
        assert_eq!(scalar(65, 4, &Format::Char), "A".into());
        let names = Format::Enum(std::sync::Arc::new([(-1, "None".to_owned())].into()));
        assert_eq!(scalar(0xffff_ffff, 4, &names), "None".into());
        assert_eq!(scalar(7, 4, &names), 7.into());
    }

    #[test]
    fn values_of_different_kinds_are_only_different() {
        assert!(holds(&1.into(), Comparison::AtLeast, &1.into()));
        assert!(holds(&"b".into(), Comparison::More, &"a".into()));
        assert!(!holds(&1.into(), Comparison::Equal, &"1".into()));
        assert!(holds(&true.into(), Comparison::Equal, &1.into()));
    }
}
