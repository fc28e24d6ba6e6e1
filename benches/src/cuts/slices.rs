//! Slicing and all compatible pairs of a long execution of many nodes. The measurement runs in a
//! separate process, because the peak memory of a process never decreases.

use std::process::Command;

use everhold_trace::{Order, Slice};

use crate::cuts::timed;
use crate::cuts::traces::{Show, asking};
use crate::measure::{Bound, Scorecard, Size};
use everhold_trace::text::thousands;

use crate::table::Table;

/// The name of the part under which this program is the measured process.
pub(super) const ALONE: &str = "slices-alone";
const NODES: u32 = 100;
const SECONDS: f64 = 10.0;
const PEAK_KB: f64 = 2.0 * 1024.0 * 1024.0;
/// The name of the step that records the execution, which is not part of the measurement.
const RECORD: &str = "record";

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let printed = start(size);
    let events = thousands(events(size) as u64);
    let mut table = Table::new(&["step", "found", "CPU s"]);
    let mut total = 0.0;
    for line in printed.lines().filter(|line| line.contains('\t')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [name, found, seconds] = cells[..] else { continue };
        if name != RECORD {
            total += seconds.parse::<f64>().expect("seconds are a number");
        }
        table.row(vec![name.to_owned(), found.to_owned(), seconds.to_owned()]);
    }
    table.print(&format!("Slices and pairs of {events} events of {NODES} nodes"));
    let peak = peak_kb(&printed);
    println!("peak {} kB\n", thousands(peak));
    let claim = format!("slices and pairs, {events} events, to {SECONDS} CPU s");
    scores.hold(claim, total / SECONDS, Bound::AtMost(1.0));
    let claim = format!("slices and pairs, {events} events, peak to 2 GiB");
    scores.hold(claim, peak as f64 / PEAK_KB, Bound::AtMost(1.0));
}

fn events(size: Size) -> usize {
    size.pick(4_000, 1_000_000)
}

fn start(size: Size) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(["cuts", "--only", ALONE]);
    if size == Size::Smoke {
        command.arg("--smoke");
    }
    let output = command.output().expect("this program can be started again");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("what is printed is text")
}

fn peak_kb(printed: &str) -> u64 {
    let line = printed.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel tells the peak")
}

/// The measured process: prints a line for each step, and the peak of its memory.
pub(super) fn alone(size: Size) {
    let execution = step(RECORD, || asking(NODES, events(size), Show::Nothing), |_| String::new());
    let order = step("clocks", || Order::of(&execution), |_| String::new());
    let quiet = step("slice by quiet cuts", || Slice::quiet(&order), components);
    let pairs = |pairs: &u64| format!("{} pairs", thousands(*pairs));
    step("all consistent pairs", || all_pairs(&Slice::consistent(&order)), pairs);
    step("all quiet pairs", || all_pairs(&quiet), pairs);
    let status = std::fs::read_to_string("/proc/self/status").expect("memory is measured on Linux");
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    println!("{}", peak.expect("the kernel tells the peak").replace('\t', " "));
}

fn step<T>(name: &str, work: impl FnOnce() -> T, show: impl FnOnce(&T) -> String) -> T {
    let (result, seconds) = timed(work);
    println!("{name}\t{}\t{seconds:.2}", show(&result));
    result
}

fn components(slice: &Slice<'_>) -> String {
    let count = slice.components().map_or(0, |components| components.count);
    format!("{} components", thousands(count as u64))
}

fn all_pairs(slice: &Slice<'_>) -> u64 {
    let mut pairs = 0u64;
    slice.all_windows(|_, _, windows| {
        pairs += windows.iter().map(|(low, high)| u64::from(high - low + 1)).sum::<u64>();
    });
    pairs
}
