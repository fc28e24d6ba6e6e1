//! Threads, a condition variable and a channel; no network.

mod common;

use common::{found, silent};
use everhold::Net;
use everhold_services::buffer::{Waking, count};

const TEXTS: [&str; 2] = ["a rose\nis a rose\nis a rose", "is a\nrose"];

fn counter(net: &mut Net<'_>, waking: Waking) {
    net.client("counter", move || {
        let total = count(&TEXTS, 1, waking);
        assert_eq!(total["rose"], 4);
        assert_eq!(total["is"], 3);
    });
}

#[test]
fn every_word_is_counted() {
    silent("buffer", 500, |net| counter(net, Waking::All));
}

#[test]
fn a_wake_up_that_reaches_the_wrong_thread_is_missed() {
    found("buffer, one is woken", "deadlock", 1_000, |net| counter(net, Waking::One));
}
