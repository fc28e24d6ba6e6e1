//! A long search needs no more memory than a short one.
//!
//! Each search runs in a separate process, because the peak memory of a process never decreases.

use std::process::Command;

use everhold::Explorer;
use everhold_systems::storage::{Bug, system};

use crate::measure::{Bound, Scorecard, Size};
use everhold_trace::text::thousands;

use crate::table::Table;

/// The argument under which this program is the measured process.
pub(crate) const RESIDENT: &str = "resident";
/// The bound on the steps of the storage system's executions, whose timers never end.
const STEPS: u32 = 50;
/// The largest permitted ratio of the peak of the long search to that of the short one.
const GROWTH: f64 = 1.1;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let counts = size.pick([100, 1_000], [100_000, 1_000_000]);
    let mut table = Table::new(&["executions of the storage system", "VmRSS kB", "VmHWM kB"]);
    let peaks = counts.map(|executions| {
        let (resident, peak) = measure(executions);
        table.row(vec![thousands(executions), thousands(resident), thousands(peak)]);
        peak
    });
    table.print("Memory");
    let growth = peaks[1] as f64 / peaks[0] as f64;
    let claim =
        format!("peak memory, {} to {} executions", thousands(counts[0]), thousands(counts[1]));
    scores.hold(claim, growth, Bound::AtMost(GROWTH));
}

/// The resident set at the end of a search and its peak, in kB.
fn measure(executions: u64) -> (u64, u64) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([RESIDENT, &executions.to_string()]).output();
    let output = output.expect("this program can be started again");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let status = String::from_utf8(output.stdout).expect("the status is text");
    (field(&status, "VmRSS:"), field(&status, "VmHWM:"))
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel tells the resident set")
}

/// The measured process: runs a search and prints the kernel's figures about it.
pub(crate) fn resident(executions: u64) {
    let explorer = Explorer::new().workers(1).regressions(false).steps(STEPS);
    let report = explorer.executions(executions).run(system(Bug::None));
    assert!(report.findings.is_empty(), "the storage system has no bug: {report}");
    let status = std::fs::read_to_string("/proc/self/status");
    println!("{}", status.expect("memory is measured on Linux"));
}
