//! The limits of the explorer. Each test asserts today's answer and fails on the day it changes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use everhold_node::{AsyncCx, Cx, Monitor, Node, NodeId, Timer};
use everhold_sim::{
    Bounds, Clocks, CrashModel, Explorer, Faults, Reduction, Search, SimVerdict, Stop, System,
};
use serde::Serialize;

use crate::toys::{Log, Msg, Sender};

/// A random number is drawn, not explored: an exhaustive search sees one value of it.
#[test]
fn random_numbers_are_not_enumerated() {
    #[derive(Clone, Default, Serialize)]
    struct Dice {
        rolled: Option<u64>,
    }
    impl Node for Dice {
        type Msg = Msg;
        fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
            self.rolled = Some(cx.random() % 6);
        }
    }
    let search = Search::Exhaustive { reduction: Reduction::None };
    let report = Explorer::new().search(search).run(|system: &mut System<Msg>| {
        let dice = system.node("dice", Dice::default());
        system.node("sender", Sender { to: vec![(dice, 0)] });
        for number in 0..6 {
            system.sometimes(&format!("{number} is rolled"), move |s| {
                s.get::<Dice>(dice).is_some_and(|dice| dice.rolled == Some(number))
            });
        }
    });
    assert_eq!(report.stop, Stop::Exhausted);
    assert_eq!(report.missed_goals().count(), 5, "{report}");
}

/// Clocks are not part of a state's fingerprint, since their values never recur: a search that
/// distinguishes states takes two moments for one if the node remembers nothing of the time.
#[test]
fn states_at_different_times_are_one_state() {
    #[derive(Clone, Serialize)]
    struct Ticker;
    impl Node for Ticker {
        type Msg = Msg;
        fn start(&mut self, cx: &mut Cx<Msg>) {
            cx.set_timer("tick", Duration::from_millis(1));
        }
        fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
        fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
            assert!(cx.now().0 < 5_000_000, "it is late");
            cx.set_timer("tick", Duration::from_millis(1));
        }
    }
    let run = |reduction| {
        let search = Search::Exhaustive { reduction };
        let explorer = Explorer::new().search(search).steps(20);
        explorer.run(|system: &mut System<Msg>| {
            system.node("ticker", Ticker);
        })
    };
    assert!(run(Reduction::States).findings.is_empty(), "missed");
    assert!(!run(Reduction::None).findings.is_empty(), "found");
}

/// Remembers the first number that it received, hidden or shown, and speaks of it later.
#[derive(Clone, Default, Serialize)]
struct Memory {
    received: u32,
    #[serde(skip)]
    first: u32,
    shown: Option<u32>,
    shows: bool,
}

impl Node for Memory {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, number: Msg) {
        if self.received == 0 {
            self.first = number;
            self.shown = self.shows.then_some(number);
        }
        self.received += 1;
        if self.received == 2 {
            cx.set_timer("later", Duration::from_millis(1));
        }
    }
    fn timer(&mut self, _: &mut Cx<Msg>, _: Timer) {
        assert!(self.first == 1, "the wrong number was first");
    }
}

/// Does something a thousand times, which it counts hidden or shown.
#[derive(Clone, Default, Serialize)]
struct Worker {
    #[serde(skip)]
    done: u32,
    shown: Option<u32>,
    shows: bool,
}

impl Node for Worker {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("work", Duration::from_millis(1));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.done += 1;
        self.shown = self.shows.then_some(self.done);
        cx.set_timer("work", Duration::from_millis(1));
    }
}

/// Hidden parts of a state do not tell states apart: a search misses what depends on them, and hidden
/// progress looks like a round.
#[test]
fn hidden_state_tells_no_states_apart() {
    let searched = |shows| {
        let search = Search::Exhaustive { reduction: Reduction::States };
        Explorer::new().search(search).regressions(false).run(move |system: &mut System<Msg>| {
            let memory = system.node("memory", Memory { shows, ..Memory::default() });
            system.node("sender", Sender { to: vec![(memory, 1), (memory, 2)] });
        })
    };
    assert_eq!(searched(false).verdict(), SimVerdict::Holds, "missed");
    assert!(!searched(true).findings.is_empty(), "found");
    let judged = |shows| {
        let bounds = Bounds { steps_max: 20, ..Bounds::default() };
        let explorer = Explorer::new().executions(5).bounds(bounds).regressions(false);
        explorer.run(move |system: &mut System<Msg>| {
            system.node("worker", Worker { shows, ..Worker::default() });
            system.eventually("all is done", |s| s.all::<Worker>().all(|(_, w)| w.done >= 1_000));
        })
    };
    assert!(!judged(false).findings.is_empty(), "a false alarm");
    assert!(judged(true).findings.is_empty(), "none where the state shows the progress");
}

