//! Progress: owed for ever, or only late.

use std::time::Duration;

use everhold_node::{Cx, Monitor, Node, NodeId, Timer};
use everhold_sim::{Bounds, Cause, Explorer, Faults, Report, System};
use serde::Serialize;

use crate::toys::Msg;

#[derive(Debug)]
enum Debt {
    Owed,
    Paid,
}

/// Progress is owed from a notification of the debt until one of its payment.
#[derive(Clone, Default, Serialize)]
struct Paid {
    owed: bool,
}

impl Monitor for Paid {
    type Event = Debt;
    fn observe(&mut self, event: &Debt) {
        self.owed = matches!(event, Debt::Owed);
    }
    fn is_hot(&self) -> bool {
        self.owed
    }
}

/// Asks, and asks again whenever its timer fires, until it is answered.
#[derive(Clone, Serialize)]
struct Asker {
    of: NodeId,
    retries: bool,
    asked: u32,
    answered: bool,
    /// Whether the count of questions is part of the state, so that no state comes twice.
    counts: bool,
}

impl Node for Asker {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.notify(Debt::Owed);
        self.ask(cx);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.answered = true;
        cx.notify(Debt::Paid);
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.ask(cx);
    }
}

impl Asker {
    fn ask(&mut self, cx: &mut Cx<Msg>) {
        if self.counts {
            self.asked += 1;
        }
        cx.send(self.of, 1);
        if self.retries && !self.answered {
            cx.set_timer("retry", Duration::from_millis(10));
        }
    }
}

/// Answers, unless it is deaf.
#[derive(Clone, Serialize)]
struct Answerer {
    deaf: bool,
}

impl Node for Answerer {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, _: Msg) {
        if !self.deaf {
            cx.send(from, 2);
        }
    }
}

struct Case {
    retries: bool,
    deaf: bool,
    counts: bool,
    losses: u32,
}

fn explore(case: Case) -> Report {
    let bounds = Bounds { steps_max: 60, temperature_max: 300 };
    Explorer::new().executions(500).bounds(bounds).run(move |system: &mut System<Msg>| {
        let of = system.node("answerer", Answerer { deaf: case.deaf });
        let (retries, counts) = (case.retries, case.counts);
        system.node("asker", Asker { of, retries, asked: 0, answered: false, counts });
        system.faults(Faults::none().lose(case.losses));
        system.monitor("answered", Paid::default());
    })
}

/// Checks that the message of the finding contains this, or that nothing is found if it is empty.
#[track_caller]
fn check(case: Case, says: &str) {
    let report = explore(case);
    match report.finding() {
        None => assert!(says.is_empty(), "nothing was found\n{report}"),
        Some(finding) => {
            assert!(!says.is_empty(), "{report}");
            assert_eq!(finding.failure.cause, Cause::Liveness("answered".to_owned()), "{report}");
            assert!(finding.failure.message.contains(says), "{report}");
        }
    }
}

#[test]
fn a_question_is_answered() {
    check(Case { retries: false, deaf: false, counts: false, losses: 0 }, "");
    check(Case { retries: true, deaf: false, counts: false, losses: 0 }, "");
}

/// Losses end, so a node that asks again is answered; the fair tail must show that, and not raise a
/// false alarm.
#[test]
fn retries_outlast_losses() {
    check(Case { retries: true, deaf: false, counts: false, losses: 5 }, "");
    check(Case { retries: true, deaf: false, counts: true, losses: 5 }, "");
}

#[test]
fn quiet_but_hot_is_seen_at_once() {
    check(Case { retries: false, deaf: true, counts: false, losses: 0 }, "nothing can happen");
    check(Case { retries: false, deaf: false, counts: false, losses: 1 }, "nothing can happen");
}

#[test]
fn going_round_for_ever_is_a_lasso() {
    check(Case { retries: true, deaf: true, counts: false, losses: 0 }, "went round");
}

/// No state comes twice, so only patience shows it.
#[test]
fn growing_for_ever_is_too_hot() {
    check(Case { retries: true, deaf: true, counts: true, losses: 0 }, "300 fair steps");
}

#[test]
fn eventually_is_judged_like_a_monitor() {
    let build = |deaf| {
        move |system: &mut System<Msg>| {
            let of = system.node("answerer", Answerer { deaf });
            let asker = Asker { of, retries: true, asked: 0, answered: false, counts: false };
            let asker = system.node("asker", asker);
            system.eventually("the asker knows", move |s| {
                s.get::<Asker>(asker).is_some_and(|asker| asker.answered)
            });
        }
    };
    let explore = |deaf| Explorer::new().executions(200).steps(50).run(build(deaf));
    assert!(explore(false).findings.is_empty());
    let deaf = explore(true);
    let cause = &deaf.finding().expect("it never knows").failure.cause;
    assert_eq!(*cause, Cause::Liveness("the asker knows".to_owned()));
}

