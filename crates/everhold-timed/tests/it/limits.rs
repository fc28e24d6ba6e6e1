//! Known limitations of the virtual clock. Each test pins the present behaviour and fails when it
//! changes.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Explorer, Faults, System};
use everhold_timed::{Ended, FaultTimes, Timed};
use serde::Serialize;

type Msg = u32;

/// Writes a mark and then its data, the wrong order, at every tick.
#[derive(Clone, Serialize)]
struct MarkFirst;

impl Node for MarkFirst {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("tick", Duration::from_millis(1));
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        for record in ["mark", "data"] {
            cx.disk().put(record, b"1");
            cx.disk().sync();
        }
    }
    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let (mark, data) = (cx.disk().get("mark").is_some(), cx.disk().get("data").is_some());
        cx.check(data || !mark, "what is marked is there", String::new);
        self.start(cx);
    }
}

/// On a virtual clock a crash falls between two events, never inside one.
#[test]
fn timed_crashes_fall_between_events() {
    let setup = |system: &mut System<Msg>| {
        system.faults(Faults::none().crash(1));
        system.node("store", MarkFirst);
    };
    let times = FaultTimes { until: Duration::from_millis(2), ..FaultTimes::default() };
    let timed = Timed::new(setup).fault_times(times).time_max(Duration::from_secs(1));
    for seed in 0..200 {
        let run = timed.run(seed);
        assert!(!matches!(run.ended, Ended::Failed(_)), "seen, at seed {seed}: {run}");
    }
    assert!(Explorer::new().regressions(false).run(setup).finding().is_some(), "explored, it is");
}
