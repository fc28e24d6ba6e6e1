//! From a failing schedule to a small one that fails alike.
//!
//! Every candidate is replayed tolerantly: what no longer fits is skipped, and only what was used
//! is kept. A candidate counts only if it fails for the same cause.

use std::time::Duration;

use everhold_node::NodeId;

use crate::clock::Stopwatch;
use crate::failure::Cause;
use crate::schedule::{Choice, Schedule};

/// What shrinking did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Schedules that were tried.
    pub tries: u32,
    /// How long it took.
    pub time: Duration,
    /// True if the time ran out before nothing more could be removed.
    pub cut_short: bool,
}

/// Answers whether a schedule fails for the same cause, and with which of its choices.
pub(crate) trait Oracle {
    fn reproduces(&mut self, schedule: &Schedule, cause: &Cause) -> Option<Vec<Choice>>;
}

/// Makes `schedule` smaller until nothing helps or the time is over.
pub(crate) fn shrink(
    schedule: Schedule,
    cause: &Cause,
    oracle: &mut dyn Oracle,
    time_max: Duration,
) -> (Schedule, Shrunk) {
    let watch = Stopwatch::start();
    let mut shrinker = Shrinker { best: schedule, cause, oracle, tries: 0, watch, time_max };
    shrinker.end_in_tail();
    loop {
        let before = shrinker.measure();
        shrinker.drop_faults();
        shrinker.drop_chunks();
        shrinker.lower_values();
        shrinker.join_steps();
        if shrinker.measure() >= before || shrinker.is_late() {
            break;
        }
    }
    let stats =
        Shrunk { tries: shrinker.tries, time: watch.elapsed(), cut_short: shrinker.is_late() };
    (shrinker.best, stats)
}

struct Shrinker<'a> {
    best: Schedule,
    cause: &'a Cause,
    oracle: &'a mut dyn Oracle,
    tries: u32,
    watch: Stopwatch,
    time_max: Duration,
}

impl Shrinker<'_> {
    fn is_late(&self) -> bool {
        self.watch.elapsed() > self.time_max
    }

    /// Smaller is better: faults, then steps, then chosen values, then changes of node.
    fn measure(&self) -> (usize, usize, u64, usize) {
        measure(&self.best)
    }

    /// Takes a candidate over if it fails alike and is smaller.
    fn accept(&mut self, choices: Vec<Choice>) -> bool {
        if self.is_late() {
            return false;
        }
        self.tries += 1;
        let candidate = Schedule { seed: self.best.seed, choices };
        let Some(choices) = self.oracle.reproduces(&candidate, self.cause) else { return false };
        let used = Schedule { seed: candidate.seed, choices };
        let smaller = measure(&used) < self.measure();
        if smaller {
            self.best = used;
        }
        smaller
    }

    /// A failure that shows only in the end, when nothing happens any more or for too long, needs
    /// a beginning and not the rest: let the fair tail supply that.
    fn end_in_tail(&mut self) {
        if !(self.cause.is_progress() || matches!(self.cause, Cause::Deadlock(_))) {
            return;
        }
        let tail = self.best.choices.iter().position(|choice| *choice == Choice::Tail);
        let end = tail.unwrap_or(self.best.choices.len());
        let (mut low, mut high) = (0, end);
        // The shortest beginning that still fails; failing is not monotone, so this may miss it.
        while low < high && !self.is_late() {
            let middle = usize::midpoint(low, high);
            if self.fails_from(middle) { high = middle } else { low = middle + 1 }
        }
        self.fails_from(high);
    }

    fn fails_from(&mut self, length: usize) -> bool {
        let mut choices = self.best.choices[..length.min(self.best.choices.len())].to_vec();
        choices.push(Choice::Tail);
        self.tries += 1;
        let candidate = Schedule { seed: self.best.seed, choices };
        let Some(mut used) = self.oracle.reproduces(&candidate, self.cause) else { return false };
        if !used.contains(&Choice::Tail) {
            used.push(Choice::Tail);
        }
        let used = Schedule { seed: candidate.seed, choices: used };
        if used.choices.len() <= self.best.choices.len() + 1 {
            self.best = used;
        }
        true
    }

    fn drop_faults(&mut self) {
        let mut at = self.best.choices.len();
        while at > 0 && !self.is_late() {
            at = at.min(self.best.choices.len());
            if at == 0 {
                break;
            }
            at -= 1;
            if matches!(self.best.choices[at], Choice::Fault(_)) {
                let mut choices = self.best.choices.clone();
                choices.remove(at);
                self.accept(choices);
            }
        }
    }

    /// Removes stretches of choices, long ones first.
    fn drop_chunks(&mut self) {
        let mut size = self.best.choices.len().div_ceil(2).max(1);
        loop {
            let mut end = self.best.choices.len();
            while end > 0 && !self.is_late() {
                end = end.min(self.best.choices.len());
                let start = end.saturating_sub(size);
                let mut choices = self.best.choices.clone();
                choices.drain(start..end);
                if end > 0
                    && self.best.choices.contains(&Choice::Tail)
                    && !choices.contains(&Choice::Tail)
                {
                    choices.push(Choice::Tail);
                }
                self.accept(choices);
                end = start;
            }
            if size == 1 || self.is_late() {
                return;
            }
            size = size.div_ceil(2);
        }
    }

    /// Chosen values towards zero.
    fn lower_values(&mut self) {
        for at in 0..self.best.choices.len() {
            let Some(Choice::Choose { value, .. }) = self.best.choices.get(at) else { continue };
            for lower in [0, *value / 2, value.saturating_sub(1)] {
                let mut choices = self.best.choices.clone();
                let Some(Choice::Choose { value, .. }) = choices.get_mut(at) else { break };
                if lower >= *value {
                    break;
                }
                *value = lower;
                if self.accept(choices) {
                    break;
                }
            }
        }
    }

    /// Moves steps next to the last one of the same node: fewer changes to follow with the eye.
    fn join_steps(&mut self) {
        for at in 1..self.best.choices.len() {
            let choices = &self.best.choices;
            let Some(node) = choices.get(at).and_then(node_of) else { continue };
            if choices.get(at - 1).and_then(node_of) == Some(node) {
                continue;
            }
            let last = choices[..at].iter().rposition(|choice| node_of(choice) == Some(node));
            if let Some(last) = last {
                let mut choices = choices.clone();
                let step = choices.remove(at);
                choices.insert(last + 1, step);
                self.accept(choices);
            }
        }
    }
}

fn measure(schedule: &Schedule) -> (usize, usize, u64, usize) {
    let values = schedule.choices.iter().map(|choice| match choice {
        Choice::Choose { value, .. } => u64::from(*value),
        _ => 0,
    });
    let nodes: Vec<NodeId> = schedule.choices.iter().filter_map(node_of).collect();
    let switches = nodes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    (schedule.faults(), schedule.choices.len(), values.sum(), switches)
}

fn node_of(choice: &Choice) -> Option<NodeId> {
    match choice {
        Choice::Deliver { to: node, .. }
        | Choice::Timer { node, .. }
        | Choice::Poll { node, .. }
        | Choice::Disconnected { node, .. }
        | Choice::Restart(node) => Some(*node),
        Choice::Heal
        | Choice::Fault(_)
        | Choice::Choose { .. }
        | Choice::Tail
        | Choice::Clock { .. } => None,
    }
}
