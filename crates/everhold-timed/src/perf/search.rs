//! The search for slow executions: more than half of the executions are drawn at random, the others
//! searched for.
//!
//! Only uniform draws allow an estimate of probabilities, and they are hard to beat, so they get
//! more than half of the budget. The rest goes to messages that are delayed on purpose, to forks of
//! the slowest executions, and to splitting: executions that have lasted for some time are
//! continued in several ways.

use std::time::Duration;

use everhold_node::fingerprint::mix;
use everhold_sim::rng::Rng;
use serde::Serialize;

use super::draw;
use super::lab::{Crew, Ran, branch, nanos};
use super::multiples::TimerPeriod;
use crate::{Change, Delay, Draws, OnLink};

/// The methods by which an execution is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum How {
    /// Drawn at random.
    Uniform,
    /// Drawn with one or two messages delayed by a round trip or by a timer's period.
    Delayed,
    /// Forked from one of the slowest executions so far.
    Forked,
    /// Continued from an execution that had lasted for some time.
    Split,
    /// Requested by the user.
    Replayed,
    /// Kept in a regressions file.
    Saved,
}

impl How {
    /// Returns the word for the method.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            How::Uniform => "uniform",
            How::Delayed => "delayed messages",
            How::Forked => "forks of the slowest",
            How::Split => "splitting",
            How::Replayed => "replay",
            How::Saved => "a saved execution",
        }
    }
}

/// An execution that was run.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) draws: Draws,
    pub(super) ran: Ran,
    pub(super) how: How,
}

impl Candidate {
    /// Returns its time without the injected delays, which are not the system's own.
    pub(super) fn own_time(&self) -> f64 {
        let put_in = |change: &Change| match change {
            Change::Message(_, Delay::Plus(by)) => by.as_secs_f64(),
            _ => 0.0,
        };
        self.ran.measured.time - self.draws.changes.iter().map(put_in).sum::<f64>()
    }

    pub(super) fn is_slow(&self, limit: f64) -> bool {
        self.own_time() > limit || !self.ran.measured.reached
    }
}

/// The contribution of a search method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchTally {
    /// The method.
    pub how: How,
    /// The number of its executions.
    pub executions: usize,
    /// The number of its executions beyond the limit.
    pub slow: usize,
    /// The time of the slowest one in seconds.
    pub slowest: f64,
}

/// The estimated probability of an execution that takes longer than some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Survival {
    /// The time in seconds.
    pub beyond: f64,
    /// The probability.
    pub chance: f64,
}

/// The input of the guided searches.
#[derive(Clone, Debug)]
pub(super) struct Guide {
    pub(super) seed: u64,
    /// The number of executions for all guided searches together.
    pub(super) budget: usize,
    /// The bound on simulated time in nanoseconds.
    pub(super) limit: u64,
    /// The messages of a normal execution.
    pub(super) messages: Vec<OnLink>,
    pub(super) round_trip: Duration,
    pub(super) timers: Vec<TimerPeriod>,
}

/// Runs the executions of the uniform search.
pub(super) fn uniform(crew: &Crew, seed: u64, count: usize, limit: u64) -> Vec<Candidate> {
    let draws = (0..count).map(|number| draw(seed, number));
    run(crew, "executions", How::Uniform, draws.collect(), limit)
}

fn run(
    crew: &Crew,
    phase: &'static str,
    how: How,
    draws: Vec<Draws>,
    limit: u64,
) -> Vec<Candidate> {
    let ran = crew.map(phase, &draws, |lab, draws| lab.run(draws, limit));
    let both = draws.into_iter().zip(ran);
    both.filter_map(|(draws, ran)| Some(Candidate { draws, ran: ran?, how })).collect()
}

/// Runs the guided searches; the probabilities come from splitting.
pub(super) fn guided(
    crew: &Crew,
    guide: &Guide,
    uniform: &[Candidate],
) -> (Vec<Candidate>, Vec<Survival>) {
    let mut found = delayed(crew, guide);
    let pool: Vec<Candidate> = uniform.iter().chain(&found).cloned().collect();
    found.extend(forked(crew, guide, &pool));
    let (split, survival) = splitting(crew, guide, uniform);
    found.extend(split);
    (found, survival)
}

/// Delays random messages, as PCT inserts random priority changes: a bug that requires d late
/// messages is found with a probability of at least 1 / messages^d per execution.
fn delayed(crew: &Crew, guide: &Guide) -> Vec<Candidate> {
    if guide.messages.is_empty() {
        return Vec::new();
    }
    let plan = |number: usize| {
        let mut rng = Rng::new(mix(guide.seed, 0xDE1A_0000 + number as u64));
        let mut draws = Draws::seed(rng.next());
        for _ in 0..1 + number % 2 {
            let message = guide.messages[rng.below(guide.messages.len() as u32) as usize];
            draws = draws.message(message, Delay::Plus(some_delay(guide, &mut rng)));
        }
        draws
    };
    let draws = (0..guide.budget / 2).map(plan).collect();
    run(crew, "delayed messages", How::Delayed, draws, guide.limit)
}

