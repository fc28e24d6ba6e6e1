//! Codes of numbers and of other values, and the columns that hold them.
//!
//! Numbers are coded by their size, so that comparing codes compares numbers; all other values are
//! coded by the [`Dictionary`]. The same 32 bits mean different things in the two codings, so a
//! [`Cell`] says which of them it is, and a [`Column`] holds codes of one coding only.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Deref;

use everhold_trace::Value;

use crate::dictionary::{Code, Dictionary};

/// The place of a number among [`Numbers`], in order of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NumberCode(pub(crate) u32);

impl NumberCode {
    /// The code where there is no number.
    pub(crate) const NONE: NumberCode = NumberCode(0);
}

/// A value by its code, in the coding of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cell {
    Number(NumberCode),
    Value(Code),
}

impl Cell {
    /// The code without its coding: 0 is null in both.
    pub(crate) fn raw(self) -> u32 {
        match self {
            Cell::Number(code) => code.0,
            Cell::Value(code) => code.0,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.raw() == 0
    }

    /// The value that the code stands for.
    pub(crate) fn value<'a>(self, values: &'a Dictionary, numbers: &Numbers) -> Cow<'a, Value> {
        match self {
            Cell::Number(code) => Cow::Owned(numbers.value(code)),
            Cell::Value(code) => Cow::Borrowed(values.value(code)),
        }
    }
}

/// The codes of one variable, one for each row, all in the same coding.
///
/// As a slice it shows the codes without their coding. Only codes of columns with the same coding
/// may be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Numbers(Vec<u32>),
    Values(Vec<u32>),
}

impl Column {
    /// A column of numbers.
    pub(crate) fn of_numbers(codes: impl IntoIterator<Item = NumberCode>) -> Column {
        Column::Numbers(codes.into_iter().map(|code| code.0).collect())
    }

    /// A column of other values.
    pub(crate) fn of_values(codes: impl IntoIterator<Item = Code>) -> Column {
        Column::Values(codes.into_iter().map(|code| code.0).collect())
    }

    /// A code of this column, with its coding.
    pub(crate) fn cell(&self, raw: u32) -> Cell {
        match self {
            Column::Numbers(_) => Cell::Number(NumberCode(raw)),
            Column::Values(_) => Cell::Value(Code(raw)),
        }
    }

    /// The code of a row as that of a number; of a column of other values, the code of no number.
    pub(crate) fn number(&self, row: u32) -> NumberCode {
        match self {
            Column::Numbers(codes) => NumberCode(codes[row as usize]),
            Column::Values(_) => NumberCode::NONE,
        }
    }
}

impl Deref for Column {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        let (Column::Numbers(codes) | Column::Values(codes)) = self;
        codes
    }
}

/// The distinct codes of a column, in order.
pub(crate) fn distinct(column: &[u32]) -> Vec<u32> {
    few(column, 64).unwrap_or_else(|| {
        let mut codes = column.to_vec();
        codes.sort_unstable();
        codes.dedup();
        codes
    })
}

/// The distinct codes of a column, in order, if there are at most `max`.
pub(crate) fn few(column: &[u32], max: usize) -> Option<Vec<u32>> {
    let mut seen: Vec<u32> = Vec::new();
    // The next code is mostly a recent one.
    let mut lately = [None; 8];
    for code in column {
        if lately[(code % 8) as usize] == Some(code) {
            continue;
        }
        lately[(code % 8) as usize] = Some(code);
        if let Err(place) = seen.binary_search(code) {
            if seen.len() == max {
                return None;
            }
            seen.insert(place, *code);
        }
    }
    Some(seen)
}

/// The numbers of all variables in order of size. Their codes count from 1.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// The numbers that occur.
    Listed {
        /// The code of each number, by the code that the dictionary gives it.
        codes: Vec<NumberCode>,
        /// The numbers by their code.
        values: Vec<Value>,
    },
    /// All whole numbers from this one on, which has code 1.
    From(i64),
}

impl Numbers {
    /// The numbers among the values of a dictionary.
    pub(crate) fn of(values: &Dictionary) -> Numbers {
        let is_number = |c: &Code| match values.value(*c) {
            Value::Int(_) => true,
            Value::Float(number) => !number.is_nan(),
            _ => false,
        };
        let mut numbers: Vec<Code> = values.codes().filter(is_number).collect();
        numbers.sort_by(|a, b| by_size(values.value(*a), values.value(*b)));
        let (mut codes, mut listed) = (vec![NumberCode::NONE; values.len()], vec![Value::Null]);
        for number in numbers {
            let value = values.value(number);
            let last = listed.last().expect("null is there");
            if *last == Value::Null || by_size(last, value).is_ne() {
                listed.push(value.clone());
            }
            let place = u32::try_from(listed.len() - 1).expect("fewer than 2^32 values");
            codes[number.index()] = NumberCode(place);
        }
        Numbers::Listed { codes, values: listed }
    }

    /// The number of a code; null if there is none.
    pub(crate) fn value(&self, code: NumberCode) -> Value {
        match self {
            _ if code == NumberCode::NONE => Value::Null,
            Numbers::Listed { values, .. } => values[code.0 as usize].clone(),
            Numbers::From(first) => Value::Int(first + i64::from(code.0) - 1),
        }
    }

    /// The number of a code, if it is a whole number.
    pub(crate) fn int(&self, code: NumberCode) -> Option<i64> {
        match self {
            _ if code == NumberCode::NONE => None,
            Numbers::Listed { values, .. } => values[code.0 as usize].as_int(),
            Numbers::From(first) => Some(first + i64::from(code.0) - 1),
        }
    }

    /// Whether some number is not whole.
    pub(crate) fn has_fractions(&self) -> bool {
        match self {
            Numbers::Listed { values, .. } => {
                values.iter().any(|value| matches!(value, Value::Float(_)))
            }
            Numbers::From(_) => false,
        }
    }

    /// The number code of a value of the dictionary.
    pub(crate) fn code(&self, value: Code) -> NumberCode {
        match self {
            Numbers::Listed { codes, .. } => codes[value.index()],
            Numbers::From(_) => unreachable!("a table of numbers has no dictionary"),
        }
    }
}

/// The order of numbers by size, in which an integer may equal a float.
fn by_size(a: &Value, b: &Value) -> Ordering {
    #[expect(clippy::cast_precision_loss, reason = "as the language compares them")]
    let float = |value: &Value| match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => f64::NAN,
    };
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        // `0.0` and `-0.0` are one number.
        (a, b) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_codes_have_the_order_of_the_numbers() {
        let mut values = Dictionary::default();
        let numbers =
            [Value::Int(7), Value::Float(-0.5), Value::Int(-3), Value::Float(7.0), "7".into()];
        let codes = numbers.each_ref().map(|value| values.code(value));
        let ordered = Numbers::of(&values);
        let [seven, half, less, float, text] = codes.map(|code| ordered.code(code));
        assert!(less < half && half < seven && seven == float && text == NumberCode::NONE);
        assert_eq!(ordered.int(seven), Some(7));
        assert_eq!(ordered.value(half), Value::Float(-0.5));
    }
}
