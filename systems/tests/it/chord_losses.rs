//! A ring of which most members die at once, on a virtual clock (D3S section 5.4).
//!
//! Half of the survivors do not hear the other half for half a second, and so both halves take each
//! other for dead. Asked again, they become one ring; never asked again, they hold keys several times.

use std::time::Duration;

use everhold::timed::Ended;
use everhold_systems::chord::{Bug, Rings, loses_most, rings};

/// Whether the survivors formed one ring before the limit, and the rings at the end.
fn after_the_loss(bug: Bug) -> (bool, Rings) {
    let mut sim = loses_most(85, 3, Duration::from_millis(500), bug).sim();
    let mut world = sim.start(4);
    let ran = world.finish();
    (ran.ended == Ended::Done, world.look(rings))
}

#[test]
fn neighbours_that_missed_each_other_once_stay_apart() {
    let (whole, rings) = after_the_loss(Bug::StaysApart);
    assert!(!whole);
    assert!(rings.covered > 1_100, "keys are held several times: {rings:?}");
}

#[test]
fn neighbours_that_ask_their_dead_again_become_one_ring() {
    let (whole, rings) = after_the_loss(Bug::None);
    assert!(whole, "{rings:?}");
    assert_eq!((rings.count, rings.covered), (1, 1_000));
}
