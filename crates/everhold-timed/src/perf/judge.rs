//! The decision which suspects are findings, by what they waited for.
//!
//! A heavy-tailed network makes some executions slow, which is not a bug. A bug that a timer
//! repairs shows in the critical path: most of the extra time is a wait for that timer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use everhold_node::fingerprint::mix;
use serde::Serialize;

use super::detect::Detection;
use super::lab::{Crew, seconds};
use super::multiples::ROUNDS_MAX;
use super::path::{Path, TimerWait};
use super::search::{Candidate, How};

/// The reason for which a slow execution is a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Why {
    /// At least half of its excess over normal executions is a wait for timers.
    Timer,
    /// It belongs to a separate mode that is not rare.
    Mode,
    /// It did not reach the stopping condition, while others do.
    Unfinished,
    /// The number of rounds of a timer grows with the number of nodes.
    Growth,
}

/// The signature by which slow executions are grouped into findings: the reason, and the timers for
/// which they wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Signature {
    /// The reason.
    pub why: Why,
    /// The timers that take a tenth of the critical path or more.
    pub timers: Vec<String>,
}

/// A slow execution that was examined.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub(super) candidate: Candidate,
    /// The timer for which it waits longest beyond the waits of normal executions.
    pub(super) wait: Option<TimerWait>,
    /// The seconds for which it waits for timers beyond the waits of normal executions.
    waited: f64,
    timers: Vec<String>,
}

/// Normal executions, for comparison. Waits that fast executions have as well do not explain a slow
/// one: timers of heartbeats and of maintenance are on many critical paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    time: f64,
    /// The longest wait of one of them, by timer.
    waits: BTreeMap<String, u64>,
}

/// The number of normal executions that are examined.
const NORMAL_MAX: usize = 24;

impl Baseline {
    /// Makes the baseline, which is empty if no execution is known to be fast.
    pub(super) fn new(crew: &Crew, drawn: &[Candidate], detection: &Detection) -> Baseline {
        let Some(mode) = detection.normal.filter(|_| !detection.common_path()) else {
            return Baseline::default();
        };
        let usual = mode.low..=mode.high.min(detection.slow_limit);
        let normal =
            |c: &&Candidate| c.ran.measured.reached && usual.contains(&c.ran.measured.time);
        let normal = spread(&by_time(drawn.iter().filter(normal)), NORMAL_MAX);
        let paths = crew.map("normal executions", &normal, |lab, candidate| {
            Path::of(&lab.record(&candidate.draws)).waits()
        });
        let mut waits: BTreeMap<String, u64> = BTreeMap::new();
        for wait in paths.into_iter().flatten().flatten() {
            let most = waits.entry(wait.name).or_default();
            *most = wait.waited.max(*most);
        }
        Baseline { time: mode.median, waits }
    }

    /// Returns the nanoseconds by which a wait exceeds normal ones.
    fn excess(&self, wait: &TimerWait) -> u64 {
        wait.waited.saturating_sub(self.waits.get(&wait.name).copied().unwrap_or(0))
    }

    fn look(&self, candidate: Candidate, path: &Path) -> Suspect {
        let mut waits = path.waits();
        waits.retain(|wait| self.excess(wait) > 0);
        waits.sort_by_key(|wait| (Reverse(self.excess(wait)), wait.name.clone()));
        let long = waits.iter().filter(|wait| self.excess(wait) * 10 >= path.length());
        let mut timers: Vec<String> = long.map(|wait| wait.name.clone()).collect();
        timers.sort();
        let waited = seconds(waits.iter().map(|wait| self.excess(wait)).sum());
        Suspect { candidate, wait: waits.into_iter().next(), waited, timers }
    }
}

/// The number of drawn suspects that are examined; more of them would give the same result.
const UNIFORM_MAX: usize = 32;
const GUIDED_MAX: usize = 16;

/// Records suspects and determines what they waited for.
pub(super) fn suspects(
    crew: &Crew,
    candidates: &[Candidate],
    detection: &Detection,
    baseline: &Baseline,
) -> Vec<Suspect> {
    let slow = |uniform: bool| {
        let these = move |c: &&Candidate| (c.how == How::Uniform) == uniform;
        let slow = candidates.iter().filter(|c| c.is_slow(detection.slow_limit));
        by_time(slow.filter(these))
    };
    let mut chosen = spread(&slow(true), UNIFORM_MAX);
    chosen.extend(spread(&slow(false), GUIDED_MAX));
    let looked = crew.map("slow executions", &chosen, |lab, candidate| {
        baseline.look((*candidate).clone(), &Path::of(&lab.record(&candidate.draws)))
    });
    looked.into_iter().flatten().collect()
}

