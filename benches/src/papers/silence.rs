//! The corrected systems have no finding.

use std::time::Duration;

use everhold::node::Message;
use everhold::{Explorer, Report, System};
use everhold_systems::migrating_table;

use crate::Options;
use crate::measure::{Bound, Scorecard, cpu_seconds};
use crate::table::{Table, whole};

/// The executions of each system.
const EXECUTIONS: u64 = 1_000_000;

fn explore<M: Message>(
    options: &Options,
    setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
) -> Report {
    let executions = options.executions.unwrap_or(options.size.pick(20, EXECUTIONS));
    let explorer = Explorer::new().regressions(false).executions(executions);
    explorer.shrink_time(Duration::ZERO).run(setup)
}

pub(super) fn run(options: &Options, scores: &mut Scorecard) {
    let mut table = Table::new(&["system", "executions", "findings", "CPU s"]);
    let mut findings = 0;
    let before = cpu_seconds();
    let report = explore(options, migrating_table::system(migrating_table::Bug::None));
    if !report.findings.is_empty() {
        eprintln!("{report}");
    }
    findings += report.findings.len();
    table.row(vec![
        "migrating_table".to_owned(),
        whole(report.executions),
        report.findings.len().to_string(),
        format!("{:.0}", cpu_seconds() - before),
    ]);
    table.print("The corrected systems");
    scores.hold("findings in corrected systems", findings as f64, Bound::AtMost(0.0));
}
