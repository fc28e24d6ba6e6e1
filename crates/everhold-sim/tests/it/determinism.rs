//! Systems that are not a function of their schedule: noticed early, and explained in words.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Cause, Explorer, Reduction, Search, System};
use serde::Serialize;

/// Sends itself a number at the start, and keeps what arrives.
#[derive(Clone, Default, Serialize)]
struct Keeper {
    seed: u32,
    kept: Vec<u32>,
}

impl Node for Keeper {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        cx.send(cx.id(), 7);
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, number: u32) {
        self.kept.push(number);
    }
}

/// Checks the message of `run` for a setup that is not the same every time.
#[track_caller]
fn check_setup(expected: &str, setup: impl Fn(&mut System<u32>) + Send + Sync + 'static) {
    let run = || Explorer::new().executions(10).workers(2).run(setup);
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it is noticed");
    let text = panic.downcast::<String>().expect("a text");
    assert!(text.contains("described two different systems"), "{text}");
    assert!(text.contains(expected) && text.contains("cx.choose"), "{text}");
}

#[test]
fn a_setup_that_changes_is_noticed() {
    let calls = AtomicU32::new(2);
    check_setup("first 2 nodes, later 3 nodes", move |system| {
        for _ in 0..calls.fetch_add(1, Ordering::Relaxed) {
            system.node("keeper", Keeper::default());
        }
    });
    let calls = AtomicU32::new(0);
    check_setup("first node \"even\"", move |system| {
        let even = calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        system.node(if even { "even" } else { "odd" }, Keeper::default());
    });
    let calls = AtomicU32::new(0);
    check_setup("seed: 0", move |system| {
        let seed = calls.fetch_add(1, Ordering::Relaxed);
        system.node("keeper", Keeper { seed, ..Keeper::default() });
    });
    // The value differs only on another thread.
    thread_local!(static SEED: Cell<u32> = const { Cell::new(0) });
    SEED.set(5);
    check_setup("seed: 5", |system| {
        system.node("keeper", Keeper { seed: SEED.get(), ..Keeper::default() });
    });
}

/// Checks the report of a search of a single execution: the step, the node, the difference, where
/// to look.
#[track_caller]
fn check_words(expected: &[&str], setup: impl Fn(&mut System<u32>) + Send + Sync + 'static) {
    let report = Explorer::new().executions(1).workers(1).run(setup);
    let finding = report.finding().expect("it is noticed");
    assert_eq!(finding.failure.cause, Cause::Nondeterminism);
    for words in expected {
        let message = &finding.failure.message;
        assert!(message.contains(words), "no {words:?} in {message}");
    }
}

/// Keeps a count in memory that outlives the execution.
#[derive(Clone, Serialize)]
struct Counting(Keeper);

static ARRIVED: AtomicU32 = AtomicU32::new(0);

impl Node for Counting {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        self.0.start(cx);
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {
        self.0.kept.push(ARRIVED.fetch_add(1, Ordering::Relaxed));
    }
}

/// Sends to all in the order of a hash set.
#[derive(Clone, Serialize)]
struct Shuffling;

impl Node for Shuffling {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        #[expect(clippy::disallowed_types, reason = "the mistake that is to be found")]
        let numbers: std::collections::HashSet<u32> = (0..40).collect();
        for number in numbers {
            cx.send(cx.id(), number);
        }
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
}

#[test]
fn the_first_execution_is_compared_and_the_difference_is_told() {
    check_words(
        &["step 1, 7 arrives at counting", "its field `kept` is [", "`static`"],
        |system| {
            system.node("counting", Counting(Keeper::default()));
        },
    );
    check_words(&["step 0", "it sent ", "another order", "`HashMap`"], |system| {
        system.node("shuffling", Shuffling);
    });
    // Captured by a program, whose state cannot be compared before it runs.
    let calls = AtomicU32::new(0);
    check_words(&["step 0", "it sent ", "outside its context"], move |system| {
        let seed = calls.fetch_add(1, Ordering::Relaxed);
        system.spawn("program", move |cx| async move {
            cx.send(cx.id(), seed);
            cx.recv().await;
        });
    });
}

/// An exhaustive search runs every execution once; it compares one before it begins.
#[test]
fn an_exhaustive_search_compares_too() {
    let search = Search::Exhaustive { reduction: Reduction::Auto };
    let report = Explorer::new().search(search).run(|system| {
        system.node("counting", Counting(Keeper::default()));
    });
    let cause = report.finding().map(|finding| finding.failure.cause.clone());
    assert_eq!(cause, Some(Cause::Nondeterminism), "{report}");
}
