//! Tuples through one checker: from the log, through snapshots, to a property of two nodes.

use std::time::Duration;

use everhold_trace::NodeId;
use everhold_trace::wire::{Batch, Frame, Stamp};
use everhold_watch::{
    CheckOptions, EntryWriter, Log, Notice, Origin, PartitionChecker, SegmentLog, SegmentOptions,
    entry,
};

use super::{KEYS, RULES, folder, hello, record};
use crate::measure::{Bound, Scorecard, Size, cpu_seconds};
use crate::table::Table;

/// Writes entries of a thousand tuples of two nodes, as an intake does.
fn fill(log: &dyn Log, tuples: u64) {
    log.append(0, &[&entry::rules_entry(1, RULES)]).expect("there is room");
    let mut at = 1_000_000_u64;
    let mut made = 0;
    let mut number = 0;
    while made < tuples {
        let mut writer = EntryWriter::new(at);
        number += 1;
        for node in 0..2_u32 {
            let origin = Origin { node: NodeId(node), incarnation: 1 };
            if number == 1 {
                writer.push(origin, &Frame::Hello(hello(node))).expect("it is small");
            }
            let stamp = |i: u64| Stamp(Stamp::from_micros(at).0 + 2 * i + u64::from(node));
            let records = (0..500).map(|i| record(made + i, stamp(i))).collect();
            let batch = Batch { number, dropped: 0, records };
            writer.push(origin, &Frame::Batch(batch)).expect("it is small");
            let beat = Frame::Heartbeat { at: stamp(500) };
            writer.push(origin, &beat).expect("it is small");
        }
        made += 1_000;
        at += 1_000;
        log.append(0, &[&writer.finish()]).expect("there is room");
    }
}

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let tuples = size.pick(20_000, 4_000_000);
    let folder = folder("throughput");
    let log = SegmentLog::open(&folder, SegmentOptions::default()).expect("a folder");
    fill(&log, tuples);
    let mut best = 0.0_f64;
    for _ in 0..size.rounds() {
        let mut checker = PartitionChecker::new(CheckOptions::default());
        let mut cursor = log.cursor(0, 1).expect("a cursor");
        let mut notices = Vec::new();
        let before = cpu_seconds();
        loop {
            let entries = cursor.next(1 << 20, Duration::ZERO).expect("it reads");
            if entries.is_empty() {
                break;
            }
            entries.iter().for_each(|entry| checker.apply(entry, &mut notices));
        }
        let seconds = cpu_seconds() - before;
        assert_eq!(checker.counts().records, tuples, "every tuple was judged");
        let fired = notices.iter().any(|notice| matches!(notice, Notice::Fired(_)));
        assert!(!fired, "nothing is wrong");
        best = best.max(tuples as f64 / seconds);
    }
    let mut table = Table::new(&["tuples", "keys", "tuples a CPU-second"]);
    table.row(vec![tuples.to_string(), KEYS.to_string(), format!("{best:.0}")]);
    table.print("One embedded checker: log, snapshots, a property of two nodes with keys");
    scores.hold("a million tuples a second", best / 1e6, Bound::AtLeast(1.0));
    let _ = std::fs::remove_dir_all(folder);
}
