//! t
use everhold::prelude::*;
use everhold_wild::replicated_map::system;

#[test]
fn explore_all() {
    for removes in [false, true] { for seed in 1..=5 {
        let report = Explorer::new().seed(seed).executions(2_000).findings(3).run(system(removes));
        println!("{report}");
        for f in &report.findings { println!("SEED {removes} {seed} {:?} {:?} {:?}", f.failure.cause.name(), f.origin, f.failure); }
    } }
}
