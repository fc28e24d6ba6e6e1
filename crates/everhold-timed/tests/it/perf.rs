//! Slow executions are found, named and explained; a healthy system has no findings.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::System;
use everhold_timed::perf::{
    Fired, Perf, PerfReport, PerfVerdict, VersionsVerdict, WhatIf, Why, compare_versions,
};
use everhold_timed::{Durations, Link, Net, Timed};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Msg {
    Open,
    Ask,
}

const JUDGE: NodeId = NodeId(0);
const REPAIR: Duration = Duration::from_secs(1);

/// A node that, if it is asked before it is open, remembers the request only if it is fixed;
/// otherwise a timer repairs the omission.
#[derive(Clone, Debug, Serialize)]
struct Door {
    fixed: bool,
    open: bool,
    asked: bool,
    done: bool,
}

impl Node for Door {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("repair", REPAIR);
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Open => self.open = true,
            Msg::Ask => self.asked = true,
        }
        let in_order = self.open && self.asked && (self.fixed || matches!(msg, Msg::Ask));
        self.done |= in_order;
    }
    fn timer(&mut self, _: &mut Cx<Msg>, _: Timer) {
        self.done = self.asked;
    }
}

#[derive(Clone, Debug, Serialize)]
struct Client {
    says: Msg,
}

impl Node for Client {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(JUDGE, self.says.clone());
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
}

pub(crate) fn door(fixed: bool) -> Timed<Msg> {
    Timed::new(move |system: &mut System<Msg>| {
        system.node("door", Door { fixed, open: false, asked: false, done: false });
        system.node("porter", Client { says: Msg::Open });
        system.node("guest", Client { says: Msg::Ask });
    })
    .durations(Durations::uniform(Duration::from_micros(20), Duration::from_micros(200)))
    .stop_when(|view| view.get::<Door>(JUDGE).is_some_and(|door| door.done))
}

/// Ignores regressions files: these tests make their own findings.
fn perf(timed: Timed<Msg>) -> Perf<Msg> {
    Perf::new(timed).executions(100).regressions(false)
}

/// About half of 100 executions are slow: the probability that none or nearly all are is below
/// 1e-20.
fn found() -> PerfReport {
    perf(door(false)).run()
}

#[test]
fn a_masked_bug_is_found_named_and_explained() {
    let report = found();
    assert_eq!(report.verdict(), PerfVerdict::Slow, "{report}");
    assert_eq!(report.findings.len(), 1, "{report}");
    let finding = report.finding().expect("there is one");
    assert_eq!(finding.signature.why, Why::Timer);
    assert_eq!(finding.signature.timers, ["timer repair"]);
    let fit = report.detection.multiples.as_ref().expect("the timer is named");
    assert_eq!((fit.timer.name.as_str(), fit.timer.period), ("repair", 1.0));
    assert!(report.detection.fired.contains(&Fired::Gap), "{report}");
    let because = finding.because().expect("one message decides");
    assert!(
        because.contains("because Open porter → door arrived after Ask guest → door"),
        "{because}\n{report}"
    );
    assert_eq!(finding.causes.rescuing, 2, "{report}");
}

#[test]
fn the_chance_falls_where_the_race_is_decided() {
    let report = found();
    let finding = report.finding().expect("there is one");
    let first = finding.curve.points.first().expect("there are points").good.rate();
    assert!(first > 0.1, "{report}");
    let nearest = finding.nearest.as_ref().expect("half of the walks are fast");
    assert!(nearest.recorded.run.time < REPAIR / 2, "{report}");
}

#[test]
fn silence_where_nothing_is_wrong() {
    let report = perf(door(true)).run();
    // The Clopper-Pearson bound for 0 of 100 is 1 - 0.05^(1/100).
    assert!((report.unseen_share() - 0.029_513).abs() < 1e-5, "{report}");
    assert!(report.to_string().contains("fewer than 3.0 % of executions are slow"), "{report}");
    assert_eq!(report.verdict(), PerfVerdict::NoneSlow, "{report}");
    report.assert_fast();
}

