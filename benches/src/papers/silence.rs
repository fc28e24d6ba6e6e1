//! The corrected systems have no finding.

use std::time::Duration;

use everhold::node::Message;
use everhold::{Explorer, Report, System};
use everhold_systems::{fabric, migrating_table};

use crate::Options;
use crate::measure::{Bound, Scorecard, cpu_seconds};
use everhold_trace::text::thousands;

use crate::table::Table;

/// The executions of each system.
const EXECUTIONS: u64 = 1_000_000;

/// A corrected system.
type Correct = (&'static str, Box<dyn Fn(Explorer) -> Report>);

fn correct<M: Message>(
    name: &'static str,
    setup: impl Fn(&mut System<M>) + Clone + Send + Sync + 'static,
) -> Correct {
    (name, Box::new(move |explorer: Explorer| explorer.run(setup.clone())))
}

fn systems() -> Vec<Correct> {
    use everhold_systems::field::{chain_replication, failure_detector, german, raft_votes};
    use fabric::{counter, pipeline};
    vec![
        correct("migrating_table", migrating_table::system(migrating_table::Bug::None)),
        correct("fabric counter", counter::system(fabric::Bug::None)),
        correct("fabric pipeline", pipeline::system(pipeline::Bug::None)),
        correct("raft_votes", raft_votes::system(raft_votes::Bug::None)),
        correct("failure_detector", failure_detector::system(failure_detector::Bug::None)),
        correct("chain_replication", chain_replication::system(chain_replication::Bug::None)),
        correct("german", german::system(german::Bug::None)),
    ]
}

pub(super) fn run(options: &Options, scores: &mut Scorecard) {
    let mut table = Table::new(&["system", "executions", "findings", "CPU s"]);
    let executions = options.executions.unwrap_or(options.size.pick(20, EXECUTIONS));
    let mut findings = 0;
    for (name, explore) in systems().into_iter().filter(|(name, _)| options.wants_row(name)) {
        eprintln!("{name}");
        let before = cpu_seconds();
        let explorer = Explorer::new().regressions(false).executions(executions);
        let report = explore(explorer.shrink_time(Duration::ZERO));
        if !report.findings.is_empty() {
            eprintln!("{report}");
        }
        findings += report.findings.len();
        table.row(vec![
            name.to_owned(),
            thousands(report.executions),
            report.findings.len().to_string(),
            format!("{:.0}", cpu_seconds() - before),
        ]);
    }
    table.print("The corrected systems");
    scores.hold("findings in corrected systems", findings as f64, Bound::AtMost(0.0));
}
