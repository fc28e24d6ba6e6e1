//! Exhaustive search and progress: circles of states in which something stays owed.

use std::time::Duration;

use everhold_node::{Cx, Monitor, Node, NodeId, Timer};
use everhold_sim::{
    Cause, Explorer, Faults, Links, Reduction, Report, Search, SimVerdict, Stop, System, Untested,
};
use serde::Serialize;

/// Asks again and again until it is answered.
#[derive(Clone, Serialize)]
struct Asker {
    of: NodeId,
    answered: bool,
}

impl Node for Asker {
    type Msg = u8;
    fn start(&mut self, cx: &mut Cx<u8>) {
        cx.notify(Debt(true));
        cx.send(self.of, 0);
        cx.set_timer("retry", Duration::from_millis(10));
    }
    fn message(&mut self, cx: &mut Cx<u8>, _: NodeId, _: u8) {
        self.answered = true;
        cx.cancel_timer("retry");
        cx.notify(Debt(false));
    }
    fn timer(&mut self, cx: &mut Cx<u8>, _: Timer) {
        // One question is under way at a time, so the states are few.
        if !self.answered {
            cx.send(self.of, 0);
        }
        cx.set_timer("retry", Duration::from_millis(10));
    }
}

/// Answers every question, or none.
#[derive(Clone, Serialize)]
struct Answerer {
    deaf: bool,
}

impl Node for Answerer {
    type Msg = u8;
    fn message(&mut self, cx: &mut Cx<u8>, from: NodeId, _: u8) {
        if !self.deaf {
            cx.send(from, 1);
        }
    }
}

#[derive(Debug)]
struct Debt(bool);

#[derive(Clone, Default, Serialize)]
struct Paid {
    owed: bool,
}

impl Monitor for Paid {
    type Event = Debt;
    fn observe(&mut self, event: &Debt) {
        self.owed = event.0;
    }
    fn is_hot(&self) -> bool {
        self.owed
    }
}

/// Passes a message on for ever; with `luck` it is done once the message came twice in a row from
/// the same side.
#[derive(Clone, Serialize)]
struct Juggler {
    last: Option<NodeId>,
    lucky: bool,
}

impl Node for Juggler {
    type Msg = u8;
    fn message(&mut self, cx: &mut Cx<u8>, from: NodeId, msg: u8) {
        self.lucky |= self.last == Some(from);
        self.last = Some(from);
        if !self.lucky {
            cx.send(from, msg);
        }
    }
}

/// Throws a message, and returns whatever comes back.
#[derive(Clone, Serialize)]
struct Thrower {
    to: NodeId,
}

impl Node for Thrower {
    type Msg = u8;
    fn start(&mut self, cx: &mut Cx<u8>) {
        cx.send(self.to, 0);
    }
    fn message(&mut self, cx: &mut Cx<u8>, from: NodeId, msg: u8) {
        cx.send(from, msg);
    }
}

/// Changes its mind at every message, for ever.
#[derive(Clone, Serialize)]
struct Wavering {
    yes: bool,
}

impl Node for Wavering {
    type Msg = u8;
    fn message(&mut self, cx: &mut Cx<u8>, from: NodeId, msg: u8) {
        self.yes = !self.yes;
        cx.send(from, msg);
    }
}

/// Is done when it chooses one of two.
#[derive(Clone, Serialize)]
struct Chooser {
    done: bool,
}

impl Node for Chooser {
    type Msg = u8;
    fn start(&mut self, cx: &mut Cx<u8>) {
        cx.set_timer("again", Duration::from_millis(1));
    }
    fn message(&mut self, _: &mut Cx<u8>, _: NodeId, _: u8) {}
    fn timer(&mut self, cx: &mut Cx<u8>, _: Timer) {
        if cx.choose("side", 2) == 1 {
            self.done = true;
        } else {
            cx.set_timer("again", Duration::from_millis(1));
        }
    }
}

fn exhaust(
    reduction: Reduction,
    setup: impl Fn(&mut System<u8>) + Send + Sync + 'static,
) -> Report {
    let explorer = Explorer::new().executions(20_000).steps(40).regressions(false);
    explorer.search(Search::Exhaustive { reduction }).run(setup)
}

/// How progress is claimed: all forms are judged alike.
#[derive(Clone, Copy, Debug)]
enum Claim {
    Eventually,
    Finally,
    Language,
    Monitor,
}

fn question(deaf: bool, claim: Claim, losses: u32) -> impl Fn(&mut System<u8>) + Clone {
    move |system| {
        let of = system.node("answerer", Answerer { deaf });
        let asker = system.node("asker", Asker { of, answered: false });
        system.links(Links::new().mailbox("answerer", 1).mailbox("asker", 1));
        system.faults(Faults::none().lose(losses));
        let answered = move |s: &everhold_sim::View<'_, u8>| {
            s.get::<Asker>(asker).is_some_and(|asker| asker.answered)
        };
        match claim {
            Claim::Eventually => system.eventually("answered", answered),
            Claim::Finally => system.finally("answered", answered),
            Claim::Language => {
                system.property("eventually \"answered\": forall a in asker nodes: a.answered");
            }
            Claim::Monitor => system.monitor("answered", Paid::default()),
        }
    }
}

