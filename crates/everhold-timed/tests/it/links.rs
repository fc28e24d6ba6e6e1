//! Links and kinds of messages with rules of their own; full channels and mailboxes.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Channel, Faults, Links, Network, System};
use everhold_timed::{Durations, Fate, Link, Net, Sent, Timed, TimedChannel, TimedFault};
use serde::Serialize;

#[path = "../../../everhold-sim/tests/nodes/transfer.rs"]
mod transfer;
use transfer::{
    Msg::{self, Beat, Data},
    Sink, transfer,
};

/// Sends as long as there is room, and counts the refused messages.
#[derive(Clone, Serialize)]
struct Pusher {
    to: NodeId,
    asks: bool,
    refused: u32,
}

impl Node for Pusher {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        for number in 0..5 {
            match self.asks {
                true => self.refused += u32::from(cx.try_send(self.to, Data(number)).is_err()),
                false => cx.send(self.to, Data(number)),
            }
        }
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
}

fn push(
    links: Links,
    pushers: usize,
    asks: bool,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let to = system.node("sink", Sink::default());
        system.nodes("pusher", pushers, |_| Pusher { to, asks, refused: 0 });
        system.network(Network::Fifo);
        system.links(links.clone());
    }
}

const MIXED: [Msg; 3] = [Data(1), Beat(7), Data(2)];

#[test]
fn a_full_channel_or_mailbox_refuses() {
    let link = Links::new().all(Channel::new().capacity(2));
    let mailbox = Links::new().mailbox("sink", 3);
    // Two pushers: two messages each on their own links, three in total in one mailbox.
    for (links, refused) in [(Links::new(), 0), (link, 6), (mailbox, 7)] {
        for asks in [true, false] {
            let timed = Timed::new(push(links.clone(), 2, asks))
                .network(Net::ideal(Duration::from_millis(5)))
                .durations(Durations::none());
            let recorded = timed.record(1);
            let fate = |s: &&Sent| s.fate == Fate::Refused;
            assert_eq!(recorded.messages.iter().filter(fate).count(), refused);
        }
    }
}

/// Two channels with the same link are equal, and so are two without one.
#[test]
fn channels_compare_by_their_links() {
    let slow = |millis| Channel::fifo().timed(Link::ideal(Duration::from_millis(millis)));
    assert_eq!(slow(50), slow(50));
    assert_ne!(slow(50), slow(60));
    assert_ne!(slow(50), Channel::fifo());
    assert!(format!("{:?}", slow(50)).contains("50ms"), "{:?}", slow(50));
}

/// Rules set latency and order, and losses only where they are allowed.
#[test]
fn timed_links_have_their_rules() {
    let slow = Link::ideal(Duration::from_millis(50));
    let links = Links::new().of("Beat", Channel::fifo().reliable().timed(slow));
    let timed = Timed::new(transfer(links.clone(), Faults::none(), MIXED.to_vec()))
        .network(Net::ideal(Duration::from_millis(5)))
        .durations(Durations::none())
        .driver(|driver| driver.fault(Duration::ZERO, TimedFault::Lose));
    let lasts =
        |timed: Timed<Msg>| timed.stop_when_each(|sink: &Sink| sink.seen.contains(&Beat(7))).run(3);
    let run = lasts(timed);
    assert!(run.is_done(), "a reliable link loses nothing: {run}");
    assert!(run.time >= Duration::from_millis(50), "{run}");
    let usual = Timed::new(transfer(Links::new(), Faults::none(), MIXED.to_vec()))
        .network(Net::ideal(Duration::from_millis(5)))
        .durations(Durations::none());
    assert!(lasts(usual).time < Duration::from_millis(10));
}
