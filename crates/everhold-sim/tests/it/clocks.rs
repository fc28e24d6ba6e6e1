//! Clocks that are tied to a true time: shared, or drifting within a bound and no further.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::rng::Rng;
use everhold_sim::{
    Choice, Clocks, Explorer, Reduction, Report, Schedule, Search, SimVerdict, Stop, System,
};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
enum Msg {
    Ask,
    Grant,
}

/// Lends something to one client at a time, for ten seconds on its own clock.
#[derive(Clone, Default, Serialize)]
struct Lender {
    lent: bool,
    line: Vec<NodeId>,
}

impl Lender {
    fn lend(&mut self, cx: &mut Cx<Msg>) {
        if !self.lent && !self.line.is_empty() {
            self.lent = true;
            cx.send(self.line.remove(0), Msg::Grant);
            cx.set_timer("back", Duration::from_secs(10));
        }
    }
}

impl Node for Lender {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, _: Msg) {
        self.line.push(from);
        self.lend(cx);
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.lent = false;
        self.lend(cx);
    }
}

/// Uses what it is lent for nine seconds on its own clock, counted from its question.
#[derive(Clone, Serialize)]
struct Client {
    lender: NodeId,
    over: bool,
    uses: bool,
}

impl Node for Client {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(self.lender, Msg::Ask);
        cx.set_timer("over", Duration::from_secs(9));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.uses = !self.over;
    }
    fn timer(&mut self, _: &mut Cx<Msg>, _: Timer) {
        (self.over, self.uses) = (true, false);
    }
}

/// Asks five seconds later, and keeps what it is lent.
#[derive(Clone, Serialize)]
struct Late {
    lender: NodeId,
    uses: bool,
}

impl Node for Late {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("ask", Duration::from_secs(5));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.uses = true;
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.send(self.lender, Msg::Ask);
    }
}

fn lease(clocks: Clocks) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let lender = system.node("lender", Lender::default());
        let first = system.node("client", Client { lender, over: false, uses: false });
        let second = system.node("late", Late { lender, uses: false });
        system.clocks(clocks);
        system.always("one user at a time", move |s| {
            let first = s.get::<Client>(first).is_some_and(|client| client.uses);
            !(first && s.get::<Late>(second).is_some_and(|late| late.uses))
        });
    }
}

fn exhaust(clocks: Clocks) -> Report {
    let search = Search::Exhaustive { reduction: Reduction::States };
    Explorer::new().search(search).executions(1_000_000).regressions(false).run(lease(clocks))
}

/// A lease of nine seconds of ten is safe while a slow clock and a fast one differ by less: with
/// 5 % they show 9 s in 9.47 s and 10 s in 9.52 s, with 6 % in 9.57 s and in 9.43 s.
#[test]
fn a_lease_is_safe_within_the_drift_that_it_allows_for() {
    let drift = |max_ppm| Clocks::Drift { max_ppm };
    let cases = [
        (Clocks::Shared, SimVerdict::Holds),
        (drift(0), SimVerdict::Holds),
        (drift(50_000), SimVerdict::Holds),
        (drift(60_000), SimVerdict::Violated),
        (drift(300_000), SimVerdict::Violated),
        (Clocks::Independent, SimVerdict::Violated),
    ];
    for (clocks, verdict) in cases {
        let report = exhaust(clocks);
        assert_eq!(report.verdict(), verdict, "{clocks:?}: {report}");
    }
}

#[test]
fn drift_is_found_shrunk_and_replayed_whatever_the_workers() {
    let clocks = Clocks::Drift { max_ppm: 60_000 };
    let run = |workers| Explorer::new().workers(workers).regressions(false).run(lease(clocks));
    let (one, two) = (run(1), run(2));
    let finding = one.finding().expect("drift breaks the lease");
    assert_eq!(finding.schedule, two.finding().expect("drift breaks the lease").schedule);
    let rates: Vec<(NodeId, u32)> = finding
        .schedule
        .choices
        .iter()
        .filter_map(|choice| match choice {
            Choice::Choose { node, label, value, .. } if label == "clock rate" => {
                Some((*node, *value))
            }
            _ => None,
        })
        .filter(|(_, value)| *value > 0)
        .collect();
    assert_eq!(rates, [(NodeId(0), 2), (NodeId(1), 1)], "a fast lender and a slow client: {one}");
    let token = Schedule::parse(&finding.schedule.token()).expect("a token can be read");
    let again = Explorer::new().regressions(false).replay(token).run(lease(clocks));
    assert_eq!(again.verdict(), SimVerdict::Violated, "{again}");
    assert!(one.to_string().contains("60000 ppm fast"), "{one}");
}

