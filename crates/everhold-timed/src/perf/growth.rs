//! Does it need more rounds of a timer the more nodes there are?
//!
//! A system that works by a timer needs many rounds of it, and so does one that repairs itself one
//! step a round. One size cannot tell them apart, and neither has modes that stand out. A smaller
//! version of the same system can: a pace stays, steps grow with the nodes.

use serde::Serialize;

use super::draw;
use super::lab::Crew;
use super::multiples::ROUNDS_MAX;
use super::path::{Path, TimerWait};
use super::sample::Sample;

/// How many rounds of a timer an execution waits for, at two sizes of the system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The timer, as `timer NAME`.
    pub timer: String,
    /// Nodes of the smaller system, and of this one.
    pub nodes: (usize, usize),
    /// Rounds on the critical path: the medians.
    pub rounds: (f64, f64),
    /// The rounds grow like the number of nodes to this power: 0 is a pace, 1 is a step a node.
    pub power: f64,
}

/// Executions of each size.
const LOOKED_AT: usize = 12;
/// From here on the growth is of the kind of the number of nodes. A pace has 0, and what doubles
/// its reach each round has less than 0.4 between sizes that differ by a factor of four.
const POWER_MIN: f64 = 0.7;

/// Compares with a smaller system; `None` if few rounds are waited for, or not more than there.
pub(super) fn growth(crew: &Crew, smaller: &Crew, seed: u64) -> Option<Growth> {
    let (nodes, waits) = look(crew, seed)?;
    let timer = most_waited(&waits)?;
    let rounds = median(&waits, &timer);
    if rounds <= f64::from(ROUNDS_MAX) {
        return None;
    }
    let (fewer, before) = look(smaller, seed)?;
    let rounds = (median(&before, &timer), rounds);
    let nodes = (fewer, nodes);
    let power = (rounds.1 / rounds.0.max(1.0)).ln() / (nodes.1 as f64 / nodes.0 as f64).ln();
    (nodes.0 < nodes.1 && power >= POWER_MIN).then_some(Growth { timer, nodes, rounds, power })
}

/// The number of nodes, and what each of some executions waits for.
fn look(crew: &Crew, seed: u64) -> Option<(usize, Vec<Vec<TimerWait>>)> {
    let numbers: Vec<usize> = (0..LOOKED_AT).collect();
    let looked = crew.map("sizes", &numbers, |lab, number| {
        let recorded = lab.record(&draw(seed, *number));
        (recorded.nodes.len(), Path::of(&recorded).waits())
    });
    let (nodes, waits): (Vec<usize>, Vec<Vec<TimerWait>>) = looked.into_iter().flatten().unzip();
    Some((*nodes.first()?, waits))
}

fn most_waited(executions: &[Vec<TimerWait>]) -> Option<String> {
    let all = || executions.iter().flatten();
    let total = |name: &str| all().filter(|w| w.name == name).map(|w| w.waited).sum::<u64>();
    all().max_by_key(|wait| (total(&wait.name), &wait.name)).map(|wait| wait.name.clone())
}

fn median(executions: &[Vec<TimerWait>], timer: &str) -> f64 {
    let rounds = executions.iter().map(|waits| {
        let wait = waits.iter().find(|wait| wait.name == timer);
        wait.map_or(0.0, |wait| f64::from(wait.rounds))
    });
    Sample::new(rounds).quantile(0.5)
}
