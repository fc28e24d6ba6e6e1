//! The election of a Paxos service as watched processes: D3S's predicate says that a node stays in
//! Promoting (section 5.2 and figure 6). Whether the mistake shows in one run depends on the timing of
//! processes, so it is the explorer that must find it (`mps.rs`), and `benches -- papers --only d3s` that
//! measures it live; here the corrected service must not alarm.
#![expect(clippy::disallowed_methods, reason = "nodes on real sockets run in real time")]

use std::thread::sleep;
use std::time::Duration;

use everhold_live::{Client, NodeId};
use everhold_systems::mps::{Msg, REPLICAS, RULES};
use everhold_watch::Violation;

use crate::live::{Cluster, PATIENCE, Watcher, folder};

/// The nodes of figure 6.
const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;
const D: u32 = 3;
const E: u32 = 4;

fn cut(client: &mut Client<Msg>, from: &[u32]) {
    client.tell(&Msg::Cut(from.iter().copied().map(NodeId).collect())).unwrap();
}

/// The sequence of the figure: A, B and E crash and recover. Until then, D and A executed a command that
/// B and C lack; afterwards the messages between C and A, D and E are lost for a while.
fn fail(bug: &'static str, patience: Duration) -> Option<Box<Violation>> {
    let folder = folder(&format!("mps-{bug}"));
    let watcher = Watcher::start(&folder, RULES);
    let mut cluster = Cluster::start(&folder, "mps", bug, REPLICAS, &watcher);
    let (mut a, mut c, mut d) = (cluster.client(A), cluster.client(C), cluster.client(D));
    assert_eq!(a.call(&Msg::Command, PATIENCE).unwrap(), Msg::Executed(1));
    cut(&mut a, &[B, C]);
    a.tell(&Msg::Command).unwrap();
    sleep(Duration::from_millis(100));
    cut(&mut c, &[A, D, E]);
    cut(&mut d, &[C]);
    for node in [A, B, E] {
        cluster.kill(node);
    }
    for node in [B, A, E] {
        cluster.launch(node);
    }
    sleep(Duration::from_secs(4));
    // From here on, nothing fails.
    cut(&mut c, &[]);
    cut(&mut d, &[]);
    let violation = watcher.violation(patience);
    assert!(watcher.evaluations() > 0, "nothing was judged");
    // Clients notice nothing: somebody leads, or will after an election.
    let leads = |node| {
        let answer = cluster.client(node).call(&Msg::Command, PATIENCE);
        matches!(answer, Ok(Msg::Executed(_)))
    };
    let somebody_leads = (0..20).any(|_| {
        sleep(Duration::from_millis(500));
        (0..REPLICAS).any(leads)
    });
    assert!(somebody_leads, "no node executes commands");
    cluster.end();
    violation
}

#[test]
fn the_fixed_service_returns_to_the_normal_case() {
    assert_eq!(fail("none", Duration::from_secs(6)), None);
}
