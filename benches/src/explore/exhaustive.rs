//! Every execution of two-phase commit, compared with Stateright; and the effect of each reduction.

use std::time::Duration;

use everhold::{Explorer, Reduction, Report, Search, Stop};
use everhold_systems::two_phase::{Bug, system};

use crate::explore::stateright;
use crate::measure::{Bound, Contender, Rates, Scorecard, Size, Work, fastest, race};
use everhold_trace::text::thousands;

use crate::table::{Table, short};

/// The required multiple of Stateright's generated states, in its faster mode.
const BAR: f64 = 2.0;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    for managers in size.pick(vec![3, 5], vec![5, 7]) {
        let rates = race(&contenders(managers), size);
        print(managers, &rates);
        let peer = peer(&rates).units;
        let claim = format!("states generated, 2pc with {managers} managers, to stateright");
        scores.hold(claim, rates[0].units / peer, Bound::AtLeast(BAR));
    }
    reductions(size, scores);
}

fn contenders(managers: usize) -> Vec<Contender> {
    vec![
        Contender::new("everhold, states seen once", move |times| ours(managers, times)),
        Contender::new("stateright, dfs", move |times| stateright::depth_first(managers, times)),
        Contender::new("stateright, bfs", move |times| stateright::breadth_first(managers, times)),
    ]
}

fn peer(rates: &[Rates]) -> &Rates {
    fastest(rates.iter().filter(|r| r.name.starts_with("stateright")), |rates| rates.units)
}

/// Explores all states, several times over; `steps` of the result are the unique states.
fn ours(managers: usize, times: u64) -> Work {
    let mut work = Work::default();
    for _ in 0..times {
        let report = exhaust(managers, Reduction::States, Duration::MAX);
        assert_eq!(report.stop, Stop::Exhausted, "{report}");
        let progress = report.exhaustive.expect("the search was exhaustive");
        work.executions += 1;
        work.units += progress.transitions;
        work.steps += progress.states;
    }
    work
}

fn exhaust(managers: usize, reduction: Reduction, time: Duration) -> Report {
    let explorer = Explorer::new().workers(1).regressions(false).executions(u64::MAX).time(time);
    let report = explorer.search(Search::Exhaustive { reduction }).run(system(managers, Bug::None));
    assert!(report.findings.is_empty(), "two-phase commit has no bug: {report}");
    report
}

fn print(managers: usize, rates: &[Rates]) {
    let peer = peer(rates).units;
    let header = ["", "generated", "unique", "generated/CPU-s", "unique/CPU-s", "ratio", "spread"];
    let mut table = Table::new(&header);
    for row in rates {
        table.row(vec![
            row.name.clone(),
            thousands(row.work.units / row.work.executions),
            thousands(row.work.steps / row.work.executions),
            short(row.units),
            short(row.steps),
            format!("{:.2}x", row.units / peer),
            format!("{:.0} %", row.spread * 100.0),
        ]);
    }
    table.print(&format!("Exhaustive search: two-phase commit with {managers} managers"));
}

/// The remaining work after each reduction, and whether it is small enough.
fn reductions(size: Size, scores: &mut Scorecard) {
    let patience = size.pick(Duration::from_millis(100), Duration::from_secs(2));
    let header =
        ["managers, left out", "executions", "transitions", "states", "orders", "seconds", "ended"];
    let mut table = Table::new(&header);
    for managers in size.pick(vec![2], vec![2, 3, 4, 5]) {
        let reductions = [Reduction::None, Reduction::States, Reduction::Orders];
        let reports = reductions.map(|reduction| exhaust(managers, reduction, patience));
        for (reduction, report) in reductions.iter().zip(&reports) {
            table.row(row(format!("{managers}, {reduction:?}"), report));
        }
        let [all, _, reduced] = &reports;
        if all.stop == Stop::Exhausted {
            let kept = orders(reduced) as f64 / orders(all) as f64;
            let claim =
                format!("orders that are left when orders are reduced, {managers} managers");
            scores.hold(claim, kept, Bound::AtLeast(1.0));
        }
    }
    table.print("Exhaustive search: what each reduction leaves to do");
}

fn row(name: String, report: &Report) -> Vec<String> {
    let progress = report.exhaustive.expect("the search was exhaustive");
    let told_apart = |count: u64| if count > 0 { thousands(count) } else { "-".to_owned() };
    vec![
        name,
        thousands(report.executions),
        thousands(progress.transitions),
        told_apart(progress.states),
        if progress.states > 0 { "-".to_owned() } else { thousands(orders(report)) },
        format!("{:.2}", report.time.as_secs_f64()),
        if report.stop == Stop::Exhausted { "yes" } else { "no" }.to_owned(),
    ]
}

/// The number of different orders of dependent steps among the completed executions.
fn orders(report: &Report) -> u64 {
    report.coverage.orders.distinct()
}
