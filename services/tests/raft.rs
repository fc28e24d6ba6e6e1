//! openraft with its key-value store, over axum and reqwest, with crashes that take files.
#![cfg(feature = "raft")]

mod common;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::raft::{Client, Config, main_with};

const NODES: [&str; 3] = ["node-0", "node-1", "node-2"];

#[tokio::main(flavor = "current_thread")]
async fn user() {
    let client = Client::new(NODES.map(str::to_owned).into());
    for number in 1..=3 {
        client.set("x", number).await;
        assert_eq!(client.get("x").await, Some(number), "an acknowledged write is lost");
    }
}

fn cluster(net: &mut Net<'_>, syncs: bool) {
    for (id, name) in (0..).zip(NODES) {
        let config = Config { id, nodes: NODES.map(str::to_owned).into(), syncs };
        net.host(name, move || main_with(config.clone()));
    }
    net.client("user", user);
    net.faults(Faults::none().crash(2));
}

#[test]
fn acknowledged_writes_survive() {
    silent("openraft", 100, |net| cluster(net, true));
}

#[test]
fn entries_that_are_acknowledged_before_they_are_synced_are_lost() {
    found("openraft, unsynced", "user", 2_000, |net| cluster(net, false));
}
