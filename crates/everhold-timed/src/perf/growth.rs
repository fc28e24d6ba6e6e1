//! The growth of the number of rounds of a timer with the number of nodes.
//!
//! A system that is paced by a timer needs many rounds of it, and so does one that repairs itself
//! one step per round. One size of the system cannot distinguish them, and neither has modes that
//! stand out. A smaller version of the same system can: the rounds of a pace stay constant, repair
//! steps grow with the nodes.

use serde::Serialize;

use super::draw;
use super::lab::Crew;
use super::multiples::ROUNDS_MAX;
use super::path::{Path, TimerWait};
use super::sample::Sample;

/// The numbers of rounds of a timer for which executions wait, at two sizes of the system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The timer, as `timer NAME`.
    pub timer: String,
    /// The numbers of nodes of the smaller system and of this one.
    pub nodes: (usize, usize),
    /// The numbers of rounds on the critical path: the medians.
    pub rounds: (f64, f64),
    /// The exponent of the growth of the rounds with the number of nodes: 0 for a pace, 1 for one
    /// step per node.
    pub power: f64,
}

/// The number of executions of each size.
const LOOKED_AT: usize = 12;
/// The smallest exponent that counts as growth with the number of nodes. A pace has 0, and a
/// process that doubles its reach each round has less than 0.4 between sizes that differ by a
/// factor of four.
const POWER_MIN: f64 = 0.7;

/// Compares with a smaller system; returns `None` if there are few rounds, or too little growth.
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

/// Returns the number of nodes, and the waits of some executions.
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
