//! tonic and prost: a stream that breaks.

mod common;

use common::{found, silent};
use everhold::{Faults, Net};
use everhold_services::feed::{Reader, Resuming, main, post};

const FEED: &str = "http://feed:50051";

#[tokio::main(flavor = "current_thread")]
async fn reader(resuming: Resuming) {
    let mut reader = Reader::new(FEED, resuming);
    for number in 0..3 {
        assert_eq!(reader.next().await.number, number, "an entry is missed");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn writer() {
    for number in 0..3 {
        post(FEED, number).await;
    }
}

fn feed(net: &mut Net<'_>, resuming: Resuming) {
    net.host("feed", main);
    net.client("writer", writer);
    net.client("reader", move || reader(resuming));
    net.faults(Faults::none().reset(1));
}

#[test]
fn a_reader_who_goes_on_after_his_last_entry_gets_all_of_them() {
    silent("feed", 100, |net| feed(net, Resuming::AfterTheLast));
}

#[test]
fn a_reader_who_goes_on_with_what_comes_next_misses_an_entry() {
    // He waits for an entry that will not come again.
    found("feed, resumed now", "no deadlock (kind \"reader\")", 1_000, |net| {
        feed(net, Resuming::Now);
    });
}