fn by_time<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Vec<&'a Candidate> {
    let mut sorted: Vec<&Candidate> = candidates.collect();
    sorted.sort_by(|a, b| a.ran.measured.time.total_cmp(&b.ran.measured.time));
    sorted
}

/// Returns evenly spaced elements, including the first and the last.
fn spread<'a>(all: &[&'a Candidate], max: usize) -> Vec<&'a Candidate> {
    let take = all.len().min(max);
    (0..take).map(|i| all[i * (all.len() - 1) / (take - 1).max(1)]).collect()
}

/// Returns the number of slow executions among those drawn that [`suspects`] leaves out.
pub(super) fn not_looked_at(candidates: &[Candidate], detection: &Detection) -> usize {
    let drawn = candidates.iter().filter(|c| c.how == How::Uniform);
    let slow = drawn.filter(|c| c.is_slow(detection.slow_limit)).count();
    slow.saturating_sub(UNIFORM_MAX)
}

/// Returns the execution with the median time, as an example of what all have in common.
pub(super) fn usual(drawn: &[Candidate]) -> Option<Candidate> {
    let ended = by_time(drawn.iter().filter(|c| c.ran.measured.reached));
    ended.get(ended.len() / 2).map(|usual| (*usual).clone())
}

/// Makes a group of one execution, if it waits for the timer at all.
pub(super) fn alone(crew: &Crew, candidate: Candidate, why: Why, timer: &str) -> Option<Group> {
    let path = crew.one("slow executions", |lab| Path::of(&lab.record(&candidate.draws)))?;
    path.waits().iter().find(|wait| wait.name == timer)?;
    let suspect = Baseline::default().look(candidate, &path);
    let signature = Signature { why, timers: vec![timer.to_owned()] };
    Some(Group { signature, members: vec![suspect] })
}

/// Suspects with the same signature, the simplest first.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) signature: Signature,
    pub(super) members: Vec<Suspect>,
}

/// Groups suspects into findings; those that are slow only by chance are left out.
pub(super) fn findings(
    suspects: Vec<Suspect>,
    detection: &Detection,
    baseline: &Baseline,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for suspect in suspects {
        let Some(why) = why(&suspect, detection, baseline) else { continue };
        let timers = timers(&suspect, detection);
        let signature = Signature { why, timers };
        match groups.iter_mut().find(|group| group.signature == signature) {
            Some(group) => group.members.push(suspect),
            None => groups.push(Group { signature, members: vec![suspect] }),
        }
    }
    for group in &mut groups {
        // An execution whose own path contains the timer is more informative; an unchanged
        // execution is simpler than a changed one, and a short one simpler than a long one.
        let timers = group.signature.timers.clone();
        group.members.sort_by_cached_key(|s| {
            let shows = s.wait.as_ref().is_some_and(|wait| timers.contains(&wait.name));
            let draws = &s.candidate.draws;
            (!shows, draws.changes.len(), s.candidate.ran.events, mix(draws.seed, 0))
        });
    }
    groups.sort_by_key(|group| (Reverse(group.members.len()), group.signature.clone()));
    groups
}

/// Returns the timers of a suspect's signature. If its end follows the multiples of the named
/// timer, that timer explains it, whichever of several simultaneous timers came first.
fn timers(suspect: &Suspect, detection: &Detection) -> Vec<String> {
    let follows = detection.follows(suspect.candidate.ran.measured.time);
    follows.map_or_else(|| suspect.timers.clone(), |fit| vec![format!("timer {}", fit.timer.name)])
}

fn why(suspect: &Suspect, detection: &Detection, baseline: &Baseline) -> Option<Why> {
    let measured = suspect.candidate.ran.measured;
    let longer = suspect.candidate.own_time() - baseline.time;
    // An injected delay may itself have waited for a timer.
    let put_in = measured.time - suspect.candidate.own_time();
    let waited = suspect.waited - put_in;
    let rounds = suspect.wait.as_ref().map_or(0, |wait| wait.rounds);
    // Within the normal mode, a wait for a timer means little unless the end follows its multiples.
    let apart = detection.is_apart(measured.time) || detection.follows(measured.time).is_some();
    if longer > 0.0 && waited >= longer / 2.0 && rounds <= ROUNDS_MAX && apart {
        return Some(Why::Timer);
    }
    if !measured.reached && put_in == 0.0 {
        return Some(Why::Unfinished);
    }
    // A timer with many rounds sets the pace; it does not repair.
    let paced = rounds > ROUNDS_MAX;
    let mut modes = detection.slow_modes().filter(|mode| detection.is_common(mode));
    let in_mode = modes.any(|m| measured.time >= m.low && measured.time <= m.high);
    let as_drawn = suspect.candidate.draws.changes.is_empty();
    (in_mode && !paced && as_drawn).then_some(Why::Mode)
}
