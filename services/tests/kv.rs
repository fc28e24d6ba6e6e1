//! A replicated store on tokio, with files, crashes and partitions.

mod common;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::kv::{Client, Config, main_with};

const REPLICAS: [&str; 3] = ["kv-0", "kv-1", "kv-2"];
const LOST: &str = "an acknowledged write is lost";

#[tokio::main(flavor = "current_thread")]
async fn user(quorum: usize) {
    let client = Client::new(REPLICAS.map(|name| format!("{name}:4000")), quorum);
    for number in ["1", "2"] {
        client.put("x", number).await;
        assert_eq!(client.get("x").await, number, "{LOST}");
    }
}

fn store(net: &mut Net<'_>, syncs: bool, quorum: usize, faults: Faults) {
    for name in REPLICAS {
        let listen = "0.0.0.0:4000".to_owned();
        let config = Config { listen, log: "/log".into(), syncs };
        net.host(name, move || main_with(config.clone()));
    }
    net.client("user", move || user(quorum));
    net.faults(faults);
}

#[test]
fn acknowledged_writes_survive() {
    let faults = || Faults::none().crash(2).partition(1);
    silent("kv", 100, move |net| store(net, true, 2, faults()));
}

#[test]
fn a_write_that_is_acknowledged_before_it_is_synced_is_lost() {
    let faults = || Faults::none().crash(2);
    found("kv, unsynced", LOST, 5_000, move |net| store(net, false, 2, faults()));
}

#[test]
fn a_read_from_one_replica_is_stale() {
    found("kv, one replica", LOST, 1_000, |net| store(net, true, 1, Faults::none()));
}
