//! The clocks of a system on the virtual clock.

use std::collections::BTreeSet;
use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Clocks, System};
use everhold_timed::{Durations, Net, Timed};
use serde::Serialize;

/// Rings after ten seconds of its own clock.
#[derive(Clone, Default, Serialize)]
struct Alarm {
    rang: bool,
}

impl Node for Alarm {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        cx.set_timer("ring", Duration::from_secs(10));
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
    fn timer(&mut self, _: &mut Cx<u32>, _: Timer) {
        self.rang = true;
    }
}

/// Ten seconds of a clock differ between nodes, since the drift is drawn for each node.
#[test]
fn clocks_drift_as_the_system_says() {
    let times = |clocks: Clocks| -> BTreeSet<Duration> {
        let timed = Timed::new(move |system: &mut System<u32>| {
            system.node("alarm", Alarm::default());
            system.clocks(clocks);
        })
        .network(Net::ideal(Duration::from_millis(1)))
        .durations(Durations::none())
        .stop_when_each(|alarm: &Alarm| alarm.rang);
        (0..50).map(|seed| timed.run(seed).time).collect()
    };
    assert_eq!(times(Clocks::Shared), BTreeSet::from([Duration::from_secs(10)]));
    let drifting = times(Clocks::Drift { max_ppm: 100_000 });
    assert!(drifting.len() > 40, "{drifting:?}");
    let (shortest, longest) = (*drifting.first().unwrap(), *drifting.last().unwrap());
    assert!(shortest >= Duration::from_millis(9_090), "{shortest:?}");
    assert!(longest <= Duration::from_millis(11_120), "{longest:?}");
}
