//! A server of lists on two threads of tokio.

mod common;

use common::{found, silent};
use everhold::Net;
use everhold_services::lists::{Listening, ask, main_with};

#[tokio::main(flavor = "current_thread")]
async fn users() {
    let reader = tokio::spawn(ask("lists:6379", "pop jobs"));
    assert_eq!(ask("lists:6379", "push jobs one").await.unwrap(), "ok");
    assert_eq!(reader.await.unwrap().unwrap(), "one");
}

fn lists(net: &mut Net<'_>, listening: Listening) {
    net.host("lists", move || main_with(listening));
    net.client("users", users);
}

#[test]
fn a_reader_gets_what_is_pushed() {
    silent("lists", 200, |net| lists(net, Listening::First));
}

#[test]
fn a_push_that_wakes_nobody_is_found() {
    found("lists, late", "deadlock", 1_000, |net| lists(net, Listening::Late));
}
