//! chitchat: failure detection over UDP.
#![cfg(feature = "gossip")]

mod common;

use std::time::Duration;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::gossip::{Config, join, live, main_with, sees};

const NAMES: [&str; 3] = ["a", "b", "watcher"];

fn config(name: &str, phi_threshold: f64) -> Config {
    Config { name: name.to_owned(), seeds: NAMES.map(str::to_owned).into(), phi_threshold }
}

#[tokio::main(flavor = "current_thread")]
async fn watcher(phi_threshold: f64) {
    let member = join(&config("watcher", phi_threshold)).await.unwrap();
    assert!(sees(&member, &NAMES, Duration::from_secs(20)).await, "nobody joins");
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(live(&member).await, NAMES, "a member that is well was given up");
    }
}

fn cluster(net: &mut Net<'_>, phi_threshold: f64) {
    for name in ["a", "b"] {
        net.host(name, move || main_with(config(name, phi_threshold)));
    }
    net.client("watcher", move || watcher(phi_threshold));
    net.faults(Faults::none().lose(1));
}

#[test]
fn members_that_are_well_are_not_given_up() {
    silent("chitchat", 20, |net| cluster(net, 8.0));
}

#[test]
fn a_hasty_threshold_gives_up_a_member_that_is_well() {
    found("chitchat, hasty", "a member that is well was given up", 200, |net| cluster(net, 1.0));
}
