//! t
use everhold::prelude::*;
use everhold_wild::viewstamped::system;

#[test]
fn explore_all() {
    for seed in 1..=5 {
        let report = Explorer::new().seed(seed).executions(5_000).findings(6).run(system(3, 1));
        println!("{report}");
        for f in &report.findings { println!("SEED {seed} {:?} {:?} {:?}", f.failure.cause.name(), f.origin, f.failure); }
    }
}
#[test]
fn explore_no_faults() {
    let report = Explorer::new().executions(5_000).findings(6).run(system(0, 0));
    println!("{report}");
        for f in &report.findings { println!("NOF {:?} {:?} {:?}", f.failure.cause.name(), f.origin, f.failure); }
}
