//! Progress on a virtual clock: judged by the time at the end of an execution, not by its steps.

use std::time::Duration;

use everhold_node::{Cx, Monitor, Node, NodeId, Timer};
use everhold_sim::{Cause, System, View};
use everhold_timed::{Durations, Ended, Timed};
use serde::Serialize;

type Msg = u32;

/// Switches at every tick, as many times as it has left.
#[derive(Clone, Serialize)]
struct Lamp {
    lit: bool,
    left: u32,
}

#[derive(Debug)]
struct Lit(bool);

/// Is hot while the lamp is dark.
#[derive(Clone, Serialize)]
struct Dark(bool);

impl Monitor for Dark {
    type Event = Lit;
    fn observe(&mut self, event: &Lit) {
        self.0 = !event.0;
    }
    fn is_hot(&self) -> bool {
        self.0
    }
}

impl Node for Lamp {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        if self.left > 0 {
            cx.set_timer("switch", Duration::from_secs(1));
        }
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.lit = !self.lit;
        self.left -= 1;
        cx.notify(Lit(self.lit));
        self.start(cx);
    }
}

#[derive(Clone, Copy, Debug)]
enum Claim {
    Eventually,
    Finally,
    Monitor,
    Language(&'static str),
}

/// A lamp that switches so often; the execution may take a minute of virtual time.
fn run(switches: u32, claim: Claim) -> Ended {
    let timed = Timed::new(move |system: &mut System<Msg>| {
        let lamp = system.node("lamp", Lamp { lit: false, left: switches });
        let is_lit = move |s: &View<'_, Msg>| s.get::<Lamp>(lamp).is_some_and(|lamp| lamp.lit);
        match claim {
            Claim::Eventually => system.eventually("lit", is_lit),
            Claim::Finally => system.finally("lit", is_lit),
            Claim::Monitor => system.monitor("lit", Dark(true)),
            Claim::Language(text) => system.property(text),
        }
    });
    timed.durations(Durations::none()).time_max(Duration::from_secs(60)).run(1).ended
}

const LANGUAGE: [&str; 4] = [
    "eventually \"lit\": forall l in lamp nodes: l.lit",
    "finally \"lit\": forall l in lamp nodes: l.lit",
    "eventually \"lit\" within 5s: forall l in lamp nodes: l.lit",
    "finally \"lit\" within 5s: forall l in lamp nodes: l.lit",
];

/// Where nothing can happen any more, everything that is owed stays owed.
#[test]
fn a_quiet_end_is_judged() {
    let [once, at_end, soon, soon_for_good] = LANGUAGE.map(Claim::Language);
    let claims =
        [Claim::Eventually, Claim::Finally, Claim::Monitor, once, at_end, soon, soon_for_good];
    for claim in claims {
        assert_eq!(run(1, claim), Ended::Quiet(None), "{claim:?}");
        let Ended::Failed(failure) = run(0, claim) else { panic!("{claim:?}: it is never lit") };
        let at_end = matches!(failure.cause, Cause::Finally(_));
        assert!(at_end || matches!(failure.cause, Cause::Liveness(_)), "{claim:?}: {failure}");
    }
    // Lit once, then dark.
    for (claim, fails) in claims.into_iter().zip([false, true, true, false, true, false, true]) {
        assert_eq!(matches!(run(2, claim), Ended::Failed(_)), fails, "{claim:?}");
    }
}

/// At the limit of time a deadline has passed or not, however few steps there were since. Without
/// a deadline nobody knows.
#[test]
fn the_limit_of_time_is_judged_by_deadlines() {
    let limit = |text: &'static str, switches: u32| {
        let timed = Timed::new(move |system: &mut System<Msg>| {
            system.node("lamp", Lamp { lit: false, left: switches });
            system.node("clock", Late);
            system.property(text);
        });
        timed.durations(Durations::none()).time_max(Duration::from_secs(60)).run(1).ended
    };
    let [once, at_end, soon, soon_for_good] = LANGUAGE;
    for text in LANGUAGE {
        assert!(matches!(limit(text, 1), Ended::TimeLimit(_)), "{text}");
    }
    for text in [once, at_end] {
        assert!(matches!(limit(text, 0), Ended::TimeLimit(_)), "{text}");
    }
    for text in [soon, soon_for_good] {
        assert!(matches!(limit(text, 0), Ended::Failed(_)), "{text}");
    }
    assert!(matches!(limit(soon_for_good, 2), Ended::Failed(_)));
    assert!(matches!(limit(soon, 2), Ended::TimeLimit(_)));
}

/// Has a timer that fires after the limit of time, and nothing before.
#[derive(Clone, Serialize)]
struct Late;

impl Node for Late {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("late", Duration::from_secs(3_600));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
}
