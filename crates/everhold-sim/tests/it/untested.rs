//! Silence that would mislead: a search that saw nothing of what a test is about does not pass.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Explorer, Faults, Reduction, Report, Search, System, Untested};
use serde::Serialize;

/// Sends itself a few numbers and keeps the last; the third makes it start a child.
#[derive(Clone, Default, Serialize)]
struct Counter {
    last: u32,
    note: Option<u32>,
}

impl Node for Counter {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        for number in 1..=3 {
            cx.send(cx.id(), number);
        }
    }
    fn message(&mut self, cx: &mut Cx<u32>, _: NodeId, number: u32) {
        self.last = number;
        if number == 3 {
            cx.spawn("child", Child);
        }
    }
}

#[derive(Clone, Serialize)]
struct Child;

impl Node for Child {
    type Msg = u32;
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
}

type Rules = fn(&mut System<u32>);

fn run(search: Search, rules: Rules) -> Report {
    Explorer::new().executions(50).search(search).regressions(false).run(move |system| {
        system.node("counter", Counter::default());
        rules(system);
    })
}

/// The text with which the test fails, if it does.
fn fails(report: Report) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| report.assert_holds())).err()?;
    Some(*panic.downcast::<String>().expect("a text"))
}

#[track_caller]
fn check(rules: Rules, expected: &[&str]) {
    for search in [Search::Portfolio, Search::Exhaustive { reduction: Reduction::Auto }] {
        let text = fails(run(search.clone(), rules));
        match (&text, expected) {
            (None, []) => {}
            (Some(text), [_, ..]) => {
                for words in expected {
                    assert!(text.contains(words), "{search:?}: no {words:?} in {text}");
                }
            }
            _ => panic!("{search:?}: {text:?}, expected {expected:?}"),
        }
    }
}

fn last(system: &mut System<u32>, number: u32) {
    system.sometimes("the goal", move |s| s.all::<Counter>().any(|(_, c)| c.last == number));
}

#[test]
fn goals_must_be_reached() {
    check(|system| last(system, 3), &[]);
    let missed =
        ["\"the goal\" was never reached", "system.may_be_missed(\"the goal\")", "execution"];
    check(|system| last(system, 4), &missed);
    check(
        |system| {
            last(system, 4);
            system.may_be_missed("the goal");
        },
        &[],
    );
    check(|system| system.property("sometimes \"g\": exists n in nodes: n.last == 3"), &[]);
    check(
        |system| system.property("sometimes \"g\": exists n in nodes: n.last == 4"),
        &["the goal \"g\" was never reached"],
    );
    check(
        |system| {
            system.property("sometimes \"g\": exists n in nodes: n.last == 4");
            system.may_be_missed("g");
        },
        &[],
    );
}

/// The failure states how much was run, since a small budget may be the reason.
#[test]
fn a_missed_goal_says_how_much_was_run() {
    let report = run(Search::Random, |system| last(system, 4));
    assert_eq!(report.untested(), [Untested::Goal("the goal".to_owned())]);
    let text = fails(report).expect("it was missed");
    assert!(text.contains("not everything was tested in 50 executions"), "{text}");
}

#[test]
fn kinds_must_exist() {
    check(|system| system.property("always \"p\": forall c in counter nodes: c.last < 9"), &[]);
    check(
        |system| system.property("always \"p\": forall c in countr nodes: c.last < 9"),
        &[
            "the property \"p\" names nodes of kind \"countr\"",
            "did you mean \"counter\"?",
            "system.may_be_absent(\"countr\")",
        ],
    );
    check(
        |system| {
            system.property("always \"p\": count(c in server nodes: true) == 0");
            system.may_be_absent("server");
        },
        &[],
    );
    // A kind that exists only later exists.
    check(|system| system.property("always \"p\": count(c in child nodes: true) < 2"), &[]);
    check(
        |system| system.faults(Faults::none().crash(1).only(["countr"])),
        &["`Faults::only` names nodes of kind \"countr\""],
    );
}

#[test]
fn properties_must_be_decided() {
    check(
        |system| system.property("always \"p\": forall c in counter nodes: c.lats > 0"),
        &["the property \"p\" was unknown or out of its scope in every state"],
    );
    check(
        |system| {
            system.property("always \"p\": forall c in counter nodes: c.note < 9");
            system.may_be_untested("p");
        },
        &[],
    );
    check(|system| system.property("always \"p\" when all quiet: forall c in nodes: 1 < 2"), &[]);
}

/// Goals that could not be expected are not demanded.
#[test]
fn a_finding_or_a_replay_does_not_fail_for_its_goals() {
    let rules: Rules = |system| {
        last(system, 4);
        system.always("never 3", |s| s.all::<Counter>().all(|(_, c)| c.last != 3));
    };
    let report = run(Search::Random, rules);
    assert_eq!(report.untested(), []);
    let schedule = report.finding().expect("3 arrives").schedule.clone();
    let replayed = Explorer::new().replay(schedule).run(|system: &mut System<u32>| {
        system.node("counter", Counter::default());
        last(system, 4);
    });
    assert_eq!(fails(replayed), None);
}
