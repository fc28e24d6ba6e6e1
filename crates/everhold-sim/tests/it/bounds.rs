//! The length of executions: idle ticks do not count, and the bound follows the system.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Explorer, Report, System};
use serde::Serialize;

/// Ticks for ever, and sends a number to the next node at every so many ticks, up to a last one.
#[derive(Clone, Serialize)]
struct Ticker {
    next: NodeId,
    every: u32,
    ticks: u32,
    sent: u32,
    last: u32,
    received: u32,
}

impl Node for Ticker {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        cx.set_timer("tick", Duration::from_millis(10));
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {
        self.received += 1;
    }
    fn timer(&mut self, cx: &mut Cx<u32>, _: Timer) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(self.every) && self.sent < self.last {
            self.sent += 1;
            cx.send(self.next, self.sent);
        }
        cx.set_timer("tick", Duration::from_millis(10));
    }
}

fn run(explorer: Explorer, every: u32, last: u32) -> Report {
    explorer.executions(200).regressions(false).run(move |system: &mut System<u32>| {
        for me in 0..3 {
            let next = NodeId((me + 1) % 3);
            system.node("ticker", Ticker { next, every, ticks: 0, sent: 0, last, received: 0 });
        }
        system.sometimes("everything arrives", move |s| {
            s.all::<Ticker>().all(|(_, ticker)| ticker.received == last)
        });
    })
}

/// Thirty messages of each of three nodes take 1,800 ticks, more than the bound of 1,000 steps.
#[test]
fn idle_ticks_do_not_count() {
    let report = run(Explorer::new(), 20, 30);
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    assert_eq!((report.bounded, report.steps_max), (0, 1_000), "{report}");
}

/// When only ticks are left, the execution is over, and that does not count as cut off.
#[test]
fn nothing_but_ticks_is_an_end() {
    let report = run(Explorer::new(), 1, 1);
    assert_eq!((report.settled, report.bounded), (200, 0), "{report}");
    assert!(report.to_string().contains("ticked 64 times without a consequence"), "{report}");
    assert!(report.steps < 200 * 500, "{report}");
}

/// A thousand messages are more than the bound allows: it grows until the goal is reached, and the
/// report names it. A bound that was set explicitly stays.
#[test]
fn the_bound_follows_the_system() {
    let grown = run(Explorer::new(), 1, 300);
    assert_eq!(grown.missed_goals().count(), 0, "{grown}");
    assert_eq!(grown.steps_max, 2_000, "{grown}");
    let workers = run(Explorer::new().workers(1), 1, 300);
    assert_eq!((workers.steps, workers.bounded), (grown.steps, grown.bounded));
    let told = run(Explorer::new().steps(1_000), 1, 300);
    assert_eq!((told.missed_goals().count(), told.bounded), (1, 200), "{told}");
    assert!(told.to_string().contains("bound of 1,000 steps, idle ticks not counted"), "{told}");
}

/// Without a goal the bound follows what ends: 900 messages and their ticks take more than a
/// thousand steps. What never ends is cut off where it was.
#[test]
fn the_bound_reaches_the_end_of_what_ends() {
    let run = |last: u32, executions: u64| {
        let explorer = Explorer::new().executions(executions).regressions(false);
        explorer.run(move |system: &mut System<u32>| {
            for me in 0..3 {
                let next = NodeId((me + 1) % 3);
                let ticker = Ticker { next, every: 1, ticks: 0, sent: 0, last, received: 0 };
                system.node("ticker", ticker);
            }
        })
    };
    let ends = run(300, 1_100);
    assert!((2_000..=8_000).contains(&ends.steps_max), "{ends}");
    assert_eq!((ends.bounded, ends.settled), (128, 1_100 - 128), "{ends}");
    assert!(ends.to_string().contains("(it grew with the system)"), "{ends}");
    let endless = run(u32::MAX, 1_100);
    assert_eq!((endless.steps_max, endless.bounded), (1_000, 1_100), "{endless}");
    let few = run(300, 200);
    assert_eq!((few.steps_max, few.bounded), (1_000, 200), "{few}");
}
