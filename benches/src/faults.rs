//! The table of faults: what a watch tells while something fails.
//!
//! Each row starts a watch and three nodes as processes of their own, on real sockets. The nodes
//! hand locks round correctly, with and without envelopes, and plant violations: two of them hold
//! the same lock. Meanwhile something fails. After it has recovered, the watch must have told each
//! violation that was planted, once, and no other.
//!
//! - `node`, `watcher`: what those processes do; they are this program again.
//! - `cluster`: the processes of a row.
//! - `work`: what the nodes are told to do, and what came of it.
//! - `rows`: what fails.
//!
//! `--only "node killed"` runs one row. With `EVERHOLD_BENCH_ERRORS=1` a row also says which keys
//! were missed or wrong and what the processes complained of.

mod cluster;
mod node;
mod rows;
mod watcher;
mod work;

use crate::Options;
use crate::measure::{Bound, Scorecard};
use everhold_trace::text::thousands;

use crate::table::Table;

use rows::{ROWS, Row};
use work::Outcome;

/// The names under which this program is a node and a watch.
const NODE: &str = "faults-node";
const WATCH: &str = "faults-watch";

/// The most memory that a watch may have, in KiB.
const MEMORY: f64 = 262_144.0;

const COLUMNS: [&str; 11] = [
    "fault",
    "planted",
    "reported",
    "twice",
    "false",
    "unknown s",
    "recovery s",
    "handed",
    "dropped",
    "memory",
    "",
];

/// The work of this program when it is started by itself; `None` if the name is none of these.
pub(crate) fn run_hidden(name: &str, words: &[String]) -> Option<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match name {
        NODE => node::run(&words),
        WATCH => watcher::run(&words),
        _ => return None,
    }
    Some(())
}

pub(crate) fn run(options: &Options) -> Scorecard {
    let mut scores = Scorecard::default();
    let mut table = Table::new(&COLUMNS);
    for row in ROWS.iter().filter(|row| options.wants(row.name)) {
        eprintln!("{} ...", row.name);
        match row.run(options.size) {
            Ok(outcome) => {
                table.row(cells(row, &outcome));
                judge(options, row, &outcome, &mut scores);
            }
            Err(reason) => {
                // Where everything is installed, a row that was left out is one that was missed.
                let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
                scores.hold(
                    format!("{}: was run", row.name),
                    0.0,
                    Bound::AtLeast(f64::from(u8::from(ci))),
                );
                let mut cells = vec![String::new(); COLUMNS.len()];
                cells[0] = row.name.to_owned();
                cells[COLUMNS.len() - 1] = format!("left out: {reason}");
                table.row(cells);
            }
        }
    }
    table.print("Faults: what a watch tells while something fails");
    scores
}

fn cells(row: &Row, outcome: &Outcome) -> Vec<String> {
    vec![
        row.name.to_owned(),
        thousands(outcome.planted as u64),
        thousands(outcome.reported as u64),
        outcome.twice.to_string(),
        outcome.wrong.to_string(),
        format!("{:.1}", outcome.unknown),
        format!("{:.1}", outcome.recovery),
        thousands(outcome.handed),
        thousands(outcome.dropped),
        format!("{} MiB", outcome.memory >> 10),
        outcome.unmet.join("; "),
    ]
}

fn judge(options: &Options, row: &Row, outcome: &Outcome, scores: &mut Scorecard) {
    let name = row.name;
    let reported = outcome.reported as f64 / outcome.planted.max(1) as f64;
    scores.hold(format!("{name}: reported"), reported, Bound::AtLeast(1.0));
    let wrong = outcome.twice + outcome.wrong + outcome.unmet.len();
    scores.hold(format!("{name}: twice, false, unmet"), wrong as f64, Bound::AtMost(0.0));
    let memory = outcome.memory as f64 / MEMORY;
    scores.hold(format!("{name}: memory, of 256 MiB"), memory, Bound::AtMost(1.0));
    // In a few seconds on a machine that does much else, times mean nothing.
    let recovery = options.size.pick(0.0, outcome.recovery / row.recovery);
    scores.hold(format!("{name}: recovery, of {} s", row.recovery), recovery, Bound::AtMost(1.0));
}
