//! Which suspects are findings: by what they waited for.
//!
//! A heavy-tailed network makes some executions slow; that is no bug. A bug that a timer repairs
//! shows in the critical path: most of the extra time is a wait for that timer.

use everhold_node::fingerprint::mix;
use serde::Serialize;

use super::detect::{Detection, ROUNDS_MAX};
use super::lab::{Crew, seconds};
use super::modes::NORMAL_SHARE;
use super::path::{Path, TimerWait};
use super::search::{Candidate, How};
use crate::timed::Recorded;

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
    pub(super) waited: f64,
    pub(super) wait: Option<TimerWait>,
    timers: Vec<String>,
}

/// A normal execution, for comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Baseline {
    pub(super) time: f64,
    pub(super) waited: f64,
}

impl Baseline {
    /// If no execution is known to be fast, the comparison is with nothing.
    pub(super) fn new(normal: Option<&Recorded>, detection: &Detection) -> Baseline {
        match normal {
            Some(normal) if !detection.common_path() => Baseline {
                time: normal.run.time.as_secs_f64(),
                waited: seconds(Path::of(normal).timer_wait()),
            },
            _ => Baseline::default(),
        }
    }
}

/// Suspects that are looked at: all of them would say the same.
const UNIFORM_MAX: usize = 32;
const GUIDED_MAX: usize = 16;

/// Records suspects and says what they waited for.
pub(super) fn suspects(crew: &Crew, candidates: &[Candidate], slow_limit: f64) -> Vec<Suspect> {
    let slow = |how: fn(&How) -> bool| {
        let mut slow: Vec<&Candidate> =
            candidates.iter().filter(|c| how(&c.how) && c.is_slow(slow_limit)).collect();
        slow.sort_by(|a, b| a.ran.measured.time.total_cmp(&b.ran.measured.time));
        slow
    };
    let mut chosen = spread(&slow(|how| *how == How::Uniform), UNIFORM_MAX);
    chosen.extend(spread(&slow(|how| *how != How::Uniform), GUIDED_MAX));
    let looked = crew.map("slow executions", &chosen, |lab, candidate| {
        look((*candidate).clone(), &lab.record(&candidate.draws))
    });
    looked.into_iter().flatten().collect()
}

/// Evenly spaced elements, the first and the last among them.
fn spread<'a>(all: &[&'a Candidate], max: usize) -> Vec<&'a Candidate> {
    let take = all.len().min(max);
    (0..take).map(|i| all[i * (all.len() - 1) / (take - 1).max(1)]).collect()
}

fn look(candidate: Candidate, recorded: &Recorded) -> Suspect {
    let path = Path::of(recorded);
    let all: u64 = path.legs.iter().map(|leg| leg.to - leg.from).sum();
    let timers = path.totals().into_iter().filter_map(|(spent, time)| match spent {
        super::path::Spent::Timer(name) if time * 10 >= all => Some(name),
        _ => None,
    });
    Suspect {
        candidate,
        waited: seconds(path.timer_wait()),
        wait: path.dominant_timer(),
        timers: timers.collect(),
    }
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
    baseline: Baseline,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for suspect in suspects {
        let Some(why) = why(&suspect, detection, baseline) else { continue };
        let signature = Signature { why, timers: suspect.timers.clone() };
        match groups.iter_mut().find(|group| group.signature == signature) {
            Some(group) => group.members.push(suspect),
            None => groups.push(Group { signature, members: vec![suspect] }),
        }
    }
    for group in &mut groups {
        // An execution as it was drawn is simpler than one that was tampered with, a short one
        // simpler than a long one.
        group.members.sort_by(|a, b| {
            let key = |s: &Suspect| (s.candidate.draws.changes.len(), s.candidate.ran.events);
            key(a)
                .cmp(&key(b))
                .then(mix(a.candidate.draws.seed, 0).cmp(&mix(b.candidate.draws.seed, 0)))
        });
    }
    groups.sort_by_key(|group| (std::cmp::Reverse(group.members.len()), group.signature.clone()));
    groups
}

fn why(suspect: &Suspect, detection: &Detection, baseline: Baseline) -> Option<Why> {
    let measured = suspect.candidate.ran.measured;
    let longer = suspect.candidate.own_time() - baseline.time;
    // A delay that was put in may itself have run into a timer.
    let put_in = measured.time - suspect.candidate.own_time();
    let waited = suspect.waited - baseline.waited - put_in;
    let rounds = suspect.wait.as_ref().map_or(0, |wait| wait.rounds);
    if longer > 0.0 && waited >= longer / 2.0 && rounds <= ROUNDS_MAX {
        return Some(Why::Timer);
    }
    if !measured.reached && put_in == 0.0 {
        return Some(Why::Unfinished);
    }
    // A timer that works all the time sets the pace; it does not repair.
    let paced = rounds > ROUNDS_MAX;
    let common = |count: usize| count as f64 >= NORMAL_SHARE * detection.times.len() as f64;
    let mut modes = detection.slow_modes().filter(|mode| common(mode.count));
    let in_mode = modes.any(|m| measured.time >= m.low && measured.time <= m.high);
    (in_mode && !paced && suspect.candidate.how == How::Uniform).then_some(Why::Mode)
}
