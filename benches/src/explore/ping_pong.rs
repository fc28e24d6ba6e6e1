//! Pairs of actors that play ping-pong: the cost of a message and of a short execution.

use everhold::Search;

use crate::explore::shuttle::By;
use crate::explore::{ours, shuttle};
use crate::measure::{Bound, Contender, Rates, Scorecard, Size, fastest, race};
use crate::table::{Table, short};

/// The numbers of actors and of round trips.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) actors: u32,
    pub(super) rounds: u32,
}

impl Shape {
    pub(super) fn pairs(self) -> u32 {
        self.actors / 2
    }

    /// Messages in one execution.
    pub(super) fn messages(self) -> u64 {
        u64::from(self.pairs()) * u64::from(self.rounds) * 2
    }
}

/// The required ratio for a shape, relative to Shuttle's random scheduler.
struct Contest {
    shape: Shape,
    what: What,
    bound: f64,
}

/// The figure to which a bar applies.
#[derive(Clone, Copy)]
enum What {
    Messages,
    Executions,
}

impl What {
    fn of(self, rates: &Rates) -> f64 {
        match self {
            What::Messages => rates.units,
            What::Executions => rates.executions,
        }
    }

    fn name(self) -> &'static str {
        match self {
            What::Messages => "messages delivered",
            What::Executions => "short executions",
        }
    }
}

const CONTESTS: [Contest; 3] = [
    Contest { shape: Shape { actors: 4, rounds: 100 }, what: What::Messages, bound: 3.0 },
    Contest { shape: Shape { actors: 100, rounds: 20 }, what: What::Messages, bound: 6.0 },
    Contest { shape: Shape { actors: 4, rounds: 1 }, what: What::Executions, bound: 4.0 },
];

/// The depth of the PCT rows.
const DEPTH: u32 = 3;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    for contest in &CONTESTS {
        let rates = race(&contenders(contest.shape), size);
        print(contest, &rates);
        judge(contest, &rates, scores);
    }
}

/// Everhold and Shuttle alternate, so that a busy minute of the machine affects both.
fn contenders(shape: Shape) -> Vec<Contender> {
    let pct = Search::Pct { depth: DEPTH };
    let their_pct = By::Pct { depth: DEPTH as usize };
    vec![
        handlers("everhold random", shape, Search::Random),
        threads("shuttle random, threads", shape, By::Random),
        handlers("everhold portfolio", shape, Search::Portfolio),
        tasks("shuttle random, tasks", shape, By::Random),
        handlers("everhold pct", shape, pct),
        threads("shuttle pct, threads", shape, their_pct),
        Contender::new("everhold random, async nodes", move |executions| {
            ours::programs(shape, Search::Random, executions)
        }),
        tasks("shuttle pct, tasks", shape, their_pct),
    ]
}

fn handlers(name: &str, shape: Shape, search: Search) -> Contender {
    Contender::new(name, move |executions| ours::handlers(shape, search.clone(), executions))
}

fn threads(name: &str, shape: Shape, by: By) -> Contender {
    Contender::new(name, move |executions| shuttle::threads(shape, by, executions))
}

fn tasks(name: &str, shape: Shape, by: By) -> Contender {
    Contender::new(name, move |executions| shuttle::tasks(shape, by, executions))
}

/// Shuttle's random scheduler, in the faster of its forms.
fn peer<'a>(contest: &Contest, rates: &'a [Rates]) -> &'a Rates {
    let random = rates.iter().filter(|rates| rates.name.starts_with("shuttle random"));
    fastest(random, |rates| contest.what.of(rates))
}

fn print(contest: &Contest, rates: &[Rates]) {
    let peer = contest.what.of(peer(contest, rates));
    let mut table = Table::new(&[
        "per CPU-second",
        "messages",
        "executions",
        "steps",
        "steps/execution",
        "ns/message",
        "ratio",
        "spread",
    ]);
    for row in rates {
        table.row(vec![
            row.name.clone(),
            short(row.units),
            short(row.executions),
            short(row.steps),
            format!("{:.0}", row.steps / row.executions),
            format!("{:.0}", 1e9 / row.units),
            format!("{:.2}x", contest.what.of(row) / peer),
            format!("{:.0} %", row.spread * 100.0),
        ]);
    }
    let Shape { actors, rounds } = contest.shape;
    table.print(&format!("Ping-pong of {actors} actors, {rounds} round trips"));
}

fn judge(contest: &Contest, rates: &[Rates], scores: &mut Scorecard) {
    let peer = contest.what.of(peer(contest, rates));
    for ours in ["everhold random", "everhold portfolio"] {
        let row = rates.iter().find(|rates| rates.name == ours).expect("ours was measured");
        let Shape { actors, rounds } = contest.shape;
        let what = contest.what.name();
        let claim = format!("{what}, {actors} actors x {rounds}: {ours} to shuttle random");
        scores.hold(claim, contest.what.of(row) / peer, Bound::AtLeast(contest.bound));
    }
}
