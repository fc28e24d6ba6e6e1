//! Properties in the language, checked during the search.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Cause, Clocks, Explorer, Report, Search, System};
use serde::Serialize;

use crate::toys::{Log, Msg, Relay, Sender};

/// A log that hears from a relay and from two senders.
fn build(system: &mut System<Msg>) {
    let log = system.node("log", Log::default());
    let relay = system.node("relay", Relay { to: log, passed: 0 });
    system.node("sender", Sender { to: vec![(log, 1), (relay, 10)] });
    system.node("sender", Sender { to: vec![(log, 2), (relay, 20)] });
}

fn explore(property: &'static str) -> Report {
    Explorer::new().executions(2_000).run(move |system| {
        build(system);
        system.property(property);
    })
}

/// Nothing is wrong and every goal is reached.
#[track_caller]
fn check_holds(property: &'static str) {
    let report = explore(property);
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

/// The property is violated, with these values, in at most this many steps.
#[track_caller]
fn check_violated(property: &'static str, cause: &Cause, values: &str, steps_max: usize) {
    let report = explore(property);
    let finding = report.finding().unwrap_or_else(|| panic!("nothing is found\n{report}"));
    assert_eq!(finding.failure.cause, *cause, "{report}");
    assert_eq!(finding.failure.message, values, "{report}");
    assert!(finding.schedule.steps() <= steps_max, "{report}");
}

#[test]
fn a_property_is_checked_after_every_step() {
    check_holds("always \"short\": forall l in log nodes: len(l.received) <= 4");
    let long = Cause::Always("short".to_owned());
    check_violated(
        "always \"short\": forall l in log nodes: len(l.received) <= 1",
        &long,
        "l = log, len(l.received) = 2",
        3,
    );
}

#[test]
fn goals_are_counted() {
    check_holds("sometimes \"full\": exists l in log nodes: len(l.received) == 4");
    let report = explore("sometimes \"too full\": exists l in log nodes: len(l.received) == 5");
    assert_eq!(report.missed_goals().count(), 1, "{report}");
}

/// A message under way explains the difference; without one there is none.
#[test]
fn scopes_are_honoured() {
    let property = "always \"nothing is lost\" when all quiet: \
         forall l in log nodes, r in relay nodes: len(l.received) == 2 + r.passed";
    check_holds(property);
    let everywhere = explore(
        "always \"nothing is lost\": \
         forall l in log nodes, r in relay nodes: len(l.received) == 2 + r.passed",
    );
    assert!(everywhere.finding().is_some(), "{everywhere}");
}

#[test]
fn what_is_owed_is_judged_in_the_end() {
    check_holds("eventually \"all arrive\": forall l in log nodes: len(l.received) == 4");
    let report = explore("eventually \"more arrive\": forall l in log nodes: len(l.received) == 5");
    let cause = &report.finding().expect("they never do").failure.cause;
    assert_eq!(*cause, Cause::Liveness("more arrive".to_owned()), "{report}");
    // Three are there at some point, but not at the end.
    check_holds("eventually \"three arrive\": forall l in log nodes: len(l.received) == 3");
    let report = explore("finally \"three arrive\": forall l in log nodes: len(l.received) == 3");
    let cause = &report.finding().expect("four are there at the end").failure.cause;
    assert_eq!(*cause, Cause::Finally("three arrive".to_owned()), "{report}");
    check_holds("finally \"all arrived\": forall l in log nodes: len(l.received) == 4");
}

#[test]
fn an_exhaustive_search_checks_the_same() {
    let search = Search::Exhaustive { reduction: everhold_sim::Reduction::Auto };
    let report = Explorer::new().search(search).run(|system| {
        build(system);
        system.property(
            "always \"21 is not first\": forall l in log nodes: not ([21] prefix of l.received)",
        );
    });
    let finding = report.finding().expect("it can be first");
    assert_eq!(finding.schedule.steps(), 2, "{report}");
}

/// Errors are all shown at once, with their places.
#[test]
fn a_wrong_property_is_refused() {
    let result = std::panic::catch_unwind(|| {
        explore("always \"a\": forall n in nodes n.x == 1\nalways \"b\": forall in nodes: 1 +")
    });
    let text = *result.expect_err("it is refused").downcast::<String>().expect("a text");
    assert!(text.contains("language.rs"), "{text}");
    assert!(text.matches("error").count() >= 2, "{text}");
}

/// The search would judge it in full, against its own words.
#[test]
fn a_sampled_property_is_refused_by_name() {
    let sampled = || explore("always \"rare\" every 100ms: forall l in log nodes: true");
    let result = std::panic::catch_unwind(sampled);
    let text = *result.expect_err("it is refused").downcast::<String>().expect("a text");
    assert!(text.contains("`every 100ms` in \"rare\" is for a watch"), "{text}");
}

#[test]
fn an_unknown_field_is_mentioned() {
    let report = explore("always \"short\": forall l in log nodes: len(l.recieved) <= 9");
    assert!(report.problems.iter().any(|problem| problem.contains("recieved")), "{report}");
}

/// Beats; on a shared clock time is what the property says it is.
#[derive(Clone, Serialize)]
struct Beater {
    beats: u32,
    every: u64,
}

impl Node for Beater {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("beat", Duration::from_millis(self.every));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.beats += 1;
        cx.set_timer("beat", Duration::from_millis(self.every));
    }
}

#[test]
fn time_counts_on_a_shared_clock() {
    let run = |every: u64| {
        Explorer::new().executions(200).steps(50).run(move |system: &mut System<Msg>| {
            system.clocks(Clocks::Shared);
            system.node("slow", Beater { beats: 0, every });
            system.node("fast", Beater { beats: 0, every: 1 });
            system.property("eventually \"the slow one beats\" within 20ms: forall s in slow nodes: s.beats > 0");
        })
    };
    assert!(run(10).findings.is_empty());
    assert!(run(40).finding().is_some());
}
