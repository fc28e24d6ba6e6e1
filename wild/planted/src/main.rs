//! Looks for one planted mistake with the default search and with as many seeds as are asked for,
//! and prints a line: the mistake, on how many seeds it was found, and the median execution.

use everhold::System;
use everhold::node::Message;
use everhold::prelude::*;
use everhold_wild::{noraft, replicated_set};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, mistake, seeds] = &arguments[..] else {
        panic!("usage: everhold-wild-planted CRATE.MISTAKE SEEDS");
    };
    let seeds: u64 = seeds.parse().expect("the number of seeds is a number");
    let found: Vec<Option<u64>> = (1..=seeds).map(|seed| look(mistake, seed)).collect();
    let mut executions: Vec<u64> = found.into_iter().flatten().collect();
    executions.sort_unstable();
    let median = executions.get(executions.len() / 2).map_or("-".into(), u64::to_string);
    println!("{mistake}\t{} of {seeds}\t{median}", executions.len());
}

/// The number of executions until the mistake was found with this seed.
fn look(mistake: &str, seed: u64) -> Option<u64> {
    match mistake.split_once('.').expect("a mistake is named after its crate").0 {
        "noraft" => explore(seed, noraft::system),
        "crdts" => explore(seed, replicated_set::system),
        other => panic!("there is no harness for {other}"),
    }
}

/// A panic that a mistake leads to is a finding too.
fn explore<M: Message>(
    seed: u64,
    setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
) -> Option<u64> {
    let explorer = Explorer::new().seed(seed).regressions(false).shrink_time(Duration::ZERO);
    let report = explorer.run(setup);
    report.finding().map(|_| report.executions)
}
