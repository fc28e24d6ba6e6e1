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
    /// The losses to be told: the stamp from which on records are missing, and their number.
    gaps: Vec<(Stamp, u64)>,
}

impl Batcher {
    /// Leaves out a number, which tells the checkers that they have missed something.
    pub(super) fn skip(&mut self) {
        self.number += 1;
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
