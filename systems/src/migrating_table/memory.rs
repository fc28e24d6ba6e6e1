//! A table in memory with its whole history, by which streams may show any moment since they began.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Serialize, Serializer};

use super::table::{
    Etag, Filter, Key, Kind, Match, Op, Outcome, Properties, Refusal, Row, Status, Written,
};

type Rows = BTreeMap<Key, Row>;

/// A batch that no table accepts: the caller has a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadArgument(pub &'static str);

/// The rows that a stream may return next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Valid {
    /// The versions of rows, the present ones first.
    pub rows: Vec<Row>,
    /// Whether the stream may end.
    pub may_end: bool,
}

/// A sorted map of rows that remembers every state it was in.
#[derive(Clone, Debug)]
pub struct MemoryTable {
    rows: Rc<Rows>,
    last_etag: Etag,
    history: Vec<Rc<Rows>>,
}

// A reader sees the rows; the history would only repeat earlier observations.
impl Serialize for MemoryTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.values())
    }
}

impl MemoryTable {
    /// A table with these rows.
    pub fn new(rows: impl IntoIterator<Item = (Key, Properties)>) -> Self {
        let etags = 1..;
        let rows = rows.into_iter().zip(etags);
        let rows: Rows = rows
            .map(|((key, properties), etag)| (key.clone(), Row { key, etag, properties }))
            .collect();
        let (last_etag, rows) = (rows.len() as Etag, Rc::new(rows));
        MemoryTable { history: vec![Rc::clone(&rows)], rows, last_etag }
    }

    /// The number of successful batches so far.
    #[must_use]
    pub fn revision(&self) -> usize {
        self.history.len() - 1
    }

    /// All rows that meet a condition, in order.
    #[must_use]
    pub fn query(&self, filter: &Filter) -> Vec<Row> {
        self.rows.values().filter(|row| filter.matches(row)).cloned().collect()
    }

    /// Executes a batch: all of it or nothing.
    ///
    /// # Errors
    ///
    /// If the batch is malformed. That an operation is refused is an outcome, not an error.
    pub fn execute(&mut self, batch: &[Op]) -> Result<Outcome, BadArgument> {
        self.mirror(batch, None)
    }

    /// Executes a batch whose new rows have the versions that another table gave them.
    ///
    /// # Errors
    ///
    /// As [`execute`](Self::execute).
    pub fn mirror(
        &mut self,
        batch: &[Op],
        original: Option<&[Written]>,
    ) -> Result<Outcome, BadArgument> {
        check_form(batch)?;
        let (mut rows, mut last_etag) = ((*self.rows).clone(), self.last_etag);
        let mut results = Vec::with_capacity(batch.len());
        for (index, op) in batch.iter().enumerate() {
            last_etag += 1;
            let given = original.and_then(|results| results.get(index)?.etag);
            match apply(&mut rows, op, given.unwrap_or(last_etag))? {
                Ok(written) => results.push(written),
                Err(status) => return Ok(Err(Refusal { status, index })),
            }
        }
        (self.rows, self.last_etag) = (Rc::new(rows), last_etag);
        self.history.push(Rc::clone(&self.rows));
        Ok(Ok(results))
    }

    /// The rows that a stream may return next, if it began at a revision and reads from a key on:
    /// every version since then of every row up to the first key that was present all the time.
    #[must_use]
    pub fn valid_next(&self, since: usize, filter: &Filter, from: &Key) -> Valid {
        let snapshots = &self.history[since..];
        let in_range =
            |rows: &Rc<Rows>, key: &Key| rows.get(key).is_some_and(|r| filter.matches(r));
        let mandatory = self.rows.range(from..).map(|(key, _)| key);
        let mandatory =
            mandatory.into_iter().find(|key| snapshots.iter().all(|s| in_range(s, key)));
        let mut valid = Valid { rows: Vec::new(), may_end: mandatory.is_none() };
        for snapshot in snapshots.iter().rev() {
            for (key, row) in snapshot.range(from..) {
                if mandatory.is_some_and(|last| key > last) {
                    break;
                }
                if filter.matches(row) && !valid.rows.contains(row) {
                    valid.rows.push(row.clone());
                }
            }
        }
        valid
    }
}

fn check_form(batch: &[Op]) -> Result<(), BadArgument> {
    let Some(first) = batch.first() else { return Err(BadArgument("a batch without operations")) };
    for (index, op) in batch.iter().enumerate() {
        if op.key.row.is_empty() {
            return Err(BadArgument("an operation without a key"));
        }
        if op.key.partition != first.key.partition {
            return Err(BadArgument("a batch over two partitions"));
        }
        if batch[..index].iter().any(|before| before.key == op.key) {
            return Err(BadArgument("a batch with two operations on a row"));
        }
    }
    Ok(())
}

/// Applies one operation; the status of a refusal otherwise.
fn apply(rows: &mut Rows, op: &Op, etag: Etag) -> Result<Result<Written, Status>, BadArgument> {
    let existing = rows.get(&op.key);
    if let Some(status) = refusal(existing, op)? {
        return Ok(Err(status));
    }
    let status = if op.kind == Kind::Insert { Status::Created } else { Status::NoContent };
    if op.kind == Kind::Delete {
        rows.remove(&op.key);
        return Ok(Ok(Written { status, etag: None }));
    }
    let overlays = matches!(op.kind, Kind::Merge | Kind::InsertOrMerge);
    let base = existing.filter(|_| overlays).map(|row| row.properties.clone());
    let mut properties = base.unwrap_or_default();
    properties.extend(op.properties.clone());
    rows.insert(op.key.clone(), Row { key: op.key.clone(), etag, properties });
    Ok(Ok(Written { status, etag: Some(etag) }))
}

