//! From a failing schedule to a small one that fails for the same cause.
//!
//! Choices are removed, first in long stretches, then by node and label, at last in pairs. Every
//! candidate is replayed in up to two ways. First, a message is identified by the step that sent
//! it, so that removing a step also removes everything that follows from it: a timer takes its
//! whole round of a retry loop with it. Second, a choice whose message does not exist may use
//! another one of its sort: a round is left out, and the message of an earlier one takes its place.
//! Choices that no longer fit are skipped, those that happened are kept with the names that they
//! have now, and a candidate counts only if it fails for the same cause.
//!
//! Shrinking ends when nothing more can be removed or after a number of steps, both of which are
//! the same on every machine. The bound on time is for nodes whose steps are slow.

use std::collections::BTreeSet;
use std::time::Duration;

use everhold_node::NodeId;

use crate::clock::Stopwatch;
use crate::failure::Cause;
use crate::schedule::{Choice, Schedule};
use crate::strategy::script::{Fit, Happened, Line, Script, lines};

/// The largest number of steps of all tries together.
const STEPS_MAX: u64 = 2_000_000;
/// The same for progress: each try that fails has a fair tail of many rounds.
const STEPS_MAX_OF_PROGRESS: u64 = 8_000_000;
/// Schedules of at most this length are tried without each pair of choices.
const PAIRS_MAX: usize = 40;

/// The statistics of shrinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// The number of schedules that were tried.
    pub tries: u32,
    /// The number of steps of all tries.
    pub steps: u64,
    /// The time that shrinking took.
    pub time: Duration,
    /// The bound that was reached before nothing more could be removed.
    pub cut_short: Option<ShrinkBound>,
}

/// A bound on shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShrinkBound {
    /// The number of steps of all tries; the same on every machine.
    Steps,
    /// The time; a faster machine may get further.
    Time,
}

/// Runs scripts.
pub(crate) trait Oracle {
    fn run(&mut self, script: Script, seed: u64, cause: &Cause) -> Tried;

    /// Learns of the smallest schedule so far.
    fn keep(&mut self, schedule: Schedule) {
        drop(schedule);
    }
}

/// The result of a script.
pub(crate) struct Tried {
    /// The choices that happened, if it failed for the same cause.
    pub(crate) failing: Option<Vec<Happened>>,
    pub(crate) steps: u32,
    /// Whether a choice did not fit.
    pub(crate) skipped: bool,
}

/// Makes `schedule` smaller until nothing helps or a bound is reached.
pub(crate) fn shrink(
    schedule: Schedule,
    cause: &Cause,
    oracle: &mut dyn Oracle,
    time_max: Duration,
) -> (Schedule, Shrunk) {
    let (watch, seed) = (Stopwatch::start(), schedule.seed);
    let mut shrinker = Shrinker {
        best: Script::of(&schedule).lines,
        seed,
        cause,
        oracle,
        stats: Shrunk::default(),
        watch,
        time_max,
    };
    if shrinker.begin() {
        shrinker.go();
    }
    let stats = Shrunk { time: watch.elapsed(), ..shrinker.stats };
    let choices = shrinker.best.into_iter().map(|line| line.choice).collect();
    (Schedule { seed, choices }, stats)
}

struct Shrinker<'a> {
    best: Vec<Line>,
    seed: u64,
    cause: &'a Cause,
    oracle: &'a mut dyn Oracle,
    stats: Shrunk,
    watch: Stopwatch,
    time_max: Duration,
}

/// The size of a schedule: faults, then choices, then chosen values, then changes of node. Smaller
/// is better.
type Measure = (usize, usize, u64, usize);