/// Reducing orders keeps the states of each node, not their combinations.
#[test]
fn reduced_orders_miss_combinations_of_states() {
    let run = |reduction| {
        let search = Search::Exhaustive { reduction };
        Explorer::new().search(search).run(|system: &mut System<Msg>| {
            for _ in 0..2 {
                let log = system.node("log", Log::default());
                system.node("sender", Sender { to: vec![(log, 1)] });
            }
            system.always("the second never hears before the first", |s| {
                let heard: Vec<bool> =
                    s.all::<Log>().map(|(_, log)| !log.received.is_empty()).collect();
                heard[0] || !heard[1]
            });
        })
    };
    assert!(run(Reduction::Orders).findings.is_empty(), "missed, as documented");
    assert!(!run(Reduction::Auto).findings.is_empty(), "so Auto does not use it here");
}

/// The effects of a handler through its context are bounded, its messages with the data to which they
/// point. The memory that it allocates by itself is not: nothing is reported until memory runs out.
#[test]
fn memory_that_a_handler_takes_is_not_bounded() {
    #[derive(Clone, Default, Serialize)]
    struct Hoarder {
        #[serde(skip)]
        hoard: Vec<u8>,
    }
    impl Node for Hoarder {
        type Msg = Vec<u8>;
        fn message(&mut self, cx: &mut Cx<Vec<u8>>, _: NodeId, msg: Vec<u8>) {
            self.hoard.resize(64 << 20, 1);
            let me = cx.id();
            if msg.is_empty() {
                cx.send(me, vec![1; 8 << 20]);
            }
        }
    }
    #[derive(Clone, Serialize)]
    struct Starter(NodeId);
    impl Node for Starter {
        type Msg = Vec<u8>;
        fn start(&mut self, cx: &mut Cx<Vec<u8>>) {
            cx.send(self.0, Vec::new());
        }
        fn message(&mut self, _: &mut Cx<Vec<u8>>, _: NodeId, _: Vec<u8>) {}
    }
    let explorer = Explorer::new().executions(2).workers(1);
    let report = explorer.run(|system: &mut System<Vec<u8>>| {
        let hoarder = system.node("hoarder", Hoarder::default());
        system.node("starter", Starter(hoarder));
    });
    assert!(report.findings.is_empty(), "{report}");
}

/// Counts its own ticks, up to a number and then from zero again.
#[derive(Clone, Serialize)]
struct Counter {
    ticks: u32,
    from_zero_at: u32,
}

impl Node for Counter {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("tick", Duration::from_millis(1));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.ticks = (self.ticks + 1) % self.from_zero_at;
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        let me = cx.id();
        cx.send(me, 0);
        cx.set_timer("tick", Duration::from_millis(1));
    }
}

/// A correct system that needs more steps than the patience allows for is a false alarm.
#[test]
fn patience_ends_before_a_slow_system_is_done() {
    let run = |temperature_max| {
        let bounds = Bounds { steps_max: 20, temperature_max };
        let explorer = Explorer::new().executions(5).bounds(bounds).regressions(false);
        explorer.run(|system: &mut System<Msg>| {
            system.node("counter", Counter { ticks: 0, from_zero_at: u32::MAX });
            system.eventually("it has counted to 1,000", |s| {
                s.all::<Counter>().all(|(_, counter)| counter.ticks >= 1_000)
            });
        })
    };
    assert!(!run(300).findings.is_empty(), "a false alarm");
    assert!(run(3_000).findings.is_empty(), "with more patience there is none");
}

/// A `finally` that is true at times and false at times is judged only if a state recurs.
#[test]
fn flickering_without_a_round_is_not_judged() {
    let run = |from_zero_at| {
        let bounds = Bounds { steps_max: 20, temperature_max: 300 };
        let explorer = Explorer::new().executions(5).bounds(bounds).regressions(false);
        explorer.run(move |system: &mut System<Msg>| {
            system.node("counter", Counter { ticks: 0, from_zero_at });
            system.finally("the number is even", |s| {
                s.all::<Counter>().all(|(_, counter)| counter.ticks % 2 == 0)
            });
        })
    };
    let growing = run(u32::MAX);
    assert!(growing.findings.is_empty(), "missed: {growing}");
    assert_eq!(growing.unjudged, growing.executions, "{growing}");
    assert!(!run(4).findings.is_empty(), "found");
}