fn refusal(existing: Option<&Row>, op: &Op) -> Result<Option<Status>, BadArgument> {
    if op.kind == Kind::Insert {
        return Ok(existing.map(|_| Status::Conflict));
    }
    if !op.kind.is_conditional() || op.condition == Some(Match::AnyOrAbsent) {
        return Ok(None);
    }
    let Some(existing) = existing else { return Ok(Some(Status::NotFound)) };
    match op.condition {
        None => Err(BadArgument("a conditional operation without a version")),
        Some(Match::Exactly(etag)) if etag != existing.etag => Ok(Some(Status::PreconditionFailed)),
        Some(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrating_table::table::{Comparison, Value};

    fn key(row: &'static str) -> Key {
        Key::new("", row)
    }

    fn table(rows: &[&'static str]) -> MemoryTable {
        MemoryTable::new(rows.iter().map(|row| (key(row), Properties::new())))
    }

    fn write(kind: Kind, row: &'static str) -> Op {
        Op::new(kind, key(row), Properties::from([("happy".into(), Value::Flag(true))]))
    }

    #[track_caller]
    fn check(batch: &[Op], expected: Outcome) {
        let mut table = table(&["0", "1"]);
        let before = table.query(&Filter::All);
        assert_eq!(table.execute(batch), Ok(expected.clone()));
        assert_eq!(table.revision(), usize::from(expected.is_ok()));
        assert!(expected.is_ok() || table.query(&Filter::All) == before, "nothing is applied");
    }

    #[test]
    fn preconditions_decide_in_the_order_of_operations() {
        let written = |status, etag| Written { status, etag };
        let refused = |status, index| Err(Refusal { status, index });
        use Status::{Conflict, Created, NoContent, NotFound, PreconditionFailed};
        check(&[write(Kind::Insert, "2")], Ok(vec![written(Created, Some(3))]));
        check(&[write(Kind::InsertOrMerge, "0")], Ok(vec![written(NoContent, Some(3))]));
        check(&[write(Kind::Insert, "2"), write(Kind::Insert, "0")], refused(Conflict, 1));
        check(&[write(Kind::Merge, "2").when(Match::Any)], refused(NotFound, 0));
        check(&[write(Kind::Replace, "1").when(Match::Exactly(1))], refused(PreconditionFailed, 0));
        check(
            &[write(Kind::Delete, "1").when(Match::Exactly(2))],
            Ok(vec![written(NoContent, None)]),
        );
        check(
            &[write(Kind::Delete, "7").when(Match::AnyOrAbsent)],
            Ok(vec![written(NoContent, None)]),
        );
    }

    #[test]
    fn malformed_batches_are_errors() {
        let twice = [write(Kind::Insert, "2"), write(Kind::Insert, "2")];
        let nameless = [Op { key: Key::default(), ..write(Kind::Insert, "2") }];
        let versionless = [write(Kind::Delete, "0")];
        for batch in [&twice[..], &nameless, &versionless, &[]] {
            assert!(table(&["0"]).execute(batch).is_err(), "{batch:?}");
        }
    }

    /// Row 0 was there all the time, so a stream cannot pass it; row 1 came and changed.
    #[test]
    fn streams_may_show_every_version_up_to_the_first_row_that_stayed() {
        let mut table = table(&["1"]);
        assert!(table.execute(&[write(Kind::Insert, "0")]).unwrap().is_ok());
        assert!(table.execute(&[write(Kind::InsertOrMerge, "1")]).unwrap().is_ok());
        let rows = |valid: &Valid| {
            valid.rows.iter().map(|r| (r.key.row.clone(), r.etag)).collect::<Vec<_>>()
        };
        let whole = table.valid_next(0, &Filter::All, &key("0"));
        assert_eq!(rows(&whole), [("0".into(), 2), ("1".into(), 3), ("1".into(), 1)]);
        assert!(!whole.may_end);
        let since = table.valid_next(1, &Filter::All, &key("0"));
        assert_eq!(rows(&since), [("0".into(), 2)]);
        let happy = Filter::equals("happy", Value::Flag(true));
        assert!(table.valid_next(0, &happy, &key("1")).may_end, "row 1 was not always happy");
    }

    #[test]
    fn comparisons_with_what_is_absent_are_false() {
        let mut table = table(&["0"]);
        assert!(table.execute(&[write(Kind::Insert, "1")]).unwrap().is_ok());
        let compare = |how, literal| Filter::Compare("happy".into(), how, literal);
        for (filter, expected) in [
            (compare(Comparison::Ne, Value::Flag(false)), 1),
            (compare(Comparison::Eq, Value::Number(1)), 0),
            (Filter::from_key(&key("1")), 1),
            (Filter::partition(&"".into()), 2),
            (Filter::key(&key("0")).or(Filter::key(&key("1"))), 2),
        ] {
            assert_eq!(table.query(&filter).len(), expected, "{filter:?}");
        }
    }
}