fn some_delay(guide: &Guide, rng: &mut Rng) -> Duration {
    if guide.timers.is_empty() || rng.one_in(2) {
        return guide.round_trip;
    }
    let timer = &guide.timers[rng.below(guide.timers.len() as u32) as usize];
    Duration::from_secs_f64(timer.period)
}

/// The number of parents with similar times (within a tenth) that are kept: further ones add
/// little.
const ALIKE_MAX: usize = 2;
const PARENTS: usize = 20;

fn forked(crew: &Crew, guide: &Guide, pool: &[Candidate]) -> Vec<Candidate> {
    let mut pool: Vec<&Candidate> = pool.iter().filter(|c| c.ran.events > 1).collect();
    pool.sort_by(|a, b| b.own_time().total_cmp(&a.own_time()));
    let mut parents: Vec<&Candidate> = Vec::new();
    for candidate in pool {
        let time = Candidate::own_time;
        let alike = |c: &&&Candidate| (time(c) - time(candidate)).abs() < 0.1 * time(candidate);
        if parents.len() < PARENTS && parents.iter().filter(alike).count() < ALIKE_MAX {
            parents.push(candidate);
        }
    }
    if parents.is_empty() {
        return Vec::new();
    }
    let plan = |number: usize| {
        let mut rng = Rng::new(mix(guide.seed, 0xF02C_0000 + number as u64));
        let parent = parents[number % parents.len()];
        let after = rng.next() % parent.ran.events;
        branch(&parent.draws, after, rng.next())
    };
    let draws = (0..guide.budget / 4).map(plan).collect();
    run(crew, "forks of the slowest", How::Forked, draws, guide.limit)
}

/// The number of executions that are continued at each level.
const CONTINUED: usize = 24;
/// The number of survivors below which a level gives no estimate.
const SURVIVORS_MIN: usize = 4;

/// Multilevel splitting on survival time: level j is "not done at time t_j". The probability of
/// passing all levels is the product of the shares that pass each.
fn splitting(crew: &Crew, guide: &Guide, uniform: &[Candidate]) -> (Vec<Candidate>, Vec<Survival>) {
    let mut times: Vec<f64> = uniform.iter().map(|c| c.ran.measured.time).collect();
    times.sort_by(f64::total_cmp);
    let Some(start) = times.len().checked_sub(2 * SURVIVORS_MIN) else {
        return (Vec::new(), Vec::new());
    };
    let mut level = times[start] * 0.999;
    let passed = |c: &&Candidate, level: f64| c.ran.measured.time > level;
    let mut survivors: Vec<Candidate> =
        uniform.iter().filter(|c| passed(c, level)).cloned().collect();
    let mut chance = survivors.len() as f64 / uniform.len() as f64;
    let (mut found, mut survival) = (Vec::new(), vec![Survival { beyond: level, chance }]);
    let step = guide.timers.iter().map(|t| t.period).filter(|p| *p <= level).fold(0.0, f64::max);
    for round in 0..(guide.budget / 4 / CONTINUED) as u64 {
        let next = level + if step > 0.0 { step } else { 0.25 * level };
        let children = continued(crew, guide, &survivors, level, round);
        survivors = children.iter().filter(|c| passed(c, next)).cloned().collect();
        chance *= survivors.len() as f64 / children.len().max(1) as f64;
        found.extend(children);
        survival.push(Survival { beyond: next, chance });
        level = next;
        if survivors.len() < SURVIVORS_MIN {
            break;
        }
    }
    (found, survival)
}

/// Continues executions that have not ended at the level, each with new draws from there on.
fn continued(
    crew: &Crew,
    guide: &Guide,
    survivors: &[Candidate],
    level: f64,
    round: u64,
) -> Vec<Candidate> {
    let jobs: Vec<(usize, &Candidate)> =
        survivors.iter().cycle().take(CONTINUED).enumerate().collect();
    let done = crew.map("splitting", &jobs, |lab, (number, parent)| {
        let until = lab.run(&parent.draws, nanos(level).min(guide.limit));
        let seed = mix(guide.seed, mix(0x5B17, mix(round, *number as u64)));
        let draws = branch(&parent.draws, until.events, seed);
        let ran = lab.run(&draws, guide.limit);
        Candidate { draws, ran, how: How::Split }
    });
    done.into_iter().flatten().collect()
}

/// Returns the contribution of each search method.
pub(super) fn tally(candidates: &[Candidate], slow_limit: f64) -> Vec<SearchTally> {
    let ways = [How::Uniform, How::Delayed, How::Forked, How::Split];
    let tally = |how: How| {
        let these = || candidates.iter().filter(|c| c.how == how);
        let slow = these().filter(|c| c.is_slow(slow_limit)).count();
        let slowest = these().map(Candidate::own_time).fold(0.0, f64::max);
        SearchTally { how, executions: these().count(), slow, slowest }
    };
    ways.into_iter().map(tally).filter(|tally| tally.executions > 0).collect()
}
