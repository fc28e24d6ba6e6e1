//! Silence that would mislead: a search that saw nothing of what a test is about does not pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::history::{Linearizable, Model};
use everhold_sim::{
    Bounds, Channel, Explorer, Faults, Links, Reduction, Report, Search, System, Untested, View,
};
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
    for links in [
        Links::new().between("counter", "countr", Channel::fifo()),
        Links::new().between("countr", "counter", Channel::fifo()),
        Links::new().mailbox("countr", 3),
    ] {
        let run = |allowed: bool| {
            let links = links.clone();
            let report = Explorer::new().executions(50).regressions(false);
            report.run(move |system: &mut System<u32>| {
                system.node("counter", Counter::default());
                system.links(links.clone());
                if allowed {
                    system.may_be_absent("countr");
                }
            })
        };
        let text = fails(run(false)).expect("there is no such node");
        let says = "a rule of `Links` names nodes of kind \"countr\"";
        assert!(text.contains(says) && text.contains("did you mean \"counter\"?"), "{text}");
        assert_eq!(fails(run(true)), None);
    }
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

/// Ticks every millisecond, and is done after a day.
#[derive(Clone, Default, Serialize)]
struct Patient {
    ticks: u32,
    done: bool,
}

impl Node for Patient {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        cx.set_timer("tick", Duration::from_millis(1));
        cx.set_timer("done", Duration::from_secs(86_400));
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
    fn timer(&mut self, cx: &mut Cx<u32>, timer: Timer) {
        if timer.name == "tick" {
            self.ticks += 1;
            cx.set_timer("tick", Duration::from_millis(1));
        } else {
            self.done = true;
        }
    }
}

/// Progress that no execution could judge was not tested.
#[test]
fn progress_must_be_judged() {
    let run = |allowed: bool| {
        let bounds = Bounds { steps_max: 200, temperature_max: 100 };
        let explorer = Explorer::new().executions(3).bounds(bounds).regressions(false);
        explorer.search(Search::Random).run(move |system: &mut System<u32>| {
            let node = system.node("patient", Patient::default());
            system.eventually("done", move |s| s.get::<Patient>(node).is_some_and(|p| p.done));
            if allowed {
                system.may_be_untested("done");
            }
        })
    };
    let report = run(false);
    assert_eq!(report.unjudged, 3, "{report}");
    assert_eq!(report.untested(), [Untested::Progress("done".to_owned())]);
    let text = fails(report).expect("nobody knows");
    for says in ["\"done\" was still owed", "system.may_be_untested(\"done\")", "longest timer"] {
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(fails(run(true)), None);
}

/// Waits for a day at some answers, and is done at once at the others.
#[derive(Clone, Serialize)]
struct Moody {
    waits: usize,
    patient: Patient,
}

impl Node for Moody {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        if cx.choose("mood", 4) < self.waits {
            self.patient.start(cx);
        } else {
            self.patient.done = true;
        }
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
    fn timer(&mut self, cx: &mut Cx<u32>, timer: Timer) {
        self.patient.timer(cx, timer);
    }
}

/// Where most executions could not be judged, the others say little.
#[test]
fn most_executions_must_be_judged() {
    let run = |waits: usize| {
        let bounds = Bounds { steps_max: 200, temperature_max: 100 };
        let explorer = Explorer::new().executions(40).bounds(bounds).regressions(false);
        explorer.search(Search::Random).run(move |system: &mut System<u32>| {
            let node = system.node("moody", Moody { waits, patient: Patient::default() });
            let is_done = move |s: &View<'_, u32>| {
                s.get::<Moody>(node).is_some_and(|moody| moody.patient.done)
            };
            system.eventually("done", is_done);
        })
    };
    let few = run(1);
    assert!((1..20).contains(&few.unjudged), "{few}");
    assert_eq!(fails(few), None);
    let most = run(3);
    assert!((21..40).contains(&most.unjudged), "{most}");
    let text = fails(most).expect("too few were judged");
    assert!(text.contains("raise `Bounds::temperature_max`"), "{text}");
}

#[derive(Clone, Default, Serialize)]
struct Total(u32);

impl Model for Total {
    type Op = ();
    type Ret = u32;
    fn apply(&mut self, (): &()) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// Calls, and gets an answer when a message arrives.
#[derive(Clone, Serialize)]
struct Caller;

impl Node for Caller {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        let me = cx.id();
        cx.notify(Total::invoked(me, ()));
        cx.send(me, 1);
    }
    fn message(&mut self, cx: &mut Cx<u32>, _: NodeId, _: u32) {
        let me = cx.id();
        cx.notify(Total::returned(me, 3));
    }
}

/// A checker that gave up in every execution has tested nothing.
#[test]
fn checkers_must_come_to_an_end() {
    let run = |search: Search, allowed: bool| {
        let explorer = Explorer::new().executions(20).search(search).regressions(false);
        explorer.run(move |system: &mut System<u32>| {
            system.nodes("caller", 6, |_| Caller);
            let monitor = Linearizable::new(Total::default()).configurations_max(2);
            system.monitor("the total is atomic", monitor);
            if allowed {
                system.may_be_untested("the total is atomic");
            }
        })
    };
    for search in [Search::Random, Search::Exhaustive { reduction: Reduction::None }] {
        let text = fails(run(search.clone(), false)).expect("nothing was judged");
        for says in ["most executions could not be judged", "configurations_max", "may_be_untested"]
        {
            assert!(text.contains(says), "{search}: {text}");
        }
        assert_eq!(fails(run(search, true)), None);
    }
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
