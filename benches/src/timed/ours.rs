//! Everhold's timed simulator.

use std::time::Duration;

use everhold::Network;
use everhold::prelude::{Cx, Node, NodeId, Serialize};
use everhold::timed::{Durations, Quantiles, Timed};

use super::tokens::DELIVERIES;
use crate::measure::{Bound, Contender, Scorecard, Size, Work, cpu_seconds};
use crate::table::Table;

#[derive(Clone, Debug, Serialize)]
struct Token(u64, u64);

#[derive(Clone, Serialize)]
struct Passer {
    nodes: u64,
    seen: u64,
}

impl Passer {
    fn pass(&self, cx: &mut Cx<Token>, hops: u64) {
        let to = (u128::from(cx.random()) * u128::from(self.nodes)) >> 64;
        cx.send(NodeId(to as u32), Token(hops, 0));
    }
}

impl Node for Passer {
    type Msg = Token;
    fn start(&mut self, cx: &mut Cx<Token>) {
        self.pass(cx, 0);
    }
    fn message(&mut self, cx: &mut Cx<Token>, _: NodeId, token: Token) {
        self.seen += 1;
        self.pass(cx, token.0 + 1);
    }
}

/// MacePC's network, a table of durations between 20 and 200 us, and one token for each node.
fn tokens(nodes: u64) -> Timed<Token> {
    let durations = Quantiles::uniform(Duration::from_micros(20), Duration::from_micros(200));
    Timed::new(move |system| {
        system.network(Network::Streams);
        system.nodes("passer", nodes as usize, |_| Passer { nodes, seen: 0 });
    })
    .durations(Durations::none().with("Token", durations))
    .events_max(nodes + DELIVERIES)
    .time_max(Duration::from_secs(1_000_000))
}

pub(crate) fn contender(nodes: u64) -> Contender {
    Contender::new("everhold", move |executions| {
        let mut sim = tokens(nodes).sim();
        let events: u64 = (0..executions).map(|seed| sim.run(seed).events).sum();
        Work { executions, units: events - executions * nodes, steps: events }
    })
}

/// The cost of a fork: an execution of 100 nodes after 12,000 events.
pub(crate) fn fork(size: Size, scores: &mut Scorecard) {
    const EVENTS: u64 = 12_000;
    let mut sim = tokens(100).sim();
    let forks = size.pick(10, 20_000);
    let mut world = sim.start(1);
    world.run_events(EVENTS);
    let before = cpu_seconds();
    for seed in 0..forks {
        std::hint::black_box(world.fork(Some(seed)).is_some());
    }
    let fork = (cpu_seconds() - before) / forks as f64;
    let replays = size.pick(1, 50);
    let before = cpu_seconds();
    for _ in 0..replays {
        let mut world = sim.start(1);
        world.run_events(EVENTS);
        sim.keep(world);
    }
    let replay = (cpu_seconds() - before) / replays as f64;
    let mut table = Table::new(&["way to the middle of an execution", "CPU-microseconds"]);
    table.row(vec!["fork".to_owned(), format!("{:.1}", fork * 1e6)]);
    table.row(vec!["replay".to_owned(), format!("{:.1}", replay * 1e6)]);
    table.print("Forks: 100 nodes after 12,000 events");
    scores.hold("a fork against a replay", replay / fork, Bound::AtLeast(10.0));
}
