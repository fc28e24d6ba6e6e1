//! The cost of a search whose properties are text: the `raft` crate, typed and in the property
//! language.

use everhold::node::Message;
use everhold::{Explorer, Faults, Search, System};
use everhold_systems::raft::{Bug, system, system_in_language};

use crate::measure::{Contender, Scorecard, Size, Work, race};
use crate::table::{Table, short};

/// Executions of one search; each turn repeats it with the same seed.
const EXECUTIONS: u64 = 1_000;
const STEPS: u32 = 100;
const PEERS: usize = 3;

/// There is no bar: the ratio depends on the amount of work of the system itself.
pub(super) fn run(size: Size, _: &mut Scorecard) {
    let rates = race(&contenders(), size);
    let mut table = Table::new(&["per CPU-second", "executions", "steps", "cost", "spread"]);
    for row in &rates {
        table.row(vec![
            row.name.clone(),
            short(row.executions),
            short(row.steps),
            format!("{:.2}x", rates[0].steps / row.steps),
            format!("{:.0} %", row.spread * 100.0),
        ]);
    }
    table.print(&format!("Raft, {PEERS} peers: the cost of its four properties, random search"));
}

fn contenders() -> Vec<Contender> {
    let faults = || Faults::none().crash(2).partition(1).lose(2).duplicate(2);
    let typed = system(PEERS, Bug::None, faults());
    let language = system_in_language(PEERS, Bug::None, faults());
    vec![
        Contender::new("closures and monitors", move |turns| searches(turns, &typed)),
        Contender::new("the language", move |turns| searches(turns, &language)),
    ]
}

fn searches<M: Message>(
    turns: u64,
    setup: &(impl Fn(&mut System<M>) + Clone + Send + Sync + 'static),
) -> Work {
    let mut work = Work::default();
    for _ in 0..turns {
        let explorer = Explorer::new().workers(1).regressions(false).search(Search::Random);
        let explorer = explorer.seed(1).executions(EXECUTIONS).steps(STEPS);
        let report = explorer.run(setup.clone());
        assert!(report.findings.is_empty(), "nothing is wrong with Raft: {report}");
        work.executions += report.executions;
        work.units += report.steps;
        work.steps += report.steps;
    }
    work
}