/// A liveness finding is made short: the tail supplies the rest.
#[test]
fn a_liveness_finding_shrinks_to_its_cause() {
    let report = explore(Case { retries: true, deaf: true, counts: true, losses: 3 });
    let finding = report.finding().expect("it is deaf");
    assert!(finding.schedule.choices.len() <= 2, "nothing has to happen: {report}");
}

/// Lights up and goes out, as often as it is told.
#[derive(Clone, Serialize)]
struct Lamp {
    lit: bool,
    switches: u32,
}

impl Node for Lamp {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("switch", Duration::from_millis(1));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.lit = !self.lit;
        if self.switches < u32::MAX {
            self.switches -= 1;
        }
        if self.switches > 0 {
            cx.set_timer("switch", Duration::from_millis(1));
        }
    }
}

/// `eventually` asks for one moment, `finally` for the end; where there is no end, for the states
/// that recur.
#[test]
fn eventually_and_finally_differ_in_what_comes_after() {
    let check = |switches, finally, expected: Option<&str>| {
        let bounds = Bounds { steps_max: 21, temperature_max: 300 };
        let report = Explorer::new().executions(20).bounds(bounds).run(move |system| {
            let lamp = system.node("lamp", Lamp { lit: false, switches });
            let is_lit = move |s: &everhold_sim::View<'_, Msg>| {
                s.get::<Lamp>(lamp).is_some_and(|lamp| lamp.lit)
            };
            if finally {
                system.finally("lit", is_lit);
            } else {
                system.eventually("lit", is_lit);
            }
        });
        let failure = report.finding().map(|finding| finding.failure.to_string());
        match expected {
            Some(expected) => {
                let failure = failure.expect("it is violated");
                assert!(failure.contains(expected), "{switches} switches: {failure}");
            }
            None => assert_eq!(failure, None, "{switches} switches"),
        }
    };
    check(1, false, None);
    check(1, true, None);
    check(2, false, None);
    check(2, true, Some("finally \"lit\" violated: still owed, but nothing can happen any more"));
    // For ever: it was lit once, but it does not last.
    check(u32::MAX, false, None);
    check(
        u32::MAX,
        true,
        Some("finally \"lit\" violated: true at times, but false again and again"),
    );
}

/// A finding tells what happened while progress was owed, and which nodes could have helped and did
/// not.
#[test]
fn a_finding_says_what_did_not_help_and_who_did_nothing() {
    let setup = |stops: u32| {
        move |system: &mut System<Msg>| {
            let deaf = stops == 0;
            let of = system.node("answerer", Answerer { deaf });
            system.node(
                "asker",
                Asker { of, retries: true, asked: 0, answered: false, counts: false },
            );
            system.node("bystander", Answerer { deaf: false });
            system.faults(Faults::none().stop(stops).only(["answerer"]));
            system.monitor("answered", Paid::default());
        }
    };
    let bounds = Bounds { steps_max: 60, temperature_max: 300 };
    let explore = |stops| Explorer::new().executions(500).bounds(bounds).run(setup(stops));
    for (stops, says) in [
        (0, ["1 × timer retry at asker", "none of it helped", "nothing happened there: bystander"]),
        (1, ["1 × timer retry at asker", "there: bystander\n", "down or gone: answerer"]),
    ] {
        let report = explore(stops);
        let finding = report.finding().expect("nobody answers");
        for part in says {
            assert!(finding.failure.message.contains(part), "{part} is missing in\n{report}");
        }
    }
}

/// Ticks often, and goes out at the second of its slow timers.
#[derive(Clone, Serialize)]
struct Candle {
    lit: bool,
    slow: u32,
}

impl Node for Candle {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("tick", Duration::from_millis(1));
        cx.set_timer("slow", Duration::from_millis(100));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer.name == "tick" {
            let me = cx.id();
            cx.send(me, 0);
            return cx.set_timer("tick", Duration::from_millis(1));
        }
        self.slow += 1;
        self.lit = self.slow < 2;
        cx.set_timer("slow", Duration::from_millis(100));
    }
}

/// A `finally` that is true when the fair tail begins, and false from the second of its long timers
/// on, four hundred steps later.
#[test]
fn finally_must_last_for_as_long_as_the_longest_timer() {
    let bounds = Bounds { steps_max: 60, temperature_max: 1_000 };
    let explorer = Explorer::new().executions(3).bounds(bounds).regressions(false);
    let report = explorer.run(|system: &mut System<Msg>| {
        system.clocks(everhold_sim::Clocks::Shared);
        system.node("candle", Candle { lit: true, slow: 0 });
        system.finally("lit", |s| s.all::<Candle>().all(|(_, candle)| candle.lit));
    });
    let finding = report.finding().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(finding.failure.cause, Cause::Finally("lit".to_owned()), "{report}");
}