#[test]
#[should_panic(expected = "would stop a clock")]
fn a_clock_that_stands_still_is_refused() {
    let _ = exhaust(Clocks::Drift { max_ppm: 1_000_000 });
}

/// Starts a child in the middle of an execution.
#[derive(Clone, Default, Serialize)]
struct Parent {
    late: bool,
}

#[derive(Clone, Default, Serialize)]
struct Child {
    fired: bool,
}

impl Node for Parent {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("spawn", Duration::from_secs(10));
        cx.set_timer("after", Duration::from_secs(12));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "spawn" => {
                cx.spawn("child", Child::default());
            }
            _ => self.late = true,
        }
    }
}

impl Node for Child {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        assert!(cx.now().0 >= 10_000_000_000, "the child begins with the time of the others");
        cx.set_timer("fire", Duration::from_secs(5));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, _: &mut Cx<Msg>, _: Timer) {
        self.fired = true;
    }
}

/// Before, a child began at zero, and its timer of five seconds fired before the twelfth second.
#[test]
fn a_node_that_comes_later_has_the_time_of_the_others() {
    let search = Search::Exhaustive { reduction: Reduction::None };
    let report =
        Explorer::new().search(search).regressions(false).run(|system: &mut System<Msg>| {
            system.clocks(Clocks::Shared);
            system.node("parent", Parent::default());
            system.always("the child fires in the fifteenth second", |s| {
                let late = s.all::<Parent>().all(|(_, parent)| parent.late);
                late || s.all::<Child>().all(|(_, child)| !child.fired)
            });
            system.sometimes("the child fires", |s| s.all::<Child>().any(|(_, c)| c.fired));
        });
    assert_eq!(report.verdict(), SimVerdict::Holds, "{report}");
    assert_eq!(report.missed_goals().count(), 0, "{report}");
}

/// Ticks a few times, notifies another node of each tick, and sets one more timer when it first
/// hears of one: at every timer it writes down how much it has heard.
#[derive(Clone, Serialize)]
struct Wheel {
    ticks: u32,
    length: u64,
    to: NodeId,
    heard: u32,
    seen: Vec<u32>,
}

impl Node for Wheel {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("tick", Duration::from_secs(self.length));
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.heard += 1;
        if self.heard == 1 {
            cx.set_timer("late", Duration::from_secs(self.length));
        }
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        self.seen.push(self.heard);
        if timer.name == "tick" && self.ticks > 0 {
            self.ticks -= 1;
            cx.send(self.to, Msg::Ask);
            cx.set_timer("tick", Duration::from_secs(self.length));
        }
    }
}

type Visited = BTreeSet<Vec<(u32, Vec<u32>)>>;

/// Every state of all wheels that a search visits; `None` if there are too many executions.
fn visited(reduction: Reduction, seed: u64) -> Option<Visited> {
    let visited = Arc::new(Mutex::new(Visited::new()));
    let collect = Arc::clone(&visited);
    let search = Search::Exhaustive { reduction };
    let report = Explorer::new().search(search).executions(20_000).regressions(false).run(
        move |system: &mut System<Msg>| {
            let mut rng = Rng::new(seed);
            let drift = Clocks::Drift { max_ppm: 250_000 };
            system.clocks(if rng.below(3) == 0 { drift } else { Clocks::Shared });
            let count = 2 + rng.below(2);
            for _ in 0..count {
                let (ticks, length) = (rng.below(3), u64::from(2 + rng.below(4)));
                let to = NodeId(rng.below(count));
                system.node("wheel", Wheel { ticks, length, to, heard: 0, seen: Vec::new() });
            }
            let collect = Arc::clone(&collect);
            system.always("states are collected", move |s| {
                let wheels = s.all::<Wheel>().map(|(_, w)| (w.heard, w.seen.clone()));
                collect.lock().unwrap().insert(wheels.collect());
                true
            });
        },
    );
    let visited = visited.lock().unwrap().clone();
    (report.stop == Stop::Exhausted).then_some(visited)
}

/// A comparison with the search without reduction. Before, states that differed only in the time
/// left on timers were taken for one.
#[test]
fn states_on_tied_clocks_are_told_apart_by_the_time_that_is_left() {
    let mut compared = 0;
    for seed in 0..120 {
        let Some(plain) = visited(Reduction::None, seed) else { continue };
        compared += 1;
        let states = visited(Reduction::States, seed).expect("fewer than without");
        assert_eq!(states, plain, "seed {seed}");
    }
    assert!(compared > 60, "{compared} systems are small enough");
}
