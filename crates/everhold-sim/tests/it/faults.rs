//! Every fault happens, within its budget, and shrinks away when it is not needed.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Clocks, Explorer, Faults, Report, Search, System};
use serde::Serialize;

use crate::toys::{Log, Msg, Sender};

/// Both a strategy that samples and the one that tries everything must see each fault.
fn searches() -> [Search; 4] {
    [Search::Random, Search::Pct { depth: 3 }, Search::Pos, Search::Portfolio]
}

fn explore(search: Search, setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) -> Report {
    Explorer::new().executions(3_000).steps(60).search(search).run(setup)
}

/// With these faults the log can receive exactly these, sooner or later.
#[track_caller]
fn check(faults: &Faults, possible: &[&[Msg]], impossible: &[&[Msg]]) {
    for search in searches() {
        let (faults, wanted) =
            (faults.clone(), possible.iter().map(|p| p.to_vec()).collect::<Vec<_>>());
        let never: Vec<Vec<Msg>> = impossible.iter().map(|p| p.to_vec()).collect();
        let report = explore(search, move |system| {
            let log = system.node("log", Log::default());
            system.node("sender", Sender { to: vec![(log, 1), (log, 2)] });
            system.faults(faults.clone());
            for (at, outcome) in wanted.clone().into_iter().enumerate() {
                system.sometimes(&format!("outcome {at}"), move |s| {
                    s.in_flight().next().is_none()
                        && s.get::<Log>(log).is_some_and(|log| log.received == outcome)
                });
            }
            let never = never.clone();
            system.always("within the budget", move |s| {
                let quiet = s.in_flight().next().is_none();
                s.get::<Log>(log).is_none_or(|log| !quiet || !never.contains(&log.received))
            });
        });
        assert!(report.findings.is_empty(), "{report}");
        assert_eq!(report.missed_goals().count(), 0, "{report}");
    }
}

#[test]
fn without_faults_everything_arrives_once() {
    check(&Faults::none(), &[&[1, 2], &[2, 1]], &[&[1, 1], &[2, 2]]);
}

#[test]
fn messages_are_lost() {
    check(&Faults::none().lose(1), &[&[1], &[2], &[1, 2]], &[&[1, 1]]);
    check(&Faults::none().lose(2), &[&[], &[1], &[2]], &[]);
}

#[test]
fn messages_are_duplicated() {
    let twice: &[&[Msg]] = &[&[1, 1, 2], &[1, 2, 1], &[2, 2, 1]];
    check(&Faults::none().duplicate(1), twice, &[&[1, 1, 1], &[1, 1, 2, 2]]);
}

#[test]
fn a_crash_empties_the_memory() {
    let outcomes: &[&[Msg]] = &[&[1, 2], &[2], &[1], &[]];
    check(&Faults::none().crash(1).only(["log"]), outcomes, &[&[1, 1]]);
}

#[test]
fn a_delayed_message_comes_last() {
    check(&Faults::none().delay(1), &[&[1, 2], &[2, 1]], &[&[1], &[1, 1]]);
}

#[test]
fn a_stopped_node_stays_away() {
    for search in searches() {
        let report = explore(search, |system| {
            let log = system.node("log", Log::default());
            system.node("sender", Sender { to: vec![(log, 1)] });
            system.faults(Faults::none().stop(1).only(["log"]));
            system.sometimes("it is gone", move |s| !s.is_up(log));
        });
        assert_eq!(report.missed_goals().count(), 0, "{report}");
    }
}

/// A ring of three that counts what it hears from its left neighbour.
#[derive(Clone, Serialize)]
struct Neighbour {
    next: NodeId,
    heard: u32,
    beats: u32,
}

impl Node for Neighbour {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("beat", Duration::from_millis(10));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.heard += 1;
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.beats += 1;
        cx.send(self.next, 0);
        if self.beats < 8 {
            cx.set_timer("beat", Duration::from_millis(10));
        }
    }
}

