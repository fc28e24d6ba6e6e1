//! A ring of which most members die at once, on a virtual clock.

use std::time::Duration;

use everhold::timed::Ended;
use everhold_systems::chord::{Bug, loses_most, rings};

#[test]
fn tries() {
    for stall in [0, 500, 1_500, 3_000, 6_000] {
        for bug in [Bug::StaysApart, Bug::None] {
            for seed in 1..=4 {
                let mut sim = loses_most(85, 3, Duration::from_millis(stall), bug).sim();
                let mut world = sim.start(seed);
                let ran = world.finish();
                let rings = world.look(rings);
                println!(
                    "{stall} {bug:?} {seed}: {:?} {} {rings:?}",
                    ran.ended == Ended::Done,
                    ran.time.as_secs_f64()
                );
            }
        }
    }
}
