//! Relations of two values: the layer below both engines.
//!
//! [`always`](crate::always) and [`almost`](crate::almost) propose different claims and weigh them
//! by different statistics, but what they claim of two values is one of these relations. How a
//! relation is written ([`Relation::operator`]), said, mirrored, negated and decided is defined
//! here and nowhere else.
//!
//! - `class`: which values can be compared with which.
//! - `tree`: expressions of the property language, built from parts.

mod class;
pub(crate) mod tree;

pub(crate) use class::{Class, TokenKind};

use everhold_property::{BinaryOp, relate};
use everhold_trace::Value;

use crate::evaluate::Truth;

/// A relation of a left value to a right value.
///
/// The order of the variants is the order in which claims about the same operands are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    Equal,
    Less,
    Greater,
    AtMost,
    AtLeast,
    Differ,
    /// The left value is an element of the right container.
    In,
    /// The left container has the right value as an element.
    Holds,
    /// The negation of [`Relation::In`].
    NotIn,
    /// The negation of [`Relation::Holds`].
    Lacks,
    Subset,
    Superset,
    Disjoint,
    /// The left list is a prefix of the right list.
    Prefix,
    /// The right list is a prefix of the left list.
    Extends,
    Subsequence,
    Supersequence,
}

impl Relation {
    /// The relations that follow from this one.
    pub(crate) fn implies(self) -> &'static [Relation] {
        use Relation as R;
        match self {
            R::Equal => &[
                R::AtMost,
                R::AtLeast,
                R::Prefix,
                R::Extends,
                R::Subsequence,
                R::Supersequence,
                R::Subset,
                R::Superset,
            ],
            R::Less => &[R::AtMost, R::Differ],
            R::Greater => &[R::AtLeast, R::Differ],
            R::Prefix => &[R::Subsequence, R::Subset],
            R::Extends => &[R::Supersequence, R::Superset],
            R::Subsequence => &[R::Subset],
            R::Supersequence => &[R::Superset],
            _ => &[],
        }
    }

    /// The relation that holds of `(b, a)` exactly when this one holds of `(a, b)`.
    pub(crate) fn mirrored(self) -> Relation {
        use Relation as R;
        match self {
            R::Less => R::Greater,
            R::Greater => R::Less,
            R::AtMost => R::AtLeast,
            R::AtLeast => R::AtMost,
            R::In => R::Holds,
            R::Holds => R::In,
            R::NotIn => R::Lacks,
            R::Lacks => R::NotIn,
            R::Subset => R::Superset,
            R::Superset => R::Subset,
            R::Prefix => R::Extends,
            R::Extends => R::Prefix,
            R::Subsequence => R::Supersequence,
            R::Supersequence => R::Subsequence,
            R::Equal | R::Differ | R::Disjoint => self,
        }
    }

    /// Whether the relation holds of `(b, a)` whenever it holds of `(a, b)`.
    pub(crate) fn is_symmetric(self) -> bool {
        self.mirrored() == self
    }

    /// The relation that is true exactly where this one is false, if the language has an operator
    /// for it.
    pub(crate) fn negated(self) -> Option<Relation> {
        use Relation as R;
        Some(match self {
            R::Equal => R::Differ,
            R::Differ => R::Equal,
            R::Less => R::AtLeast,
            R::AtLeast => R::Less,
            R::Greater => R::AtMost,
            R::AtMost => R::Greater,
            R::In => R::NotIn,
            R::NotIn => R::In,
            R::Holds => R::Lacks,
            R::Lacks => R::Holds,
            _ => return None,
        })
    }

    /// The operator that writes the relation, and whether the right operand is written first.
    pub(crate) fn operator(self) -> (BinaryOp, bool) {
        use Relation as R;
        match self {
            R::Equal => (BinaryOp::Eq, false),
            R::Differ => (BinaryOp::Ne, false),
            R::Less => (BinaryOp::Lt, false),
            R::Greater => (BinaryOp::Gt, false),
            R::AtMost => (BinaryOp::Le, false),
            R::AtLeast => (BinaryOp::Ge, false),
            R::In => (BinaryOp::In, false),
            R::NotIn => (BinaryOp::NotIn, false),
            R::Holds => (BinaryOp::In, true),
            R::Lacks => (BinaryOp::NotIn, true),
            R::Subset => (BinaryOp::Subset, false),
            R::Superset => (BinaryOp::Subset, true),
            R::Disjoint => (BinaryOp::Disjoint, false),
            R::Prefix => (BinaryOp::Prefix, false),
            R::Extends => (BinaryOp::Prefix, true),
            R::Subsequence => (BinaryOp::Subsequence, false),
            R::Supersequence => (BinaryOp::Subsequence, true),
        }
    }

    /// The English phrase for the relation, and whether the right operand is named first.
    pub(crate) fn phrase(self) -> (&'static str, bool) {
        let (operator, swapped) = self.operator();
        let phrase = match operator {
            BinaryOp::Eq => "equals",
            BinaryOp::Ne => "differs from",
            BinaryOp::Lt => "is below",
            BinaryOp::Gt => "is above",
            BinaryOp::Le => "is at most",
            BinaryOp::Ge => "is at least",
            BinaryOp::In => "is in",
            BinaryOp::NotIn => "is not in",
            BinaryOp::Subset => "is part of",
            BinaryOp::Disjoint => "shares nothing with",
            BinaryOp::Prefix => "is a prefix of",
            BinaryOp::Subsequence => "is a subsequence of",
            _ => unreachable!("no relation is written {operator:?}"),
        };
        (phrase, swapped)
    }

    /// Whether the relation is true of two values, by the rules of the property language.
    pub(crate) fn of(self, left: &Value, right: &Value) -> Truth {
        let (operator, swapped) = self.operator();
        let (left, right) = if swapped { (right, left) } else { (left, right) };
        relate(operator, left, right).ok().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Relation; 17] = {
        use Relation as R;
        [
            R::Equal,
            R::Less,
            R::Greater,
            R::AtMost,
            R::AtLeast,
            R::Differ,
            R::In,
            R::Holds,
            R::NotIn,
            R::Lacks,
            R::Subset,
            R::Superset,
            R::Disjoint,
            R::Prefix,
            R::Extends,
            R::Subsequence,
            R::Supersequence,
        ]
    };

    /// Mirrors, negations and implications are what the language says of values of all shapes.
    #[test]
    fn the_algebra_of_relations_is_that_of_the_language() {
        let lists = [&[][..], &[1], &[1, 2], &[2, 1], &[1, 3, 2]];
        let mut values: Vec<Value> = (0..3).map(Value::Int).collect();
        values.extend(lists.map(|items| Value::list(items.iter().copied())));
        values.extend(lists.map(|items| Value::set(items.iter().copied())));
        let mut judged = 0;
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
            for relation in ALL {
                let truth = relation.of(a, b);
                judged += u32::from(truth != Truth::Unknown);
                // Of operands of wrong types the language may still know one order of the two.
                let mirrored = relation.mirrored().of(b, a);
                let known = truth != Truth::Unknown && mirrored != Truth::Unknown;
                assert!(!known || mirrored == truth, "{relation:?} of {a}, {b}");
                if let Some(negated) = relation.negated() {
                    assert_eq!(negated.of(a, b), truth.negated(), "{relation:?} of {a}, {b}");
                }
                for weaker in relation.implies().iter().filter(|_| truth == Truth::True) {
                    let implied = weaker.of(a, b);
                    assert_ne!(implied, Truth::False, "{relation:?}, {weaker:?} of {a}, {b}");
                }
            }
        }
        assert!(judged > 500, "{judged}");
    }
}