#[test]
fn partitions_cut_and_heal() {
    for search in searches() {
        let report = explore(search, |system| {
            for number in 0..3 {
                let next = NodeId((number + 1) % 3);
                system.node("neighbour", Neighbour { next, heard: 0, beats: 0 });
            }
            system.faults(Faults::none().partition(1));
            let heard = |s: &everhold_sim::View<'_, Msg>, node: u32| {
                s.get::<Neighbour>(NodeId(node)).map_or(0, |n| n.heard)
            };
            system.sometimes("one is cut off while the others talk", move |s| {
                heard(s, 0) == 0 && heard(s, 1) + heard(s, 2) > 6
            });
            system.sometimes("everything arrives in the end", move |s| {
                (0..3).map(|node| heard(s, node)).sum::<u32>() == 24
            });
        });
        assert!(report.findings.is_empty(), "{report}");
        assert_eq!(report.missed_goals().count(), 0, "{report}");
        assert!(report.coverage.faults.iter().sum::<u64>() > 0);
    }
}

/// Remembers the largest step of its clock between two beats.
#[derive(Clone, Default, Serialize)]
struct Watcher {
    last: u64,
    leaps: u32,
    back: u32,
    beats: u32,
}

impl Node for Watcher {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("beat", Duration::from_millis(1));
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        let now = cx.now().0;
        self.leaps += u32::from(now > self.last + 400_000_000);
        self.back += u32::from(now < self.last);
        (self.last, self.beats) = (now, self.beats + 1);
        if self.beats < 20 {
            cx.set_timer("beat", Duration::from_millis(1));
        }
    }
}

#[test]
fn clocks_jump_both_ways() {
    let report = explore(Search::Portfolio, |system| {
        let node = system.node("watcher", Watcher::default());
        system.faults(Faults::none().clock_skew(2, Duration::from_secs(1)));
        system.sometimes("forward", move |s| s.get::<Watcher>(node).is_some_and(|w| w.leaps > 0));
        system.sometimes("back", move |s| s.get::<Watcher>(node).is_some_and(|w| w.back > 0));
    });
    assert_eq!(report.missed_goals().count(), 0, "{report}");
}

/// On shared clocks a slow timer never fires before a fast one of another node.
#[test]
fn shared_clocks_order_all_timers() {
    let build = |clocks| {
        move |system: &mut System<Msg>| {
            system.clocks(clocks);
            let log = system.node("log", Log::default());
            for (number, ms) in [(1, 10), (2, 20)] {
                system.node("alarm", Alarm { to: log, number, after: Duration::from_millis(ms) });
            }
            system.network(everhold_sim::Network::Streams);
            system.sometimes("the slow one is first", |s| {
                s.in_flight().any(|(_, _, msg)| *msg == 2)
                    && s.all::<Alarm>().count() == 2
                    && s.in_flight().all(|(_, _, msg)| *msg == 2)
                    && s.all::<Log>().all(|(_, log)| log.received.is_empty())
            });
        }
    };
    let shared = explore(Search::Random, build(Clocks::Shared));
    let independent = explore(Search::Random, build(Clocks::Independent));
    assert_eq!(shared.missed_goals().count(), 1, "{shared}");
    assert_eq!(independent.missed_goals().count(), 0, "{independent}");
}

#[derive(Clone, Serialize)]
struct Alarm {
    to: NodeId,
    number: Msg,
    after: Duration,
}

impl Node for Alarm {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("alarm", self.after);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.send(self.to, self.number);
    }
}

/// One lost message is enough; the rest of a generous budget shrinks away.
#[test]
fn needless_faults_shrink_away() {
    let report = Explorer::new().executions(5_000).run(|system: &mut System<Msg>| {
        let log = system.node("log", Log::default());
        let to = (0..6).map(|number| (log, number)).collect();
        system.node("sender", Sender { to });
        system.faults(Faults::none().lose(3).duplicate(3).crash(2).partition(2).delay(2));
        system.always("0 is not the only one missing", move |s| {
            let quiet = s.in_flight().next().is_none();
            let received = s.get::<Log>(log).map(|log| log.received.clone());
            received.is_none_or(|r| !quiet || r.contains(&0) || r.len() < 5)
        });
    });
    let finding = report.finding().expect("0 can be lost");
    assert_eq!(finding.schedule.faults(), 1, "{report}");
    assert_eq!(finding.schedule.steps(), 6, "one loss, five deliveries: {report}");
}
