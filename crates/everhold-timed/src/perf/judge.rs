//! Which suspects are findings: by what they waited for.
//!
//! A heavy-tailed network makes some executions slow; that is no bug. A bug that a timer repairs
//! shows in the critical path: most of the extra time is a wait for that timer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use everhold_node::fingerprint::mix;
use serde::Serialize;

use super::detect::Detection;
use super::lab::{Crew, seconds};
use super::multiples::ROUNDS_MAX;
use super::path::{Path, TimerWait};
use super::search::{Candidate, How};

/// Why a slow execution is a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// At least half of what it takes longer is a wait for timers.
    Timer,
    /// It belongs to a mode of its own that is not rare.
    Mode,
    /// It did not reach the stopping condition, others do.
    Unfinished,
    /// The more nodes there are, the more rounds of a timer it needs.
    Growth,
}

/// What makes two slow executions the same finding: why, and the timers that they wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Signature {
    /// Why it is one.
    pub why: Why,
    /// Timers with a tenth of the critical path or more.
    pub timers: Vec<String>,
}

/// A slow execution that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub(super) candidate: Candidate,
    /// The timer that it waits for longer than normal executions do, most of all.
    pub(super) wait: Option<TimerWait>,
    /// Seconds that it waits for timers longer than normal executions do.
    waited: f64,
    timers: Vec<String>,
}

/// Normal executions, for comparison. A wait that fast executions have as well is not what makes a
/// slow one slow: timers of heartbeats and of maintenance are on many paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    time: f64,
    /// By timer, the longest that one of them waits.
    waits: BTreeMap<String, u64>,
}

/// Normal executions that are looked at.
const NORMAL_MAX: usize = 24;

impl Baseline {
    /// If no execution is known to be fast, the comparison is with nothing.
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

    /// Nanoseconds that a wait takes longer than normal ones.
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

/// Suspects that are looked at: all of them would say the same.
const UNIFORM_MAX: usize = 32;
const GUIDED_MAX: usize = 16;

/// Records suspects and says what they waited for.
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

/// Evenly spaced elements, the first and the last among them.
fn spread<'a>(all: &[&'a Candidate], max: usize) -> Vec<&'a Candidate> {
    let take = all.len().min(max);
    (0..take).map(|i| all[i * (all.len() - 1) / (take - 1).max(1)]).collect()
}

/// Slow executions among those drawn that [`suspects`] leaves out because there are so many.
pub(super) fn not_looked_at(candidates: &[Candidate], detection: &Detection) -> usize {
    let drawn = candidates.iter().filter(|c| c.how == How::Uniform);
    let slow = drawn.filter(|c| c.is_slow(detection.slow_limit)).count();
    slow.saturating_sub(UNIFORM_MAX)
}

/// An execution in the middle, for what all executions have in common.
pub(super) fn usual(drawn: &[Candidate]) -> Option<Candidate> {
    let ended = by_time(drawn.iter().filter(|c| c.ran.measured.reached));
    ended.get(ended.len() / 2).map(|usual| (*usual).clone())
}

/// One execution as a group of its own, if it waits for the timer at all.
pub(super) fn alone(crew: &Crew, candidate: Candidate, why: Why, timer: &str) -> Option<Group> {
    let path = crew.one("slow executions", |lab| Path::of(&lab.record(&candidate.draws)))?;
    path.waits().iter().find(|wait| wait.name == timer)?;
    let suspect = Baseline::default().look(candidate, &path);
    let signature = Signature { why, timers: vec![timer.to_owned()] };
    Some(Group { signature, members: vec![suspect] })
}

/// Suspects that are the same finding, the simplest first.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) signature: Signature,
    pub(super) members: Vec<Suspect>,
}

/// Sorts suspects into findings; those that are only slow by chance are left out.
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
        // One whose own path shows the timer tells more; an execution as it was drawn is simpler
        // than one that was tampered with, a short one simpler than a long one.
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

/// The timer whose multiples the slow ones follow explains every one that ends after a multiple of
/// it, whichever timer of the same moment came first in that execution.
fn timers(suspect: &Suspect, detection: &Detection) -> Vec<String> {
    let follows = detection.follows(suspect.candidate.ran.measured.time);
    follows.map_or_else(|| suspect.timers.clone(), |fit| vec![format!("timer {}", fit.timer.name)])
}

fn why(suspect: &Suspect, detection: &Detection, baseline: &Baseline) -> Option<Why> {
    let measured = suspect.candidate.ran.measured;
    let longer = suspect.candidate.own_time() - baseline.time;
    // A delay that was put in may itself have run into a timer.
    let put_in = measured.time - suspect.candidate.own_time();
    let waited = suspect.waited - put_in;
    let rounds = suspect.wait.as_ref().map_or(0, |wait| wait.rounds);
    // Within the normal mode a path through a timer says little, unless the ends follow it.
    let apart = detection.is_apart(measured.time) || detection.follows(measured.time).is_some();
    if longer > 0.0 && waited >= longer / 2.0 && rounds <= ROUNDS_MAX && apart {
        return Some(Why::Timer);
    }
    if !measured.reached && put_in == 0.0 {
        return Some(Why::Unfinished);
    }
    // A timer that works all the time sets the pace; it does not repair.
    let paced = rounds > ROUNDS_MAX;
    let mut modes = detection.slow_modes().filter(|mode| detection.is_common(mode));
    let in_mode = modes.any(|m| measured.time >= m.low && measured.time <= m.high);
    let as_drawn = suspect.candidate.draws.changes.is_empty();
    (in_mode && !paced && as_drawn).then_some(Why::Mode)
}
