//! Reading and writing: ShiViz logs take time in proportion to their length.
//!
//! ShiViz's own parser does not: it needs 389 s for 80,000 events.

use everhold_trace::export;
use everhold_trace::format::{ReadOptions, Writer, read_all};
use everhold_trace::import::shiviz::{Format, read};

use crate::cuts::timed;
use crate::cuts::traces::{Show, asking};
use crate::measure::{Bound, Scorecard, Size};
use everhold_trace::text::thousands;

use crate::table::{Table, short};

/// The largest permitted ratio of the cost of an event in the longest log to that in the shortest.
const LINEAR: f64 = 1.5;
/// The number of runs of which the best counts: the others include other work of the machine.
const RUNS: usize = 3;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let events = size.pick(4_000, 1_000_000);
    let mut table = Table::new(&["file", "events", "MB", "CPU s", "ns/event"]);
    native(events, &mut table);
    let costs: Vec<f64> =
        [events / 4, events / 2, events].map(|events| shiviz(events, &mut table)).into();
    table.print("Files");
    let highest = costs.iter().copied().fold(0.0, f64::max);
    let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let claim = format!(
        "ShiViz import, cost per event, {} to {}",
        thousands(events as u64 / 4),
        thousands(events as u64)
    );
    // A smoke run is too short for a meaningful ratio.
    scores.hold(claim, size.pick(1.0, highest / lowest), Bound::AtMost(LINEAR));
}

/// Writes and reads the native format.
fn native(events: usize, table: &mut Table) {
    let execution = asking(20, events, Show::Counts);
    let (file, seconds) = timed(|| {
        let mut writer = Writer::new(Vec::new());
        writer.execution(&execution).expect("memory takes all");
        writer.finish().expect("memory takes all")
    });
    table.row(row("native, written", events, file.len(), seconds));
    let (read, seconds) = timed(|| read_all(file.as_slice(), &ReadOptions::strict()));
    assert!(read.expect("what was written").executions == [execution]);
    table.row(row("native, read", events, file.len(), seconds));
}

/// The time of an import, in nanoseconds per event.
fn shiviz(events: usize, table: &mut Table) -> f64 {
    let mut log = Vec::new();
    export::shiviz(&[asking(10, events, Show::Nothing)], &mut log).expect("memory takes all");
    let once = || {
        let import = || read(log.as_slice(), &Format::detect(), &ReadOptions::strict());
        let (read, seconds) = timed(import);
        assert_eq!(read.expect("a whole log").executions[0].events().len(), events);
        seconds
    };
    let seconds = (0..RUNS).map(|_| once()).fold(f64::INFINITY, f64::min);
    table.row(row("ShiViz, read", events, log.len(), seconds));
    seconds * 1e9 / events as f64
}

fn row(name: &str, events: usize, bytes: usize, seconds: f64) -> Vec<String> {
    vec![
        name.to_owned(),
        thousands(events as u64),
        thousands(bytes as u64 >> 20),
        format!("{seconds:.2}"),
        short(seconds * 1e9 / events as f64),
    ]
}
