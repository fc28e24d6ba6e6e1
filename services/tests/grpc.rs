//! tonic: a stream that is taken up again after a reset.
#![cfg(feature = "grpc")]

mod common;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::grpc::{Resuming, follow_all, main_with};

#[tokio::main(flavor = "current_thread")]
async fn follower(resuming: Resuming) {
    let seen = follow_all("http://feed:50051", resuming).await;
    assert_eq!(seen, [0, 1, 2, 3], "the follower saw other events");
}

fn feed(net: &mut Net<'_>, resuming: Resuming) {
    net.host("feed", || main_with(4));
    net.client("follower", move || follower(resuming));
    net.faults(Faults::none().reset(1).crash(1));
}

#[test]
fn a_follower_sees_every_event_once() {
    silent("tonic", 200, |net| feed(net, Resuming::AfterLast));
}

#[test]
fn a_follower_that_asks_for_the_last_event_again_sees_it_twice() {
    found("tonic, resuming", "the follower saw other events", 1_000, |net| {
        feed(net, Resuming::AtLast);
    });
}
