//! Rules about keys with `count`, `sum` and `max`: what a key costs in memory, and a tuple in time.
//!
//! The checker runs in a process of its own, so that its memory is not that of something else.

use std::process::Command;

use everhold_trace::text::thousands;
use everhold_trace::wire::{Batch, Frame, Hello, Record, Stamp, Tuple, What};
use everhold_trace::{NodeId, Value};
use everhold_watch::{CheckOptions, Entry, EntryWriter, Notice, Origin, PartitionChecker, entry};

use super::hello;
use crate::measure::{Bound, Scorecard, Size, cpu_seconds};
use crate::table::{Table, short};

/// The argument that makes this program the process that is measured.
pub(super) const CHECKER: &str = "keyed-checker";

const RULES: &str = r#"
always "few holders": count(n in nodes: n.held[key] != null) <= 3
always "few handles": sum(n in nodes: n.held[key]) <= 6
always "no node holds many": max(n in nodes: n.held[key]) <= 3
"#;

const NODES: u64 = 4;
/// Tuples in an entry of the log.
const ENTRY: u64 = 1_000;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let (keys, tuples) = size.pick((1_000, 10_000), (100_000, 2_000_000));
    let mut best = (f64::MAX, 0.0_f64);
    for _ in 0..size.rounds() {
        let (bytes, rate) = measure(keys, tuples);
        best = (best.0.min(bytes), best.1.max(rate));
    }
    let mut table = Table::new(&["tuples", "keys", "bytes a key", "tuples a CPU-second"]);
    table.row(vec![thousands(tuples), thousands(keys), format!("{:.0}", best.0), short(best.1)]);
    table.print("Three rules with aggregates under a key, four nodes, two of them at each key");
    scores.hold("a kilobyte a key", best.0 / 1e3, Bound::AtMost(1.0));
    scores.hold("a million tuples a second", best.1 / 1e6, Bound::AtLeast(1.0));
}

/// Bytes a key and tuples a CPU-second, of another process.
fn measure(keys: u64, tuples: u64) -> (f64, f64) {
    let program = std::env::current_exe().expect("this program has a path");
    let args = [CHECKER, &keys.to_string(), &tuples.to_string()];
    let output = Command::new(program).args(args).output();
    let output = output.expect("this program can be started again");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints numbers");
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [bytes, rate] = numbers[..] else { panic!("two numbers are printed, not {text}") };
    (bytes, rate)
}

/// The process that is measured: judges, and prints what a key takes and how fast it was.
pub(super) fn checker(words: &[&str]) {
    let number = |at: usize| words[at].parse().expect("a number");
    let (keys, tuples): (u64, u64) = (number(0), number(1));
    let entries: Vec<Entry> = entries(keys, tuples);
    let full = usize::try_from(2 * keys / ENTRY + 1).expect("there are few entries");
    let before = resident();
    let mut checker = PartitionChecker::new(CheckOptions::default());
    let mut notices = Vec::new();
    let start = cpu_seconds();
    let mut bytes = 0.0;
    for (at, entry) in entries.iter().enumerate() {
        checker.apply(entry, &mut notices);
        if at == full {
            // Everything that was told is judged, and every key is held by two nodes.
            assert_eq!(checker.sizes().0 as u64, keys, "every key is there");
            bytes = (resident() - before) as f64 / keys as f64;
        }
    }
    let seconds = cpu_seconds() - start;
    assert_eq!(checker.counts().records, tuples, "every tuple was judged");
    let fired = notices.iter().any(|notice| matches!(notice, Notice::Fired(_)));
    assert!(!fired, "nothing is wrong");
    println!("{bytes} {}", tuples as f64 / seconds);
}

/// The rules, and then entries of a thousand tuples of four nodes, as an intake writes them.
fn entries(keys: u64, tuples: u64) -> Vec<Entry> {
    let mut entries = vec![Entry { sequence: 1, bytes: entry::rules_entry(1, RULES) }];
    for number in 1..=tuples / ENTRY {
        let at = 1_000_000 + 1_000 * number;
        let mut writer = EntryWriter::new(at);
        let mut of: Vec<Vec<Record>> = vec![Vec::new(); NODES as usize];
        for i in 0..ENTRY {
            let (node, what) = change((number - 1) * ENTRY + i, keys);
            let stamp = Stamp(Stamp::from_micros(at).0 + i);
            of[node as usize].push(Record::new(stamp, what));
        }
        for (node, records) in (0..NODES as u32).zip(of) {
            let origin = Origin { node: NodeId(node), incarnation: 1 };
            let mut push = |frame: &Frame| writer.push(origin, frame).expect("it is small");
            if number == 1 {
                push(&Frame::Hello(Hello { kind: "client".into(), ..hello(node) }));
            }
            push(&Frame::Batch(Batch { number, dropped: 0, records }));
            push(&Frame::Heartbeat { at: Stamp(Stamp::from_micros(at).0 + ENTRY) });
        }
        entries.push(Entry { sequence: number + 1, bytes: writer.finish() });
    }
    entries
}

/// First two nodes take each key, then they change what they hold of it, round after round.
fn change(i: u64, keys: u64) -> (u64, What) {
    let (round, at) = (i / keys, i % keys);
    let key = at.wrapping_mul(2_654_435_761) % keys;
    let node = (key + round % 2) % NODES;
    let held = i64::try_from(1 + (round / 2 + key) % 3).expect("it is small");
    let key = Value::from(format!("lock-{key:08}"));
    (node, What::Add(Tuple { relation: "held".into(), key, value: Value::from(held) }))
}

/// The memory of this process, in bytes.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("memory is measured on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    1024 * number.and_then(|number| number.parse::<i64>().ok()).expect("the kernel tells it")
}
