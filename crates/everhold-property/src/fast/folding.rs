//! The contributions of an aggregate's bindings, and their running result.

use everhold_trace::Value;

use crate::ast::Aggregate;
use crate::library::fold;

/// The contribution of each tuple to one aggregate. `None` is not known, `Some(None)` is nothing.
#[derive(Clone, Debug)]
pub(super) struct Folding {
    op: Aggregate,
    tuples: Vec<Option<Option<Value>>>,
    /// How many contributions are not known.
    unknown: usize,
    /// How many tuples contribute a value, null included.
    values: usize,
    /// How many contribute something that is neither an integer nor null.
    others: usize,
    /// The sum of the integers.
    sum: i128,
    /// The sum of their sizes: while it fits an integer, no order of adding them overflows.
    size: i128,
}

impl Folding {
    pub(super) fn new(op: Aggregate, tuples: usize) -> Folding {
        let tuples = vec![Some(None); tuples];
        Folding { op, tuples, unknown: 0, values: 0, others: 0, sum: 0, size: 0 }
    }

    pub(super) fn set(&mut self, tuple: usize, new: Option<Option<Value>>) {
        let old = self.tuples[tuple].take();
        self.count(old.as_ref().map(Option::as_ref), -1);
        self.count(new.as_ref().map(Option::as_ref), 1);
        self.tuples[tuple] = new;
    }

    /// Adds a contribution to the running numbers (`sign` 1), or takes it away (-1).
    fn count(&mut self, contribution: Option<Option<&Value>>, sign: i8) {
        let step = |count: usize| count.wrapping_add_signed(sign.into());
        match contribution {
            None => self.unknown = step(self.unknown),
            Some(None) => {}
            Some(Some(value)) => {
                self.values = step(self.values);
                match value {
                    Value::Null => {}
                    Value::Int(number) => {
                        let number = i128::from(*number) * i128::from(sign);
                        self.sum += number;
                        self.size += number.abs() * i128::from(sign);
                    }
                    _ => self.others = step(self.others),
                }
            }
        }
    }

    /// The result; `None` if it is not known.
    pub(super) fn value(&self) -> Option<Value> {
        if self.unknown > 0 {
            return None;
        }
        let is_plain = self.others == 0 && self.size <= i128::from(i64::MAX);
        match self.op {
            Aggregate::Count => i64::try_from(self.values).ok().map(Value::Int),
            Aggregate::Sum if is_plain => i64::try_from(self.sum).ok().map(Value::Int),
            op => fold(op, self.tuples.iter().flatten().flatten().cloned().collect()).ok(),
        }
    }
}
