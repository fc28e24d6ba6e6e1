//! Nodes as the tests play them: what they would send, as log entries.

use everhold_trace::wire::{Batch, Frame, Hello, Ordering, Record, Stamp, Tuple, VERSION, What};
use everhold_trace::{NodeId, Value};
use everhold_watch::{CheckOptions, Entry, EntryWriter, Notice, Origin, PartitionChecker};

/// A time in milliseconds as a stamp.
pub(crate) fn ms(ms: u64) -> Stamp {
    Stamp::from_micros(ms * 1_000)
}

/// The beginning of every test.
pub(crate) const START: u64 = 1_000_000;

/// Writes entries as an intake would.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    pub(crate) entries: Vec<Entry>,
    numbers: std::collections::BTreeMap<u32, u64>,
    pub(crate) lives: std::collections::BTreeMap<u32, u64>,
}

impl Feed {
    pub(crate) fn raw(&mut self, bytes: Vec<u8>) {
        let sequence = self.entries.len() as u64 + 1;
        self.entries.push(Entry { sequence, bytes });
    }

    pub(crate) fn rules(&mut self, at: u64, text: &str) {
        self.raw(everhold_watch::entry::rules_entry(at * 1_000, text));
    }

    fn origin(&self, node: u32) -> Origin {
        let incarnation = self.lives.get(&node).copied().unwrap_or(1);
        Origin { node: NodeId(node), incarnation }
    }

    pub(crate) fn frames(&mut self, at: u64, frames: &[(u32, Frame)]) {
        let mut writer = EntryWriter::new(at * 1_000);
        for (node, frame) in frames {
            writer.push(self.origin(*node), frame).expect("it is small");
        }
        self.raw(writer.finish());
    }

    pub(crate) fn hello(&mut self, at: u64, node: u32) {
        let hello = Frame::Hello(Hello {
            version: VERSION,
            system: "test".into(),
            node: NodeId(node),
            name: format!("n{node}"),
            kind: "server".into(),
            incarnation: self.origin(node).incarnation,
            order: Ordering::Clocks,
            proof: None,
        });
        self.frames(at, &[(node, hello), (node, Frame::Heartbeat { at: ms(at) })]);
    }

    pub(crate) fn beat(&mut self, at: u64, nodes: &[u32]) {
        let frames: Vec<_> =
            nodes.iter().map(|node| (*node, Frame::Heartbeat { at: ms(at) })).collect();
        self.frames(at, &frames);
    }

    pub(crate) fn batch(&mut self, at: u64, node: u32, records: Vec<Record>) {
        let number = self.numbers.entry(node).or_default();
        *number += 1;
        let batch = Batch { number: *number, dropped: 0, records };
        self.frames(at, &[(node, Frame::Batch(batch))]);
    }

    /// A batch that never arrives.
    pub(crate) fn lose(&mut self, node: u32) {
        *self.numbers.entry(node).or_default() += 1;
    }

    pub(crate) fn restart(&mut self, at: u64, node: u32) {
        *self.lives.entry(node).or_insert(1) += 1;
        self.numbers.remove(&node);
        self.hello(at, node);
    }
}

pub(crate) fn observe(at: u64, name: &str, value: impl Into<Value>) -> Record {
    Record::new(ms(at), What::Observe(vec![(name.into(), value.into())]))
}

pub(crate) fn state(at: u64, name: &str, value: impl Into<Value>) -> Record {
    Record::new(ms(at), What::State(vec![(name.into(), value.into())]))
}

fn tuple(key: impl Into<Value>, value: &str) -> Tuple {
    Tuple { relation: "locks".into(), key: key.into(), value: value.into() }
}

pub(crate) fn add(at: u64, key: impl Into<Value>, value: &str) -> Record {
    Record::new(ms(at), What::Add(tuple(key, value)))
}

pub(crate) fn remove(at: u64, key: impl Into<Value>, value: &str) -> Record {
    Record::new(ms(at), What::Remove(tuple(key, value)))
}

pub(crate) fn refresh(at: u64) -> Record {
    Record::new(ms(at), What::Refresh)
}

pub(crate) fn whole(at: u64) -> Record {
    Record::new(ms(at), What::Whole)
}

/// Everything that a checker says about some entries.
pub(crate) fn notices(options: CheckOptions, entries: &[Entry]) -> Vec<Notice> {
    let mut checker = PartitionChecker::new(options);
    let mut notices = Vec::new();
    entries.iter().for_each(|entry| checker.apply(entry, &mut notices));
    notices
}

/// The violations among them, one a line: rule, key, onset in milliseconds; `-` when they end.
pub(crate) fn violations(notices: &[Notice]) -> Vec<String> {
    let line = |sign: &str, rule: &str, key: &Option<Value>, at: Stamp| {
        let key = key.as_ref().map(|key| format!("[{key}]")).unwrap_or_default();
        format!("{sign}{rule}{key}@{}", (at.micros() / 1_000).saturating_sub(START))
    };
    let show = |notice: &Notice| match notice {
        Notice::Fired(v) => Some(line("+", &v.rule, &v.key, v.at)),
        Notice::Resolved { rule, key, at, .. } => Some(line("-", rule, key, *at)),
        Notice::Incomplete { name, at, .. } => Some(line("?", name, &None, *at)),
        _ => None,
    };
    notices.iter().filter_map(show).collect()
}
