//! Weighted choices, and setups that functions return.

use std::sync::Arc;

use everhold_sim::Setup;
use everhold_timed::{Draws, Timed};

#[path = "../../../everhold-sim/tests/nodes/chooser.rs"]
mod chooser;
use chooser::{Chooser, Taken};

const WEIGHTS: [u32; 4] = [16, 0, 3, 1];

#[test]
fn a_virtual_clock_draws_by_weight() {
    let taken = Taken::default();
    let counted = Arc::clone(&taken);
    let timed = Timed::new(move |system| {
        system.node("chooser", Chooser::new(&WEIGHTS, &counted));
    });
    let mut sim = timed.sim();
    for seed in 0..1_000 {
        sim.run(Draws::seed(seed));
    }
    let taken = taken.lock().unwrap();
    assert!((740..860).contains(&taken[&0]) && !taken.contains_key(&1), "{taken:?}");
}

#[test]
fn a_setup_can_be_returned() {
    let setup: Setup<u32> = Box::new(|system| {
        system.node("chooser", Chooser::new(&WEIGHTS, &Taken::default()));
    });
    assert_eq!(Timed::new(setup).sim().run(Draws::seed(0)).events, 1);
}
