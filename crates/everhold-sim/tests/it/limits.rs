//! What the explorer cannot see. Each test asserts today's answer and fails on the day it changes.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Explorer, Reduction, Search, Stop, System};
use serde::Serialize;

use crate::toys::{Log, Msg, Sender};

/// A random number is drawn, not explored: an exhaustive search sees one value of it.
#[test]
fn random_numbers_are_not_enumerated() {
    #[derive(Clone, Default, Serialize)]
    struct Dice {
        rolled: Option<u64>,
    }
    impl Node for Dice {
        type Msg = Msg;
        fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
            self.rolled = Some(cx.random() % 6);
        }
    }
    let search = Search::Exhaustive { reduction: Reduction::None };
    let report = Explorer::new().search(search).run(|system: &mut System<Msg>| {
        let dice = system.node("dice", Dice::default());
        system.node("sender", Sender { to: vec![(dice, 0)] });
        for number in 0..6 {
            system.sometimes(&format!("{number} is rolled"), move |s| {
                s.get::<Dice>(dice).is_some_and(|dice| dice.rolled == Some(number))
            });
        }
    });
    assert_eq!(report.stop, Stop::Exhausted);
    assert_eq!(report.missed_goals().count(), 5, "{report}");
}

/// Clocks are no part of a state's fingerprint, since they never come back: a search that tells
/// states apart takes two moments for one if the node remembers nothing of the time.
#[test]
fn states_at_different_times_are_one_state() {
    #[derive(Clone, Serialize)]
    struct Ticker;
    impl Node for Ticker {
        type Msg = Msg;
        fn start(&mut self, cx: &mut Cx<Msg>) {
            cx.set_timer("tick", Duration::from_millis(1));
        }
        fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
        fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
            assert!(cx.now().0 < 5_000_000, "it is late");
            cx.set_timer("tick", Duration::from_millis(1));
        }
    }
    let run = |reduction| {
        let search = Search::Exhaustive { reduction };
        let explorer = Explorer::new().search(search).steps(20);
        explorer.run(|system: &mut System<Msg>| {
            system.node("ticker", Ticker);
        })
    };
    assert!(run(Reduction::States).findings.is_empty(), "missed");
    assert!(!run(Reduction::None).findings.is_empty(), "found");
}

/// Reducing orders keeps the states of each node, not their combinations.
#[test]
fn reduced_orders_miss_combinations_of_states() {
    let run = |reduction| {
        let search = Search::Exhaustive { reduction };
        Explorer::new().search(search).run(|system: &mut System<Msg>| {
            for _ in 0..2 {
                let log = system.node("log", Log::default());
                system.node("sender", Sender { to: vec![(log, 1)] });
            }
            system.always("the second never hears before the first", |s| {
                let heard: Vec<bool> =
                    s.all::<Log>().map(|(_, log)| !log.received.is_empty()).collect();
                heard[0] || !heard[1]
            });
        })
    };
    assert!(run(Reduction::Orders).findings.is_empty(), "missed, as documented");
    assert!(!run(Reduction::Auto).findings.is_empty(), "so Auto does not use it here");
}

/// What a handler does through its context is bounded. What it allocates by itself is not, nor what the
/// messages that it sends point to: nothing is said until memory ends.
#[test]
fn memory_that_a_handler_takes_is_not_bounded() {
    #[derive(Clone, Default, Serialize)]
    struct Hoarder {
        #[serde(skip)]
        hoard: Vec<u8>,
    }
    impl Node for Hoarder {
        type Msg = Vec<u8>;
        fn message(&mut self, cx: &mut Cx<Vec<u8>>, _: NodeId, msg: Vec<u8>) {
            self.hoard.resize(64 << 20, 1);
            let me = cx.id();
            if msg.is_empty() {
                cx.send(me, vec![1; 8 << 20]);
            }
        }
    }
    #[derive(Clone, Serialize)]
    struct Starter(NodeId);
    impl Node for Starter {
        type Msg = Vec<u8>;
        fn start(&mut self, cx: &mut Cx<Vec<u8>>) {
            cx.send(self.0, Vec::new());
        }
        fn message(&mut self, _: &mut Cx<Vec<u8>>, _: NodeId, _: Vec<u8>) {}
    }
    let explorer = Explorer::new().executions(2).workers(1);
    let report = explorer.run(|system: &mut System<Vec<u8>>| {
        let hoarder = system.node("hoarder", Hoarder::default());
        system.node("starter", Starter(hoarder));
    });
    assert!(report.findings.is_empty(), "{report}");
}
