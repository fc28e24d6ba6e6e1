//! Handlers without an end, closures that panic and checkers that give up mean on a virtual clock
//! what they mean under the explorer.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::history::{Linearizable, Model};
use everhold_sim::{Cause, SimVerdict, System};
use everhold_timed::{Durations, Ended, Timed};
use serde::Serialize;

type Msg = u32;

/// Does something without end at its timer.
#[derive(Clone, Serialize)]
struct Endless {
    what: What,
}

#[derive(Clone, Copy, Serialize)]
enum What {
    Send,
    SetTimers,
    Choose,
    Spawn,
    Nothing,
}

impl Node for Endless {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("begin", Duration::from_millis(1));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        let me = cx.id();
        match self.what {
            What::Send => loop {
                cx.send(me, 1);
            },
            What::SetTimers => loop {
                cx.set_timer("again", Duration::from_millis(1));
            },
            What::Choose => loop {
                cx.choose("side", 2);
            },
            What::Spawn => loop {
                cx.spawn("endless", Endless { what: What::Nothing });
            },
            What::Nothing => {}
        }
    }
}

fn endless(what: What) -> Timed<Msg> {
    Timed::new(move |system: &mut System<Msg>| {
        system.node("bystander", Endless { what: What::Nothing });
        system.node("endless", Endless { what });
    })
    .durations(Durations::none())
    .time_max(Duration::from_secs(1))
}

#[test]
fn a_handler_that_goes_on_for_ever_is_stopped() {
    for what in [What::Send, What::SetTimers, What::Choose, What::Spawn] {
        let run = endless(what).run(1);
        let Ended::Failed(failure) = &run.ended else { panic!("{run}") };
        assert_eq!(failure.cause, Cause::Flood("endless".to_owned()), "{run}");
        let says = "endless did more than 65536 things in one event";
        assert!(failure.message.contains(says), "{run}");
    }
}

#[test]
fn a_panic_in_a_closure_names_the_closure() {
    let careless = |view: &everhold_sim::View<'_, Msg>| {
        assert!(view.all::<Endless>().count() == 0, "two are too many");
        true
    };
    let property = Timed::new(move |system: &mut System<Msg>| {
        system.node("bystander", Endless { what: What::Nothing });
        system.always("something that holds", |_| true);
        system.always("the careless one", careless);
    });
    let stop = endless(What::Nothing).stop_when(careless);
    for (timed, says) in [
        (property, "in the property \"the careless one\": two are too many"),
        (stop, "in the stopping condition: two are too many"),
    ] {
        let run = timed.run(1);
        let Ended::Failed(failure) = &run.ended else { panic!("{run}") };
        assert!(matches!(failure.cause, Cause::Panic(_)), "{run}");
        assert_eq!(failure.message, says, "{run}");
    }
}

#[derive(Clone, Default, Serialize)]
struct Counter(u32);

impl Model for Counter {
    type Op = ();
    type Ret = u32;
    fn apply(&mut self, (): &()) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// Calls, and gets an answer a little later.
#[derive(Clone, Serialize)]
struct Caller;

impl Node for Caller {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        let me = cx.id();
        cx.notify(Counter::invoked(me, ()));
        cx.set_timer("answer", Duration::from_millis(1));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        let me = cx.id();
        cx.notify(Counter::returned(me, 3));
    }
}

/// A checker that gives up is neither a pass nor a violation.
#[test]
fn the_bound_of_a_checker_is_unknown() {
    let timed = Timed::new(|system: &mut System<Msg>| {
        system.nodes("caller", 6, |_| Caller);
        let monitor = Linearizable::new(Counter::default()).configurations_max(2);
        system.monitor("the counter is atomic", monitor);
    });
    let run = timed.run(1);
    let Ended::Undecided(bound) = &run.ended else { panic!("{run}") };
    assert_eq!(run.verdict(), SimVerdict::Unknown);
    assert!(bound.contains("monitor \"the counter is atomic\""), "{run}");
    assert!(bound.contains("configurations_max"), "{run}");
}
