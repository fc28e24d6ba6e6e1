//! The outcome of a test as data, for `everhold findings`, `replay` and the folder's page.
//!
//! Each test leaves its last outcome in `target/everhold/tests`, and each finding a copy beside its
//! schedule. Nothing is read back by the library.

use serde_json::{Value, json};

use crate::report::text::{replay_line, summary};
use crate::report::{Finding, Report, Saved, SimVerdict};

/// The version of the format.
const VERSION: u32 = 1;

/// The outcome of a test as JSON.
pub(crate) fn bytes(report: &Report, fails: bool, saved: &Saved) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(&outcome(report, fails, saved)).unwrap_or_default();
    text.push(b'\n');
    text
}

fn outcome(report: &Report, fails: bool, saved: &Saved) -> Value {
    // Cargo tells a test which package it belongs to.
    let told = |variable: &str| std::env::var(variable).ok();
    json!({
        "v": VERSION,
        "name": report.name(),
        "test": report.test.test_name(),
        "file": report.test.file(),
        "package": told("CARGO_PKG_NAME"),
        "manifest": told("CARGO_MANIFEST_DIR"),
        "verdict": verdict(report.verdict()),
        "fails": fails,
        "summary": summary(report),
        "executions": report.executions,
        "steps": report.steps,
        "seconds": report.time.as_secs_f64(),
        "search": report.search,
        "seed": format!("{:#x}", report.seed),
        "properties": report.expected.properties,
        "goals": report.goals.iter()
            .map(|goal| json!({ "name": goal.name, "reached": goal.reached })).collect::<Vec<_>>(),
        "untested": report.untested().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "problems": report.problems,
        "coverage": {
            "orders": report.coverage.orders.distinct(),
            "states": report.coverage.states.distinct(),
            "pairs_seen": report.coverage.pairs.len(),
            "pairs_unseen": report.coverage.unseen_pairs().len(),
        },
        "finding": report.finding().map(|finding| about(report, finding, saved)),
    })
}

fn about(report: &Report, finding: &Finding, saved: &Saved) -> Value {
    json!({
        "id": report.id_of(finding),
        "cause": finding.failure.cause.to_string(),
        "message": finding.failure.message,
        "declared": report.expected.declared.get(finding.failure.cause.name()).map(|at| &at.place),
        "execution": finding.origin.execution,
        "found_by": finding.origin.search,
        "steps": finding.schedule.steps(),
        "steps_before": finding.original.steps(),
        "faults": finding.schedule.faults(),
        "replay": replay_line(report, finding, saved),
    })
}

fn verdict(verdict: SimVerdict) -> &'static str {
    match verdict {
        SimVerdict::Holds => "holds",
        SimVerdict::Violated => "violated",
        SimVerdict::Unknown => "no violation",
        SimVerdict::Diverged => "diverged",
    }
}
