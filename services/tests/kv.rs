//! A replicated store on tokio, with files, crashes and partitions.

mod common;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::kv::{Client, Config, main_with};

const REPLICAS: [&str; 3] = ["kv-0", "kv-1", "kv-2"];

#[tokio::main(flavor = "current_thread")]
async fn user(quorum: usize) {
    let client = Client::new(REPLICAS.map(|name| format!("{name}:4000")), quorum);
    for number in ["1", "2"] {
        client.put("x", number).await;
        assert_eq!(client.get("x").await, number, "an acknowledged write is lost");
    }
}

fn store(net: &mut Net<'_>, syncs: bool, quorum: usize) {
    for name in REPLICAS {
        let listen = "0.0.0.0:4000".to_owned();
        let config = Config { listen, log: "/log".into(), syncs };
        net.host(name, move || main_with(config.clone()));
    }
    net.client("user", move || user(quorum));
    net.faults(Faults::none().crash(1).partition(1));
}

#[test]
fn acknowledged_writes_survive() {
    silent("kv", 200, |net| store(net, true, 2));
}

#[test]
fn a_write_that_is_acknowledged_before_it_is_synced_is_lost() {
    found("kv, unsynced", "an acknowledged write is lost", 3_000, |net| store(net, false, 2));
}

#[test]
fn a_read_from_one_replica_is_stale() {
    found("kv, one replica", "an acknowledged write is lost", 1_000, |net| store(net, true, 1));
}
