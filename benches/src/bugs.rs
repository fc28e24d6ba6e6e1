//! The number of executions, and the time, that each strategy needs for each bug of the case
//! studies.

use std::fmt::Debug;
use std::time::Duration;

use everhold::node::Message;
use everhold::{Bounds, Explorer, Faults, Report, Search, System};
use everhold_systems::{extent, paxos, raft, storage, two_phase};
use everhold_trace::text::thousands;

use crate::Options;
use crate::measure::{Scorecard, cpu_seconds};
use crate::table::Table;

/// A bug to be found.
pub(crate) struct Case {
    pub(crate) system: &'static str,
    pub(crate) bug: String,
    /// Searches with a given explorer.
    pub(crate) explore: Box<dyn Fn(Explorer) -> Report>,
}

/// A system with a bug, explored within bounds.
pub(crate) fn case<M: Message>(
    system: &'static str,
    bug: impl Debug,
    bounds: Bounds,
    setup: impl Fn(&mut System<M>) + Clone + Send + Sync + 'static,
) -> Case {
    let explore = move |explorer: Explorer| explorer.bounds(bounds).run(setup.clone());
    Case { system, bug: format!("{bug:?}"), explore: Box::new(explore) }
}

/// All bugs; a new one is a line here.
pub(crate) fn cases() -> Vec<Case> {
    use extent::{Bug as Extent, Scenario};
    use paxos::Bug as Paxos;
    use raft::Bug as Raft;
    use storage::Bug as Storage;
    use two_phase::Bug as TwoPhase;
    let storage = |bug| case("storage", bug, steps(300), storage::system(bug));
    let extent = |bug| case("extent", bug, extent::BOUNDS, extent::system(Scenario::Fail, bug));
    let paxos = |bug| case("paxos", bug, Bounds::default(), paxos::system(bug));
    let faults = Faults::none().crash(2).partition(1).lose(2).duplicate(2);
    let raft = |bug| case("raft", bug, steps(100), raft::system(3, bug, faults.clone()));
    let two_phase = |bug| case("two_phase", bug, Bounds::default(), two_phase::system(3, bug));
    vec![
        storage(Storage::CountsReports),
        storage(Storage::KeepsCount),
        extent(Extent::SyncFromExpired),
        paxos(Paxos::AdoptsLowest),
        paxos(Paxos::ForgetsPromise),
        raft(Raft::AnswersBeforeSync),
        raft(Raft::WrongIncarnation),
        raft(Raft::AppliesBeforeCommit),
        two_phase(TwoPhase::CommitsEarly),
        two_phase(TwoPhase::ForgetsAbort),
    ]
}

fn steps(steps_max: u32) -> Bounds {
    Bounds { steps_max, ..Bounds::default() }
}

/// The effort of each search.
struct Effort {
    seeds: u64,
    executions: u64,
    time: Duration,
}

impl Effort {
    fn of(options: &Options) -> Effort {
        let size = options.size;
        Effort {
            seeds: options.seeds.unwrap_or(size.pick(1, 20)),
            executions: options.executions.unwrap_or(size.pick(20, 100_000)),
            time: Duration::from_secs(options.seconds.unwrap_or(size.pick(1, 20))),
        }
    }
}

/// The result of one search with one seed.
struct Hunt {
    executions: u64,
    seconds: f64,
}

pub(crate) fn run(options: &Options) -> Scorecard {
    let effort = Effort::of(options);
    let searches =
        [Search::Random, Search::Pct { depth: 2 }, Search::Pct { depth: 3 }, Search::Portfolio];
    let mut table = Table::new(&[
        "system, bug, search",
        "found",
        "median executions",
        "most executions",
        "median CPU s",
    ]);
    for case in cases().iter().filter(|case| options.wants(case.system)) {
        for search in &searches {
            let name = format!("{}, {}, {search}", case.system, case.bug);
            if !options.wants_row(&name) {
                continue;
            }
            eprintln!("{name}");
            let found = hunt(case, search, &effort);
            table.row(row(name, found, effort.seeds));
        }
    }
    table.print("Bugs: executions and time to find them, one worker");
    Scorecard::default()
}

/// The searches that found the bug.
fn hunt(case: &Case, search: &Search, effort: &Effort) -> Vec<Hunt> {
    let one = |seed: u64| {
        let explorer = Explorer::new().workers(1).regressions(false).search(search.clone());
        let explorer = explorer.seed(seed).executions(effort.executions).time(effort.time);
        let before = cpu_seconds();
        // Only the search is timed: a finding is verified, but not shrunk.
        let report = (case.explore)(explorer.shrink_time(Duration::ZERO));
        let executions = report.finding()?.origin.execution? + 1;
        Some(Hunt { executions, seconds: cpu_seconds() - before })
    };
    (1..=effort.seeds).filter_map(one).collect()
}

/// Medians are over all seeds; a search that found nothing counts as longer than any other.
fn row(name: String, mut found: Vec<Hunt>, seeds: u64) -> Vec<String> {
    let count = found.len();
    let middle = (seeds as usize - 1) / 2;
    found.sort_by_key(|hunt| hunt.executions);
    let most = found.last().map(|hunt| hunt.executions);
    let median = found.get(middle).map(|hunt| hunt.executions);
    found.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let seconds = found.get(middle).map(|hunt| hunt.seconds);
    let number = |number: Option<u64>| number.map_or("-".to_owned(), thousands);
    vec![
        name,
        format!("{count}/{seeds}"),
        number(median),
        if count as u64 == seeds { number(most) } else { "-".to_owned() },
        seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.3}")),
    ]
}
