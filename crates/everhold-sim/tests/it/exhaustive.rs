//! Exhaustive search: counts that can be computed by hand, and each reduction against none.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use everhold_node::{Cx, Monitor, Node, NodeId};
use everhold_sim::rng::Rng;
use everhold_sim::{Explorer, Reduction, Report, Search, Stop, System};
use serde::Serialize;

use crate::toys::{Log, Msg, Relay, Sender, funnel};

fn exhaust(
    reduction: Reduction,
    setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static,
) -> Report {
    Explorer::new().executions(u64::MAX).search(Search::Exhaustive { reduction }).run(setup)
}

#[test]
fn messages_to_one_node_arrive_in_every_order() {
    for (senders, orders) in [(1, 1), (2, 2), (3, 6), (4, 24), (5, 120)] {
        for reduction in [Reduction::None, Reduction::Orders] {
            let report = exhaust(reduction, funnel(senders));
            assert_eq!(report.stop, Stop::Exhausted, "{report}");
            assert_eq!(report.executions, orders, "{reduction:?} with {senders}");
        }
    }
}

/// A log that received a set in some order: the states are the ordered subsets.
#[test]
fn states_are_counted_once() {
    let report = exhaust(Reduction::States, funnel(3));
    let progress = report.exhaustive.unwrap();
    // 3 + 3*2 + 3*2*1 after one, two and three messages.
    assert_eq!(progress.states, 15, "{report}");
}

/// Pairs that never meet: every order is equivalent to every other.
fn strangers(pairs: u32) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        for number in 0..pairs {
            let log = system.node("log", Log::default());
            system.node("sender", Sender { to: vec![(log, number)] });
        }
    }
}

#[test]
fn independent_steps_are_run_in_one_order() {
    let plain = exhaust(Reduction::None, strangers(5));
    let reduced = exhaust(Reduction::Orders, strangers(5));
    assert_eq!((plain.executions, reduced.executions), (120, 1));
}

/// A random system of relays and logs; small enough to run without reduction.
fn tangle(seed: u64) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let mut rng = Rng::new(seed);
        let logs = 1 + rng.below(2);
        let relays = rng.below(3);
        for _ in 0..logs {
            system.node("log", Log::default());
        }
        for number in 0..relays {
            // To a log or to an earlier relay: messages do not go round.
            let to = NodeId(rng.below(logs + number));
            system.node("relay", Relay { to, passed: 0 });
        }
        for number in 0..1 + rng.below(3) {
            let to = (0..1 + rng.below(2))
                .map(|at| (NodeId(rng.below(logs + relays)), number * 100 + at * 10))
                .collect();
            system.node("sender", Sender { to });
        }
    }
}

/// The final contents of all logs over all executions.
fn outcomes(reduction: Reduction, seed: u64) -> (BTreeSet<Vec<Vec<Msg>>>, u64) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let (collect, build) = (Arc::clone(&seen), tangle(seed));
    let report = exhaust(reduction, move |system| {
        build(system);
        let collect = Arc::clone(&collect);
        system.monitor("everything is received", Never);
        system.always("outcomes are collected", move |s| {
            if s.in_flight().next().is_none() {
                let logs = s.all::<Log>().map(|(_, log)| log.received.clone()).collect();
                collect.lock().unwrap().insert(logs);
            }
            true
        });
    });
    assert_eq!(report.stop, Stop::Exhausted, "{report}");
    let seen = seen.lock().unwrap().clone();
    (seen, report.executions)
}

#[derive(Clone, Serialize)]
struct Never;

impl Monitor for Never {
    type Event = ();
    fn observe(&mut self, (): &()) {}
}

/// The slow twin: what a reduction leaves out must not change what can be reached in the end.
#[test]
fn reductions_reach_every_final_state() {
    let (mut plain_runs, mut reduced_runs) = (0, 0);
    for seed in 0..120 {
        let (plain, runs) = outcomes(Reduction::None, seed);
        let (orders, fewer) = outcomes(Reduction::Orders, seed);
        let (states, _) = outcomes(Reduction::States, seed);
        assert_eq!(orders, plain, "orders differ for seed {seed}");
        assert_eq!(states, plain, "states differ for seed {seed}");
        assert!(fewer <= runs);
        (plain_runs, reduced_runs) = (plain_runs + runs, reduced_runs + fewer);
    }
    assert!(reduced_runs * 2 < plain_runs, "{reduced_runs} of {plain_runs} executions");
}

/// A node that chooses a number: values are enumerated like orders.
#[derive(Clone, Serialize)]
struct Chooser {
    chosen: Vec<usize>,
}

impl Node for Chooser {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        let first = cx.choose("first", 3);
        let second = cx.choose("second", first + 1);
        self.chosen.extend([first, second]);
    }
}

#[test]
fn chosen_values_are_enumerated() {
    for reduction in [Reduction::None, Reduction::Orders, Reduction::States] {
        let report = exhaust(reduction, |system| {
            let chooser = system.node("chooser", Chooser { chosen: Vec::new() });
            system.node("sender", Sender { to: vec![(chooser, 0)] });
        });
        assert_eq!(report.stop, Stop::Exhausted);
        // One for first = 0, two for 1, three for 2.
        assert_eq!(report.executions, 6, "{reduction:?}: {report}");
    }
}

#[test]
fn a_violation_is_found_and_shrunk() {
    let build = funnel(4);
    let report = exhaust(Reduction::Auto, move |system| {
        build(system);
        system.always("3 does not arrive before 2", |s| {
            let (_, log) = s.all::<Log>().next().expect("there is a log");
            let at = |wanted: Msg| log.received.iter().position(|msg| *msg == wanted);
            at(3).is_none_or(|three| at(2).is_some_and(|two| two < three))
        });
    });
    let finding = report.finding().expect("some order is wrong");
    assert_eq!(finding.schedule.steps(), 1, "delivering 3 is enough: {report}");
}
