//! The interface of a chain table: rows, filters, batches of operations, and their outcomes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

/// A name or a part of a key.
pub type Text = Cow<'static, str>;

/// The properties of a row by name.
pub type Properties = BTreeMap<Text, Value>;

/// The version of a row; every write of a table gives a new one. Versions of different tables are
/// unrelated and may be equal.
pub type Etag = u64;

/// A version that no row ever has.
pub const WRONG_ETAG: Etag = 0;

/// The name by which a filter refers to the partition of a row.
const PARTITION: &str = "PartitionKey";
/// The name by which a filter refers to the row key.
const ROW: &str = "RowKey";

/// The primary key of a row; ordered by partition, then by row.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// The partition; batches and atomic queries stay within one.
    pub partition: Text,
    /// The key within the partition; a key without one is no key.
    pub row: Text,
}

impl Key {
    /// The key of a row.
    pub fn new(partition: impl Into<Text>, row: impl Into<Text>) -> Self {
        Key { partition: partition.into(), row: row.into() }
    }

    /// A key after which no other key of the tests comes before the next row.
    #[must_use]
    pub fn successor(&self) -> Self {
        Key { partition: self.partition.clone(), row: Cow::Owned(format!("{} ", self.row)) }
    }
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Serialize)]
pub enum Value {
    /// A truth value.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(Text),
}

impl Value {
    fn is_comparable(&self, other: &Value) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its primary key.
    pub key: Key,
    /// Its version.
    pub etag: Etag,
    /// Its other properties.
    pub properties: Properties,
}

impl Row {
    /// Whether a property is present and true.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.properties.get(name) == Some(&Value::Flag(true))
    }
}

/// The comparison of a property with a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// A condition on rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Filter {
    /// Every row.
    All,
    /// A comparison; false where the property is absent or of another type, also for `Ne`.
    Compare(Text, Comparison, Value),
    /// Both conditions.
    And(Box<Filter>, Box<Filter>),
    /// One of the conditions.
    Or(Box<Filter>, Box<Filter>),
}

impl Filter {
    /// A property that has this value.
    pub fn equals(property: impl Into<Text>, value: Value) -> Filter {
        Filter::Compare(property.into(), Comparison::Eq, value)
    }

    /// The rows of a partition.
    #[must_use]
    pub fn partition(partition: &Text) -> Filter {
        Filter::equals(PARTITION, Value::Text(partition.clone()))
    }

    /// The rows with this row key, in every partition.
    #[must_use]
    pub fn row(row: &Text) -> Filter {
        Filter::equals(ROW, Value::Text(row.clone()))
    }

    /// The row with this key.
    #[must_use]
    pub fn key(key: &Key) -> Filter {
        Filter::partition(&key.partition).and(Filter::row(&key.row))
    }

    /// The rows from this key on.
    #[must_use]
    pub fn from_key(key: &Key) -> Filter {
        let text = |text: &Text| Value::Text(text.clone());
        let later = Filter::Compare(PARTITION.into(), Comparison::Gt, text(&key.partition));
        let rows = Filter::Compare(ROW.into(), Comparison::Ge, text(&key.row));
        later.or(Filter::partition(&key.partition).and(rows))
    }

    /// Both conditions.
    #[must_use]
    pub fn and(self, other: Filter) -> Filter {
        match (self, other) {
            (Filter::All, one) | (one, Filter::All) => one,
            (one, other) => Filter::And(Box::new(one), Box::new(other)),
        }
    }

    /// One of the conditions.
    #[must_use]
    pub fn or(self, other: Filter) -> Filter {
        Filter::Or(Box::new(self), Box::new(other))
    }

    /// Whether a row meets the condition.
    #[must_use]
    pub fn matches(&self, row: &Row) -> bool {
        match self {
            Filter::All => true,
            Filter::And(one, other) => one.matches(row) && other.matches(row),
            Filter::Or(one, other) => one.matches(row) || other.matches(row),
            Filter::Compare(name, how, literal) => match (&**name, literal) {
                (PARTITION, Value::Text(text)) => compare(&row.key.partition, *how, text),
                (ROW, Value::Text(text)) => compare(&row.key.row, *how, text),
                (name, literal) => row.properties.get(name).is_some_and(|value| {
                    value.is_comparable(literal) && compare(value, *how, literal)
                }),
            },
        }
    }

    /// The partition to which the filter is bound by its form, and the other condition: `PartitionKey
    /// eq P`, alone or as the first part of a conjunction. Atomic queries need such a filter.
    #[must_use]
    pub fn bound_partition(&self) -> Option<(&Text, &Filter)> {
        match self {
            Filter::Compare(name, Comparison::Eq, Value::Text(text)) if name == PARTITION => {
                Some((text, &Filter::All))
            }
            Filter::And(one, rest) => match one.bound_partition() {
                Some((partition, Filter::All)) => Some((partition, rest)),
                _ => None,
            },
            _ => None,
        }
    }
}

fn compare<T: PartialOrd + ?Sized>(value: &T, how: Comparison, literal: &T) -> bool {
    match how {
        Comparison::Eq => value == literal,
        Comparison::Ne => value != literal,
        Comparison::Lt => value < literal,
        Comparison::Le => value <= literal,
        Comparison::Gt => value > literal,
        Comparison::Ge => value >= literal,
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Kind {
    /// Adds a row that must not exist.
    Insert,
    /// Overwrites a row that must exist.
    Replace,
    /// Overlays the properties of a row that must exist.
    Merge,
    /// Removes a row that must exist, or with [`Match::AnyOrAbsent`] need not.
    Delete,
    /// Writes a row, whether it exists or not.
    InsertOrReplace,
    /// Overlays a row, or adds it.
    InsertOrMerge,
}

impl Kind {
    /// Whether operations of this kind carry a version.
    #[must_use]
    pub fn is_conditional(self) -> bool {
        matches!(self, Kind::Replace | Kind::Merge | Kind::Delete)
    }
}

/// The version that a row must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Match {
    /// Any version (`*`).
    Any,
    /// This one.
    Exactly(Etag),
    /// Any version or none (`**`), for deletions alone.
    AnyOrAbsent,
}

/// One operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Op {
    /// Its kind.
    pub kind: Kind,
    /// The row.
    pub key: Key,
    /// The version that the row must have; needed by conditional kinds.
    pub condition: Option<Match>,
    /// The properties to write.
    pub properties: Properties,
}

impl Op {
    /// An operation without a condition on the version.
    #[must_use]
    pub fn new(kind: Kind, key: Key, properties: Properties) -> Self {
        Op { kind, key, condition: None, properties }
    }

    /// The same with a condition.
    #[must_use]
    pub fn when(self, condition: Match) -> Self {
        Op { condition: Some(condition), ..self }
    }
}

/// The status of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// 201: inserted.
    Created,
    /// 204: written.
    NoContent,
    /// 404: there is no such row.
    NotFound,
    /// 409: the row exists.
    Conflict,
    /// 412: the row has another version.
    PreconditionFailed,
}

/// The result of an operation that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Its status.
    pub status: Status,
    /// The row's new version; a deletion has none.
    pub etag: Option<Etag>,
}

/// The first operation of a batch that failed; nothing of the batch was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The reason.
    pub status: Status,
    /// The operation.
    pub index: usize,
}

/// The outcome of a batch.
pub type Outcome = Result<Vec<Written>, Refusal>;
