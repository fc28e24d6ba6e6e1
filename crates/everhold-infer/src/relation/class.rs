//! Classes of values: which values can be compared with which, and how.

use everhold_property::Type;

use super::Relation;

/// The values that the same relations apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Numbers: they have an order.
    Number,
    /// Values that are equal or different and have no other relation.
    Token(TokenKind),
    /// Lists: their elements have an order.
    List,
    /// Sets, and maps as the sets of their keys.
    Set,
}

/// The kinds of tokens; tokens of different kinds are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Bool,
    Text,
    Bytes,
    Node,
    Variant,
    Record,
}

impl Class {
    /// The class of a type; `None` if values of the type are not compared at all.
    pub(crate) fn of(ty: &Type) -> Option<Class> {
        Some(match ty {
            Type::Int | Type::Float => Class::Number,
            Type::Bool => Class::Token(TokenKind::Bool),
            Type::Text => Class::Token(TokenKind::Text),
            Type::Bytes => Class::Token(TokenKind::Bytes),
            Type::Node(_) => Class::Token(TokenKind::Node),
            Type::Variant(_) => Class::Token(TokenKind::Variant),
            Type::Record(_) => Class::Token(TokenKind::Record),
            Type::List(_) => Class::List,
            Type::Set(_) | Type::Map(..) => Class::Set,
            Type::Any | Type::Null => return None,
        })
    }

    /// Whether values of the class are single values and no containers.
    pub(crate) fn is_single(self) -> bool {
        matches!(self, Class::Number | Class::Token(_))
    }

    /// The relations worth trying between values of two classes, the strongest first.
    pub(crate) fn relations_to(self, right: Class) -> &'static [Relation] {
        use Relation as R;
        const RECORD: Class = Class::Token(TokenKind::Record);
        match (self, right) {
            (Class::Number, Class::Number) => {
                &[R::Equal, R::Less, R::Greater, R::AtMost, R::AtLeast, R::Differ]
            }
            (Class::Token(a), Class::Token(b)) if a == b => &[R::Equal, R::Differ],
            (Class::List, Class::List) => {
                const LISTS: [Relation; 9] = [
                    R::Equal,
                    R::Prefix,
                    R::Extends,
                    R::Subsequence,
                    R::Supersequence,
                    R::Subset,
                    R::Superset,
                    R::Disjoint,
                    R::Differ,
                ];
                &LISTS
            }
            (Class::Set, Class::Set) => &[R::Equal, R::Subset, R::Superset, R::Disjoint, R::Differ],
            (RECORD, _) | (_, RECORD) => &[],
            (Class::Number | Class::Token(_), Class::List | Class::Set) => &[R::In, R::NotIn],
            (Class::List | Class::Set, Class::Number | Class::Token(_)) => &[R::Holds, R::Lacks],
            _ => &[],
        }
    }
}
