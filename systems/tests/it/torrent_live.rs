//! A BitTorrent client of 57 peers on real sockets, watched by graphs of stages (D3S, section 5.5).

use std::sync::mpsc::channel;

use everhold_systems::torrent::{ONCE, PEERS, RULES, neighbour_graph};

use crate::live::{Cluster, PATIENCE, Watcher, folder};

#[test]
fn neighbours_that_are_added_again_are_caught() {
    let folder = folder("torrent-again");
    let (longest, lengths) = channel();
    let flows = move || {
        let longest = longest.clone();
        vec![neighbour_graph(move |_, length| {
            let _ = longest.send(length);
        })]
    };
    let watcher = Watcher::start_with(&folder, RULES, flows);
    let cluster = Cluster::start_together(&folder, "torrent", "adds-again", PEERS + 1, &watcher);
    let mut rules = Vec::new();
    while rules.len() < 2 {
        let violation = watcher.violation(PATIENCE).expect("lists grow");
        if !rules.contains(&violation.rule) {
            rules.push(violation.rule.clone());
        }
    }
    assert!(rules.contains(&ONCE.to_owned()), "{rules:?}");
    assert!(lengths.iter().take(10_000).any(|length| length > i64::from(PEERS)));
    drop(watcher);
    cluster.end();
}
