//! Exhaustive search: counts that can be computed by hand, and each reduction against none.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::rng::Rng;
use everhold_sim::{Explorer, Reduction, Report, Search, Stop, System};
use serde::Serialize;

use crate::toys::{Fickle, Log, Msg, Once, Relay, Sender, funnel};

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

/// A random system of logs, relays, nodes that cancel and nodes that refuse; small enough to run
/// without reduction.
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
        let fickle = rng.below(3);
        for number in 0..fickle {
            let to = NodeId(rng.below(logs + relays));
            system.node("fickle", Fickle { to, number: 500 + number, heard: 0 });
        }
        let once = rng.below(2);
        for _ in 0..once {
            system.node("once", Once::default());
        }
        let receivers = logs + relays + fickle + once;
        for number in 0..1 + rng.below(2) {
            let to = (0..1 + rng.below(3))
                .map(|at| (NodeId(rng.below(receivers)), number * 100 + at * 10))
                .collect();
            system.node("sender", Sender { to });
        }
    }
}

/// The memories of all nodes in the end.
type Outcome = (Vec<Vec<Msg>>, Vec<Option<Msg>>, Vec<u32>);

/// Systems with more executions than this are skipped.
const EXECUTIONS_MAX: u64 = 3_000;

/// The outcomes of all executions, and how many there are; `None` if there are too many.
fn outcomes(reduction: Reduction, seed: u64) -> Option<(BTreeSet<Outcome>, u64)> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let (collect, build) = (Arc::clone(&seen), tangle(seed));
    let ended = Arc::new(Mutex::new(Outcome::default()));
    let explorer = Explorer::new().executions(EXECUTIONS_MAX);
    let report = explorer.search(Search::Exhaustive { reduction }).run(move |system| {
        build(system);
        let last = Arc::clone(&ended);
        system.always("outcomes are collected", move |s| {
            let logs = s.all::<Log>().map(|(_, log)| log.received.clone()).collect();
            let taken = s.all::<Once>().map(|(_, once)| once.taken).collect();
            let heard = s.all::<Fickle>().map(|(_, fickle)| fickle.heard).collect();
            *last.lock().unwrap() = (logs, taken, heard);
            true
        });
        // Asked only when nothing can happen any more.
        system.node("witness", Witness { last: Arc::clone(&ended), all: Arc::clone(&collect) });
    });
    let seen = seen.lock().unwrap().clone();
    (report.stop == Stop::Exhausted).then_some((seen, report.executions))
}

/// Is asked whether it waits when nothing can happen any more, and then collects the outcome.
#[derive(Clone, Serialize)]
struct Witness {
    #[serde(skip)]
    last: Arc<Mutex<Outcome>>,
    #[serde(skip)]
    all: Arc<Mutex<BTreeSet<Outcome>>>,
}

impl Node for Witness {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn is_waiting(&self) -> bool {
        self.all.lock().unwrap().insert(self.last.lock().unwrap().clone());
        false
    }
}

/// A comparison with the search without reduction: no reduction may change the final states that
/// can be reached.
#[test]
fn reductions_reach_every_final_state() {
    let (mut plain_runs, mut reduced_runs, mut compared) = (0, 0, 0);
    for seed in 0..300 {
        let Some((plain, runs)) = outcomes(Reduction::None, seed) else { continue };
        let (orders, fewer) = outcomes(Reduction::Orders, seed).expect("fewer than without");
        let (states, _) = outcomes(Reduction::States, seed).expect("fewer than without");
        compared += 1;
        assert_eq!(orders, plain, "orders differ for seed {seed}");
        assert_eq!(states, plain, "states differ for seed {seed}");
        assert!(fewer <= runs);
        (plain_runs, reduced_runs) = (plain_runs + runs, reduced_runs + fewer);
    }
    assert!(compared > 150, "{compared} systems are small enough");
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

/// Whether something has been true is part of a state in an exhaustive search: both orders of two
/// messages end in the same state, but only one has passed through the state that is asked for.
#[test]
fn what_has_been_true_tells_states_apart() {
    #[derive(Clone, Default, Serialize)]
    struct Register {
        one: bool,
        two: bool,
    }
    impl Node for Register {
        type Msg = u8;
        fn message(&mut self, _: &mut Cx<u8>, _: NodeId, msg: u8) {
            if msg == 1 { self.one = true } else { self.two = true }
        }
    }
    #[derive(Clone, Serialize)]
    struct Telling(NodeId, u8);
    impl Node for Telling {
        type Msg = u8;
        fn start(&mut self, cx: &mut Cx<u8>) {
            cx.send(self.0, self.1);
        }
        fn message(&mut self, _: &mut Cx<u8>, _: NodeId, _: u8) {}
    }
    let check = |rule: fn(&mut System<u8>, NodeId)| {
        for reduction in [Reduction::None, Reduction::States, Reduction::Orders, Reduction::Auto] {
            let search = Search::Exhaustive { reduction };
            let report = Explorer::new().search(search).run(move |system| {
                let register = system.node("register", Register::default());
                for msg in [1, 2] {
                    system.node("sender", Telling(register, msg));
                }
                rule(system, register);
            });
            assert!(report.finding().is_some(), "{reduction:?}: {report}");
        }
    };
    check(|system, register| {
        system.eventually("one without two", move |s| {
            s.get::<Register>(register).is_some_and(|r| r.one && !r.two)
        });
    });
    check(|system, register| {
        system.eventually("two without one", move |s| {
            s.get::<Register>(register).is_some_and(|r| r.two && !r.one)
        });
    });
    check(|system, _| {
        system
            .property("eventually \"one alone\": forall r in register nodes: r.one and not r.two");
    });
    check(|system, _| {
        system
            .property("eventually \"two alone\": forall r in register nodes: r.two and not r.one");
    });
}

/// Every way to part eight nodes: by hand, 127 splits, in 63 of which the message still arrives, and
/// three states in which it has arrived, or not, without a partition. Of many nodes one is cut off
/// at a time, which is not everything.
#[test]
fn partitions_are_covered_or_said_to_be_left_out() {
    let run = |nodes: usize| {
        exhaust(Reduction::States, move |system| {
            let log = system.node("log", Log::default());
            system.node("sender", Sender { to: vec![(log, 1)] });
            system.nodes("idle", nodes - 2, |_| Log::default());
            system.faults(everhold_sim::Faults::none().partition(1));
        })
    };
    let all = run(8);
    assert_eq!(all.stop, Stop::Exhausted, "{all}");
    assert_eq!(all.exhaustive.expect("it was exhaustive").states, 127 + 63 + 3, "{all}");
    for nodes in [32, 70] {
        let some = run(nodes);
        assert_eq!(some.stop, Stop::PartlySplit, "{some}");
        assert_ne!(some.verdict(), everhold_sim::SimVerdict::Holds);
    }
}