impl Shrinker<'_> {
    fn is_over(&mut self) -> bool {
        let steps_max = if self.cause.is_progress() { STEPS_MAX_OF_PROGRESS } else { STEPS_MAX };
        if self.stats.cut_short.is_none() {
            self.stats.cut_short = if self.stats.steps >= steps_max {
                Some(ShrinkBound::Steps)
            } else {
                (self.watch.elapsed() > self.time_max).then_some(ShrinkBound::Time)
            };
        }
        self.stats.cut_short.is_some()
    }

    /// Learns which step sent which message. False if there is no time, or if the schedule does not
    /// fail.
    fn begin(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        let happened = self.run(self.best.clone(), Fit::Number).failing;
        happened.map(|happened| self.best = lines(happened)).is_some()
    }

    fn go(&mut self) {
        if self.cause.is_progress() || matches!(self.cause, Cause::Deadlock(_)) {
            self.end_in_tail();
        } else {
            self.drop_tail();
        }
        loop {
            let before = self.measure();
            self.drop_faults();
            self.thin(|_| true);
            self.thin_groups();
            self.lower_values();
            self.join_steps();
            if self.measure() >= before {
                self.drop_pairs();
            }
            if self.measure() >= before || self.is_over() {
                return;
            }
        }
    }

    fn measure(&self) -> Measure {
        measure(self.best.iter().map(|line| &line.choice))
    }

    fn run(&mut self, lines: Vec<Line>, fit: Fit) -> Tried {
        let script = Script { lines, fit, length: self.best.len() };
        let tried = self.oracle.run(script, self.seed, self.cause);
        self.stats.tries += 1;
        self.stats.steps += u64::from(tried.steps);
        tried
    }

    /// Accepts a candidate if it fails for the same cause and is smaller.
    fn accept(&mut self, candidate: &[Line]) -> bool {
        for fit in [Fit::Cause, Fit::CauseOrSort] {
            if self.is_over() {
                return false;
            }
            let tried = self.run(candidate.to_vec(), fit);
            if let Some(happened) = tried.failing
                && measure(happened.iter().map(|h| &h.choice)) < self.measure()
            {
                self.keep(happened);
                return true;
            }
            if !tried.skipped {
                return false;
            }
        }
        false
    }

    fn keep(&mut self, happened: Vec<Happened>) {
        self.best = lines(happened);
        let choices = self.best.iter().map(|line| line.choice.clone()).collect();
        self.oracle.keep(Schedule { seed: self.seed, choices });
    }

    /// Tries the schedule without the choices at these places.
    fn accept_without(&mut self, places: &[usize]) -> bool {
        let dropped: BTreeSet<usize> = places.iter().copied().collect();
        let kept = self.best.iter().filter(|line| !dropped.contains(&line.place)).cloned();
        let kept: Vec<Line> = kept.collect();
        self.accept(&kept)
    }

    /// Ends the schedule in a fair tail as early as possible. A failure that shows only at the end,
    /// when nothing happens any more or progress is overdue, needs a beginning and not the rest,
    /// which the tail supplies.
    fn end_in_tail(&mut self) {
        let tail = self.best.iter().position(|line| line.choice == Choice::Tail);
        let (mut low, mut high) = (0, tail.unwrap_or(self.best.len()));
        let whole = self.best.clone();
        // The shortest beginning that still fails; failing is not monotone, so this may miss it.
        while low < high && !self.is_over() {
            let middle = usize::midpoint(low, high);
            if self.fails_from(&whole[..middle]) { high = middle } else { low = middle + 1 }
        }
        if !self.best.iter().any(|line| line.choice == Choice::Tail) && !self.is_over() {
            self.fails_from(&whole[..high]);
        }
    }

    fn fails_from(&mut self, beginning: &[Line]) -> bool {
        let mut candidate = beginning.to_vec();
        let tail =
            Line { choice: Choice::Tail, place: beginning.len(), origin: None, newest: false };
        candidate.push(tail);
        let script = Script { length: candidate.len(), lines: candidate, fit: Fit::Cause };
        let tried = self.oracle.run(script, self.seed, self.cause);
        self.stats.tries += 1;
        self.stats.steps += u64::from(tried.steps);
        let Some(mut happened) = tried.failing else { return false };
        if happened.iter().all(|h| h.choice != Choice::Tail) {
            happened.push(Happened { choice: Choice::Tail, sent: 0, newest: false });
        }
        if happened.len() <= self.best.len() + 1 {
            self.keep(happened);
        }
        true
    }

    /// Drops the fair tail: a failure that shows at once does not need fairness.
    fn drop_tail(&mut self) {
        if let Some(tail) = self.best.iter().position(|line| line.choice == Choice::Tail) {
            self.accept_without(&[tail]);
        }
    }

    fn drop_faults(&mut self) {
        self.thin_from(1, Choice::is_fault);
    }

    /// Removes stretches of the choices of a sort, long stretches first.
    fn thin(&mut self, belongs: impl Fn(&Choice) -> bool) {
        self.thin_from(self.best.len(), belongs);
    }

    /// Does the same with stretches of at most `most` choices; later ones go first.
    fn thin_from(&mut self, most: usize, belongs: impl Fn(&Choice) -> bool) {
        let mut size = self.places(&belongs).len().min(most).max(1);
        loop {
            let mut end = usize::MAX;
            while end > 0 && !self.is_over() {
                let places = self.places(&belongs);
                end = end.min(places.len());
                let start = end.saturating_sub(size);
                if start < end {
                    self.accept_without(&places[start..end]);
                }
                end = start;
            }
            if size == 1 || self.is_over() {
                return;
            }
            size = size.div_ceil(2);
        }
    }

    /// The places of the choices of a sort. The beginning of the tail is not a choice that can be
    /// left out.
    fn places(&self, belongs: impl Fn(&Choice) -> bool) -> Vec<usize> {
        let is_one = |choice: &Choice| *choice != Choice::Tail && belongs(choice);
        self.best.iter().filter(|line| is_one(&line.choice)).map(|line| line.place).collect()
    }

    /// Removes groups: the steps of one node, or its steps for one reason, are often superfluous as
    /// a whole. The timer of a retry loop, removed in stretches, takes whole rounds with it.
    fn thin_groups(&mut self) {
        for node in self.groups(Choice::node) {
            let places = self.places(|choice| choice.node() == Some(node));
            self.accept_without(&places);
        }
        for group in self.groups(group) {
            self.thin(|choice| self::group(choice).as_ref() == Some(&group));
        }
    }

    fn groups<T: Ord>(&self, group: impl Fn(&Choice) -> Option<T>) -> BTreeSet<T> {
        self.best.iter().filter_map(|line| group(&line.choice)).collect()
    }

    /// Removes pairs: two choices may be superfluous only together, because one undoes the effect
    /// of the other.
    fn drop_pairs(&mut self) {
        let mut first = 0;
        while first < self.best.len() && self.best.len() <= PAIRS_MAX {
            let mut second = first + 1;
            while second < self.best.len() {
                if self.is_over() {
                    return;
                }
                let is_tail = |at: usize| self.best[at].choice == Choice::Tail;
                if is_tail(first) || is_tail(second) || !self.accept_without(&[first, second]) {
                    second += 1;
                }
            }
            first += 1;
        }
    }

    /// Lowers chosen values towards zero.
    fn lower_values(&mut self) {
        for at in 0..self.best.len() {
            if self.is_over() {
                return;
            }
            let Some(Choice::Choose { value, .. }) = self.best.get(at).map(|line| &line.choice)
            else {
                continue;
            };
            if *value == 0 {
                continue;
            }
            for lower in [0, *value / 2, value.saturating_sub(1)] {
                let mut candidate = self.best.clone();
                let Some(Choice::Choose { value, .. }) =
                    candidate.get_mut(at).map(|line| &mut line.choice)
                else {
                    break;
                };
                if lower >= *value {
                    break;
                }
                *value = lower;
                if self.accept(&candidate) {
                    break;
                }
            }
        }
    }

    /// Moves steps next to the last one of the same node, so that readers have fewer changes to
    /// follow.
    fn join_steps(&mut self) {
        for at in 1..self.best.len() {
            if self.is_over() {
                return;
            }
            let node_at = |at: usize| self.best.get(at).and_then(|line| line.choice.node());
            let Some(node) = node_at(at) else { continue };
            if node_at(at - 1) == Some(node) {
                continue;
            }
            if let Some(last) = (0..at).rev().find(|before| node_at(*before) == Some(node)) {
                let mut candidate = self.best.clone();
                let step = candidate.remove(at);
                candidate.insert(last + 1, step);
                self.accept(&candidate);
            }
        }
    }
}

/// The node of a choice and the name of its action there.
fn group(choice: &Choice) -> Option<(NodeId, String)> {
    let label = match choice {
        Choice::Deliver { kind, .. } => kind.as_str(),
        Choice::Timer { timer, .. } => timer.split('#').next().unwrap_or_default(),
        Choice::Poll { .. } => "task",
        _ => return None,
    };
    Some((choice.node()?, label.to_owned()))
}

fn measure<'a>(choices: impl Iterator<Item = &'a Choice>) -> Measure {
    let (mut faults, mut length, mut values, mut switches) = (0, 0, 0, 0);
    let mut last = None;
    for choice in choices {
        length += 1;
        match choice {
            choice if choice.is_fault() => faults += 1,
            Choice::Choose { value, .. } => values += u64::from(*value),
            _ => {}
        }
        if let Some(node) = choice.node() {
            switches += usize::from(last.is_some_and(|last| last != node));
            last = Some(node);
        }
    }
    (faults, length, values, switches)
}