#[test]
fn few_executions_prove_nothing() {
    let report = perf(door(true)).executions(10).run();
    assert_eq!(report.verdict(), PerfVerdict::Unknown, "{report}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let alone = perf(door(false)).workers(1).name("door").run();
    let together = perf(door(false)).workers(3).name("door").run();
    assert_eq!(alone.data(), together.data());
    assert!(alone.data().contains("\"verdict\":\"slow\""));
}

#[test]
fn findings_replay() {
    let report = found();
    let finding = report.finding().expect("there is one");
    let again = perf(door(false)).replay(finding.slow.draws.clone()).run();
    let replayed = again.replayed.as_ref().expect("it was asked for");
    assert_eq!(replayed.slow.run.time, finding.slow.run.time);
    assert_eq!(replayed.slow.events, finding.slow.events);
    // The replay gives the same finding with the same explanation.
    assert_eq!(again.verdict(), PerfVerdict::Slow, "{again}");
    let found = again.finding().expect("it is slow again");
    assert_eq!((found.id(), &found.signature), (finding.id(), &finding.signature));
    assert_eq!((found.because(), found.seen), (finding.because(), finding.seen));
    // Without the bug the same draws are fast, and the report says so.
    let fixed = perf(door(true)).replay(finding.slow.draws.clone()).run();
    assert_eq!(fixed.verdict(), PerfVerdict::Unknown, "{fixed}");
    assert!(fixed.to_string().contains("replayed one execution, which is not slow"), "{fixed}");
}

/// Half of the executions are slow, so the quartiles are far apart and MacePC's rule flags none.
#[test]
fn the_baseline_is_blind_where_many_are_slow() {
    let report = perf(door(false)).mace(50, 20).run();
    let mace = report.mace.as_ref().expect("it was asked for");
    assert_eq!(mace.anomaly, None, "{report}");
    assert_eq!(mace.frequencies[0].kind, "timer repair", "{report}");
}

#[test]
fn what_if_a_link_were_slower() {
    let slower = WhatIf::link(NodeId(2), JUDGE, 2_000);
    let report = perf(door(false)).what_if(slower).run();
    let answer = report.what_if.first().expect("it was asked for");
    assert!(answer.comparison.faster > answer.comparison.slower, "{report}");
}

#[test]
fn versions_are_compared_on_the_same_seeds() {
    let found = compare_versions(&door(false), &door(true), 100);
    assert_eq!(
        (found.verdict(), found.comparison.pairs),
        (VersionsVerdict::Slower, 100),
        "{found:?}"
    );
    let seeds = found.comparison;
    assert!(seeds.faster == 0 && seeds.slower > 20 && seeds.p_value < 0.001, "{found:?}");
    let reversed = compare_versions(&door(true), &door(false), 100);
    assert_eq!(reversed.verdict(), VersionsVerdict::NotSlower, "{reversed:?}");
}

/// The verdict on a system that cannot be analysed is unknown, with the unmet part of the
/// condition.
#[test]
fn what_never_ends_is_unknown_and_says_what_is_missing() {
    let idle = || {
        Timed::new(|system: &mut System<Msg>| {
            system.node("idle", Idle);
        })
    };
    let short = |timed: Timed<Msg>| timed.time_max(Duration::from_secs(5));
    let table: [(Timed<Msg>, &[&str]); 4] = [
        (door(true).stop_when(|_| false), &["nothing could happen any more"]),
        (
            short(door(true).stop_when(|_| false).stop_when_each(|door: &Door| !door.open)),
            &["still missing: 1 of 3 nodes (door)"],
        ),
        (idle().stop_when(|_| false), &["does the system do anything?"]),
        (door(true).stop_when(|_| false).events_max(3), &["the limit of events was reached"]),
    ];
    for (timed, says) in table {
        let report = perf(timed).executions(20).run();
        assert_eq!(report.verdict(), PerfVerdict::Unknown, "{report}");
        // The executions that were run are still in the report.
        assert_eq!(report.detection.times.len(), 20, "{report}");
        for part in says {
            assert!(report.to_string().contains(part), "{part} is not in\n{report}");
        }
    }
}

/// Invalid settings are refused before anything runs, with the remedy.
#[test]
fn what_makes_no_sense_is_refused() {
    let link = |link: Link| door(true).network(Net::default().link(link));
    let table: [(Perf<Msg>, &str); 7] = [
        (
            perf(link(Link::default().mbits(0.0))),
            "bandwidth of 0 Mbit/s; it must be more than zero",
        ),
        (perf(link(Link::default().mbits(-8.0))), "bandwidth of -8 Mbit/s"),
        (perf(link(Link::default().loss(1.5))), "loses 1.5 of its messages"),
        (perf(Timed::new(|_| {})), "no stopping condition; say when an execution is done"),
        (perf(door(true)).executions(0), "at least 1 execution"),
        (perf(door(true)).workers(0), "at least 1 worker"),
        (perf(door(true)).smaller(link(Link::default().mbits(0.0))), "more than zero"),
    ];
    for (perf, says) in table {
        let run = std::panic::AssertUnwindSafe(|| perf.run());
        let refused = std::panic::catch_unwind(run).expect_err(says);
        let message = refused.downcast_ref::<String>().expect("a text");
        assert!(message.contains(says), "{says} is not in {message}");
    }
}

#[derive(Clone, Debug, Serialize)]
struct Idle;

impl Node for Idle {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
}

#[test]
fn out_of_time_keeps_what_was_done() {
    let report = perf(door(false)).time(Duration::from_nanos(1)).run();
    assert_eq!(report.verdict(), PerfVerdict::Unknown);
    assert!(report.to_string().contains("out of time"), "{report}");
}

/// A user that sends a request at once or thinks first.
#[derive(Clone, Debug, Serialize)]
struct User;

impl Node for User {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        match cx.random() % 2 {
            0 => cx.send(JUDGE, Msg::Ask),
            _ => cx.set_timer("think", Duration::from_millis(700)),
        }
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.send(JUDGE, Msg::Ask);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
}

fn visited(fixed: bool, marked: bool) -> PerfReport {
    let timed = Timed::new(move |system: &mut System<Msg>| {
        let door = Door { fixed, open: false, asked: false, done: false };
        system.node("door", door);
        system.node("porter", Client { says: Msg::Open });
        system.node("user", User);
        if marked {
            system.load("user");
        }
    })
    .durations(Durations::uniform(Duration::from_micros(20), Duration::from_micros(200)))
    .stop_when(|view| view.get::<Door>(JUDGE).is_some_and(|door| door.done));
    perf(timed).run()
}

/// A user that thinks is not a fault of the system, once it is marked as load. Half of the 100
/// executions contain thinking: the probability that none or nearly all do is below 1e-20.
#[test]
fn load_generators_are_not_blamed() {
    let blamed = visited(true, false);
    assert_eq!(blamed.finding().expect("it is slow").signature.timers, ["timer think"], "{blamed}");
    let spared = visited(true, true);
    assert_eq!(spared.verdict(), PerfVerdict::NoneSlow, "{spared}");
    assert!(spared.detection.times.quantile(1.0) < 0.5, "thinking is not counted: {spared}");
    assert!(spared.timers.iter().all(|timer| timer.name != "think"), "{spared}");
}

/// The system's own slowness is still found, and the user's request is not named as its cause.
#[test]
fn load_generators_do_not_hide_what_is_slow() {
    let report = visited(false, true);
    let finding = report.finding().expect("the door forgets who came early");
    assert_eq!(finding.signature.timers, ["timer repair"], "{report}");
    assert!(!finding.causes.rescues.is_empty(), "{report}");
    for rescue in &finding.causes.rescues {
        assert_eq!(rescue.message, "Open porter → door", "{report}");
    }
    for fall in &finding.curve.falls {
        let user = finding.slow.events.get(fall.event).map(|event| event.node) == Some(NodeId(2));
        assert!(!user, "the user's own event is blamed: {report}");
    }
}
