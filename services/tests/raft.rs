//! openraft over axum and reqwest, with files and crashes.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::raft::{Client, Voting, main_with};

const NODES: [&str; 3] = ["node-0", "node-1", "node-2"];

#[tokio::main(flavor = "current_thread")]
async fn user() {
    let client = Client::new(NODES);
    client.start().await;
    let mut leaders = BTreeMap::new();
    for key in ["a", "b", "c"] {
        let written = client.write(key, key).await;
        let leader = *leaders.entry(written.term).or_insert(written.node);
        assert_eq!(leader, written.node, "two leaders in term {}", written.term);
    }
    for key in ["a", "b", "c"] {
        assert_eq!(client.read(key).await.as_deref(), Some(key), "an acknowledged write is lost");
    }
}

fn store(net: &mut Net<'_>, voting: Voting) {
    for (name, id) in NODES.into_iter().zip(0..) {
        net.host(name, move || main_with(id, voting));
    }
    net.client("user", user);
    net.faults(Faults::none().crash(2));
    net.delay_max(Duration::from_millis(20));
}

#[test]
fn a_cluster_whose_votes_are_saved_keeps_what_it_acknowledged() {
    silent("raft", 50, |net| store(net, Voting::Saved));
}

#[test]
fn a_vote_that_is_not_saved_is_given_twice() {
    found("raft, votes forgotten", "two leaders in term", 2_000, |net| {
        store(net, Voting::Forgotten);
    });
}
