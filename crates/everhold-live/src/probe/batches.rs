//! Records in batches, each small enough for a frame, with the losses between them.
//!
//! A batch that says that records are missing comes after everything that is older than these. To a
//! checker, everything that it knew until then is out of date, and what follows is known.

use everhold_trace::Value;
use everhold_trace::wire::{FRAME_MAX, Name, Record, Stamp, What};

use super::link::Numbered;

/// The largest number of records in one batch.
const BATCH_MAX: usize = 4_096;

/// Numbers the batches of one node.
#[derive(Debug, Default)]
pub(super) struct Batcher {
    /// The number of the last batch.
    number: u64,
    /// The losses to be told: the stamp from which on records are missing, and their number, which is
    /// unknown if it is 0.
    gaps: Vec<(Stamp, u64)>,
}

impl Batcher {
    /// Nobody listened before this stamp, so that nobody knows what is missing. A number is left out
    /// there, which tells the checkers.
    pub(super) fn resume(&mut self, at: Stamp) {
        self.gaps.push((at, 0));
    }

    /// So many records are missing from a stamp on.
    pub(super) fn miss(&mut self, first: Stamp, records: u64) {
        self.gaps.push((first, records));
    }

    pub(super) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Returns the number of missing records that are not told yet.
    pub(super) fn missing(&self) -> u64 {
        self.gaps.iter().map(|(_, records)| records).sum()
    }

    /// Makes batches of sorted records and of the losses between them, at least one.
    pub(super) fn cut(&mut self, records: &[Record]) -> Vec<Numbered> {
        self.gaps.sort_unstable();
        let (mut batches, mut rest, mut dropped) = (Vec::new(), records, 0);
        for (first, missing) in std::mem::take(&mut self.gaps) {
            let (before, after) = rest.split_at(rest.partition_point(|record| record.at < first));
            self.add(before, &mut dropped, &mut batches);
            dropped += missing;
            self.number += u64::from(missing == 0);
            rest = after;
        }
        self.add(rest, &mut dropped, &mut batches);
        if dropped > 0 || batches.is_empty() {
            let batch = self.batch(&[], dropped);
            batches.push(batch);
        }
        batches
    }

    fn add(&mut self, mut records: &[Record], dropped: &mut u64, batches: &mut Vec<Numbered>) {
        while !records.is_empty() {
            let (some, more) = records.split_at(batch_of(records));
            batches.push(self.batch(some, std::mem::take(dropped)));
            records = more;
        }
    }

    fn batch(&mut self, records: &[Record], dropped: u64) -> Numbered {
        self.number += 1;
        Numbered { number: self.number, dropped, records: records.into() }
    }
}

/// Returns the number of records in the next batch: as many as certainly fit into a frame, at least
/// one.
fn batch_of(records: &[Record]) -> usize {
    let mut room = FRAME_MAX / 2;
    let fits = |record: &&Record| {
        let size = size_of(record);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    records.iter().take(BATCH_MAX).take_while(fits).count().max(1).min(records.len())
}

/// Returns an upper bound on the bytes that a record takes in a frame.
fn size_of(record: &Record) -> usize {
    let named = |values: &[(Name, Value)]| {
        values.iter().map(|(name, value)| name.len() + size_of_value(value)).sum()
    };
    let rest = match &record.what {
        What::Observe(values) | What::State(values) => named(values),
        What::Add(tuple) | What::Remove(tuple) => {
            tuple.relation.len() + size_of_value(&tuple.key) + size_of_value(&tuple.value)
        }
        What::Send { label, .. } => label.len(),
        What::Event(kind) => kind.name().map_or(0, str::len),
        What::Note(text) => text.len(),
        What::Refresh | What::Whole => 0,
    };
    64 + rest
}

fn size_of_value(value: &Value) -> usize {
    let inside: usize = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.iter().map(size_of_value).sum(),
        Value::Set(items) => items.iter().map(size_of_value).sum(),
        Value::Map(entries) => {
            entries.iter().map(|(key, value)| size_of_value(key) + size_of_value(value)).sum()
        }
        Value::Record(fields) => {
            fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum()
        }
        Value::Variant { name, payload } => name.len() + size_of_value(payload),
        _ => 0,
    };
    24 + inside
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, dropped records and stamps of the batches of records with these stamps.
    #[track_caller]
    fn check(stamps: &[u64], gaps: &[(u64, u64)], expected: &[(u64, u64, &[u64])]) {
        let mut batcher = Batcher::default();
        for (at, missing) in gaps {
            match missing {
                0 => batcher.resume(Stamp(*at)),
                missing => batcher.miss(Stamp(*at), *missing),
            }
        }
        let record = |at: &u64| Record::new(Stamp(*at), What::Refresh);
        let records: Vec<Record> = stamps.iter().map(record).collect();
        let batches = batcher.cut(&records);
        let stamps_of = |batch: &Numbered| batch.records.iter().map(|record| record.at.0).collect();
        let found: Vec<(u64, u64, Vec<u64>)> =
            batches.iter().map(|batch| (batch.number, batch.dropped, stamps_of(batch))).collect();
        let expected: Vec<_> =
            expected.iter().map(|(number, dropped, at)| (*number, *dropped, at.to_vec())).collect();
        assert_eq!(found, expected);
        assert!(!batcher.has_gaps());
    }

    #[test]
    fn a_gap_is_told_after_what_is_older() {
        check(&[], &[], &[(1, 0, &[])]);
        check(&[1, 2], &[], &[(1, 0, &[1, 2])]);
        check(&[1, 2, 5], &[(3, 7)], &[(1, 0, &[1, 2]), (2, 7, &[5])]);
        check(&[1, 2], &[(3, 7)], &[(1, 0, &[1, 2]), (2, 7, &[])]);
        check(&[5, 6], &[(3, 7)], &[(1, 7, &[5, 6])]);
        // What was shown before nobody listened is not what is shown afterwards.
        check(&[1, 2, 5], &[(3, 0)], &[(1, 0, &[1, 2]), (3, 0, &[5])]);
        check(&[5], &[(3, 0)], &[(2, 0, &[5])]);
        check(&[1, 5, 9], &[(8, 0), (3, 2)], &[(1, 0, &[1]), (2, 2, &[5]), (4, 0, &[9])]);
    }
}