const CLAIMS: [Claim; 4] = [Claim::Eventually, Claim::Finally, Claim::Language, Claim::Monitor];

/// Nobody answers and the question is repeated for ever: each state is known, and none is the last.
#[test]
fn an_endless_circle_without_progress_is_a_violation() {
    for claim in CLAIMS {
        let report = exhaust(Reduction::States, question(true, claim, 0));
        let finding = report.finding().unwrap_or_else(|| panic!("{claim:?}: {report}"));
        let cause = &finding.failure.cause;
        assert!(matches!(cause, Cause::Liveness(_) | Cause::Finally(_)), "{claim:?}: {report}");
        assert!(finding.schedule.choices.len() <= 3, "{claim:?}: {report}");
        assert!(finding.failure.message.contains("went round"), "{claim:?}: {report}");
    }
}

/// The same question is answered; that the timer could fire for ever before the message arrives is
/// not fair, and losses end.
#[test]
fn a_circle_that_is_not_fair_is_no_violation() {
    for claim in CLAIMS {
        for losses in [0, 1] {
            let report = exhaust(Reduction::States, question(false, claim, losses));
            assert_eq!(report.verdict(), SimVerdict::Holds, "{claim:?}: {report}");
        }
    }
}

/// Where states are not told apart, circles are long executions, which are cut off and not judged.
#[test]
fn no_reduction_takes_an_endless_execution_for_a_finished_one() {
    for reduction in [Reduction::None, Reduction::Orders, Reduction::States, Reduction::Auto] {
        for claim in CLAIMS {
            let report = exhaust(reduction, question(true, claim, 0));
            assert_ne!(report.verdict(), SimVerdict::Holds, "{reduction:?} {claim:?}: {report}");
            let untested = [Untested::Progress("answered".to_owned())];
            if report.findings.is_empty() {
                assert_eq!(report.untested(), untested, "{reduction:?} {claim:?}: {report}");
            }
        }
    }
}

/// True and false in turn for ever is enough for `eventually` and not for `finally`.
#[test]
fn a_circle_in_which_it_is_true_at_times_violates_finally_only() {
    let run = |finally: bool| {
        exhaust(Reduction::States, move |system| {
            let wavering = system.node("wavering", Wavering { yes: false });
            system.node("thrower", Thrower { to: wavering });
            let yes = move |s: &everhold_sim::View<'_, u8>| {
                s.get::<Wavering>(wavering).is_some_and(|node| node.yes)
            };
            if finally {
                system.finally("yes", yes);
            } else {
                system.eventually("yes", yes);
            }
        })
    };
    assert_eq!(run(false).verdict(), SimVerdict::Holds);
    let report = run(true);
    let failure = &report.finding().unwrap_or_else(|| panic!("{report}")).failure;
    assert_eq!(failure.cause, Cause::Finally("yes".to_owned()), "{report}");
}

fn juggling(system: &mut System<u8>) {
    let juggler = system.node("juggler", Juggler { last: None, lucky: false });
    for _ in 0..2 {
        system.node("thrower", Thrower { to: juggler });
    }
    system.eventually("lucky", |s| s.all::<Juggler>().any(|(_, juggler)| juggler.lucky));
}

/// The two messages could arrive in turn for ever, which is fair; but no random order does that. So
/// it is not known to hold, and not called a violation either.
#[test]
fn a_circle_that_only_bad_luck_repeats_is_not_judged() {
    let report = exhaust(Reduction::States, juggling);
    let property = "lucky".to_owned();
    assert_eq!(report.stop, Stop::Unjudged { property: property.clone() }, "{report}");
    assert_eq!(report.verdict(), SimVerdict::Unknown);
    assert_eq!(report.untested(), [Untested::Circle(property)]);
    let failed = std::panic::catch_unwind(|| report.assert_holds()).expect_err("it is not judged");
    let words = failed.downcast_ref::<String>().expect("it has words");
    assert!(words.contains("may_be_untested(\"lucky\")"), "{words}");
    let allowed = exhaust(Reduction::States, |system| {
        juggling(system);
        system.may_be_untested("lucky");
    });
    assert_eq!(allowed.untested(), []);
    assert_eq!(allowed.verdict(), SimVerdict::Unknown);
}

/// Every answer to a choice comes sooner or later.
#[test]
fn choices_are_fair() {
    let report = exhaust(Reduction::States, |system| {
        system.node("chooser", Chooser { done: false });
        system.eventually("done", |s| s.all::<Chooser>().any(|(_, chooser)| chooser.done));
    });
    assert_eq!(report.verdict(), SimVerdict::Holds, "{report}");
}