/// A read and a write without a wait in between are one step: that another thread writes in between
/// is never tried. With a wait in between, it is found.
#[test]
fn races_within_a_step_are_not_seen() {
    async fn add(cx: AsyncCx<Msg>, total: Rc<Cell<u32>>, done: Rc<Cell<u32>>, waits: bool) {
        let read = total.get();
        if waits {
            cx.sleep(Duration::from_millis(1)).await;
        }
        total.set(read + 1);
        done.set(done.get() + 1);
        let lost = done.get() - total.get();
        cx.check(lost == 0, "no update is lost", || lost.to_string());
    }
    let run = |waits: bool| {
        Explorer::new().executions(200).regressions(false).run(move |system: &mut System<Msg>| {
            system.spawn("adder", move |cx: AsyncCx<Msg>| async move {
                let (total, done) = (Rc::default(), Rc::default());
                for _ in 0..2 {
                    cx.spawn(add(cx.clone(), Rc::clone(&total), Rc::clone(&done), waits));
                }
            });
        })
    };
    assert!(run(false).findings.is_empty(), "missed");
    assert!(!run(true).findings.is_empty(), "found");
}

/// Tells which of its timers fires.
#[derive(Clone, Serialize)]
struct Alarm {
    timers: Vec<(&'static str, u64)>,
}

#[derive(Clone, Debug)]
struct Rings(&'static str);

impl Node for Alarm {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        for (name, millis) in &self.timers {
            cx.set_timer(*name, Duration::from_millis(*millis));
        }
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        cx.notify(Rings(timer.name));
    }
}

/// Fails at one order of the alarms.
#[derive(Clone, Serialize)]
struct Order {
    rang: String,
    never: &'static str,
}

impl Monitor for Order {
    type Event = Rings;
    fn observe(&mut self, Rings(name): &Rings) {
        self.rang += name;
        assert_ne!(self.rang, self.never);
    }
}

/// A drifting clock is exact, or as slow or fast as is allowed, and stays so. With up to 10 %, `a`
/// could also be 4 % slow, or slow only after its first alarm: neither is tried.
#[test]
fn drift_is_constant_and_one_of_three_rates() {
    let run = |clocks: Clocks, never: &'static str| {
        let search = Search::Exhaustive { reduction: Reduction::None };
        Explorer::new().search(search).regressions(false).run(move |system: &mut System<Msg>| {
            system.clocks(clocks);
            system.node("a", Alarm { timers: vec![("a", 10_000), ("A", 20_000)] });
            let timers = vec![("b", 10_200), ("c", 10_800), ("B", 20_400)];
            system.node("b", Alarm { timers });
            system.monitor("the order", Order { rang: String::new(), never });
        })
    };
    let drift = Clocks::Drift { max_ppm: 100_000 };
    for (order, possible) in [("abcAB", true), ("bcaBA", true), ("bac", false), ("abcB", false)] {
        let report = run(drift, order);
        assert_eq!(report.findings.is_empty(), !possible, "{order}: {report}");
        assert_eq!(report.stop == Stop::Exhausted, !possible, "{order}: {report}");
        assert!(!run(Clocks::Independent, order).findings.is_empty(), "{order}");
    }
}

/// Sends twice and writes once; counts what it finds when it comes back.
#[derive(Clone, Default, Serialize)]
struct Atomic {
    torn: bool,
}

impl Node for Atomic {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(NodeId(1), 1);
        cx.send(NodeId(1), 2);
        cx.disk().write("file", 0, &[1; 512]);
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let found = cx.disk().read("file").unwrap_or_default();
        self.torn = !(found.is_empty() || found == [1; 512]);
    }
}

/// A crash falls at an operation of a disk, not between two sends; and a sector is never torn.
#[test]
fn crashes_fall_at_disks_and_sectors_are_whole() {
    let search = Search::Exhaustive { reduction: Reduction::States };
    let report = Explorer::new().search(search).run(|system: &mut System<Msg>| {
        system.faults(Faults::none().crash(1).only(["atomic"]).crash_model(CrashModel::Ext4));
        let atomic = system.node("atomic", Atomic::default());
        let log = system.node("log", Log::default());
        system.always("no sector is torn", move |s| {
            s.get::<Atomic>(atomic).is_none_or(|atomic| !atomic.torn)
        });
        system.always("both messages are sent", move |s| {
            let arrived = s.get::<Log>(log).map_or(0, |log| log.received.len());
            arrived + s.in_flight().count() == 2
        });
    });
    assert_eq!(report.verdict(), SimVerdict::Holds, "{report}");
}
