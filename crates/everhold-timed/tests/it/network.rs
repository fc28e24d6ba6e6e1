//! Streams lose messages only at their end, with their connection; both ends are notified.

use std::time::Duration;

use everhold_node::NodeId;
use everhold_sim::{Network, System};
use everhold_timed::{Durations, Net, Timed, TimedFault};

#[path = "../../../everhold-sim/tests/nodes/ends.rs"]
mod ends;
use ends::{
    End, Msg,
    Seen::{self, Ended, Got},
};

/// Checks on the virtual clock what the log observes, and how many ends are notified.
#[track_caller]
fn check_timed(fault: TimedFault, at_ms: u64, log_sees: &[Seen], ended: usize) {
    let done = Timed::new(|system: &mut System<Msg>| {
        let log = system.node("log", End::default());
        let then = Some(9);
        system.node("sender", End { to: Some(log), first: vec![1, 2, 3], then, ..End::default() });
        system.network(Network::Streams);
    })
    .network(Net::ideal(Duration::from_millis(5)))
    .durations(Durations::none())
    .driver(move |driver| {
        driver.start(NodeId(1), Duration::from_millis(10));
        driver.fault(Duration::from_millis(at_ms), fault.clone());
    });
    let mut world = done.sim().start(1);
    world.finish();
    let seen = |node| {
        world.look(|s| s.get::<End>(NodeId(node)).map(|end| end.seen.clone())).expect("it is up")
    };
    assert_eq!(seen(0), log_sees);
    assert_eq!(seen(1).iter().filter(|seen| **seen == Ended).count(), ended);
}

#[test]
fn streams_break_alike_on_the_virtual_clock() {
    check_timed(TimedFault::Duplicate, 5, &[Got(1), Got(2), Got(3)], 0);
    check_timed(TimedFault::Lose, 5, &[Ended, Got(9)], 1);
    check_timed(TimedFault::Reset(NodeId(0), NodeId(1)), 12, &[Ended, Got(9)], 1);
    check_timed(TimedFault::ResetAny(7), 60, &[Got(1), Got(2), Got(3), Ended, Got(9)], 1);
    let crash = TimedFault::Crash { node: NodeId(0), down: Duration::from_millis(1) };
    check_timed(crash, 60, &[Got(9)], 1);
}
