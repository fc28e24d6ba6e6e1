//! Watching a running system: the cost for the system, and the speed and delay of the checkers.
//!
//! - `observe`: the cost of an observation, watched and not.
//! - `overhead`: the cost for a whole application, watched and not.
//! - `throughput`: the number of tuples that one checker judges in a CPU-second.
//! - `keyed`: the cost of a key and of a tuple under rules with aggregates.
//! - `lag`: the time from a violation in the application to its report.
//! - `faults`: checkers and applications that are killed.
//! - `chord`: D3S's experiment with a ring of which most nodes are killed.
//! - `raft`: Dinv's experiment with silent bugs and assertions.
//!
//! Applications and checkers that are killed are processes: this program, started under one of the
//! names in [`run_hidden`].

mod chord;
mod faults;
mod keyed;
mod lag;
mod observe;
mod overhead;
mod raft;
mod throughput;

use std::path::PathBuf;

use everhold_trace::wire::{Hello, Ordering, Record, Stamp, Tuple, VERSION, What};
use everhold_trace::{NodeId, Value};

use crate::Options;
use crate::measure::Scorecard;

/// D3S section 2.1: a property of two nodes for every key.
const RULES: &str = r#"always "one holder": forall a, b in nodes where a != b:
  not (a.locks[key] == "exclusive" and b.locks[key] != null)"#;

const KEYS: u64 = 10_000;

pub(crate) fn run(options: &Options) -> Scorecard {
    options.run(&[
        ("observe", observe::run),
        ("overhead", overhead::run),
        ("throughput", throughput::run),
        ("keyed", keyed::run),
        ("lag", lag::run),
        ("faults", faults::run),
        ("chord", chord::run),
        ("raft", raft::run),
    ])
}

/// Runs this program under one of its hidden names; `None` if `name` is not one of them.
pub(crate) fn run_hidden(name: &str, words: &[String]) -> Option<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match name {
        overhead::APPLICATION => overhead::application(&words),
        keyed::CHECKER => keyed::checker(&words),
        faults::CHECKER => faults::checker(&words),
        faults::APPLICATION => faults::application(&words),
        chord::NODES => chord::nodes(&words),
        raft::PEER => raft::peer(&words),
        _ => return None,
    }
    Some(())
}

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("everhold-bench-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn hello(node: u32) -> Hello {
    Hello {
        version: VERSION,
        system: "bench".into(),
        node: NodeId(node),
        name: format!("n{node}"),
        kind: "client".into(),
        incarnation: 1,
        order: Ordering::Clocks,
        proof: None,
    }
}

fn tuple(key: u64, mode: &str) -> Tuple {
    Tuple { relation: "locks".into(), key: Value::from(key), value: mode.into() }
}

/// Nodes 0 and 1 both take and give back shared locks: there is never a violation.
fn record(i: u64, at: Stamp) -> Record {
    let key = i.wrapping_mul(2_654_435_761) % KEYS;
    let shared = tuple(key, "shared");
    let what = if (i / KEYS).is_multiple_of(2) { What::Add(shared) } else { What::Remove(shared) };
    Record::new(at, what)
}
