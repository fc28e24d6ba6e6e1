//! Which rules are too expensive.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use super::WatchOptions;
use crate::checker::PartitionChecker;
use crate::rule::{RuleCounts, RuleStatus};

/// The cost of the rules of a checker, as far as its thread has looked.
#[derive(Debug)]
pub(super) struct Costs {
    looked: Instant,
    /// For how long the thread had worked then, in nanoseconds; `None` where the system does not say.
    worked: Option<u64>,
    rules: BTreeMap<String, Cost>,
}

/// The cost of one rule when it was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    nanos: u64,
    nanos_max: u64,
    strikes: u32,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { looked: Instant::now(), worked: worked(), rules: BTreeMap::new() }
    }
}

impl Costs {
    /// The rules that are too expensive, each with its share of the time since this was last asked. It
    /// is asked by the thread that judges them.
    pub(super) fn costly(
        &mut self,
        checker: &PartitionChecker,
        options: WatchOptions,
        lagging: bool,
    ) -> Vec<(String, f64)> {
        let now = worked();
        let work = now.zip(self.worked).map(|(now, before)| now.saturating_sub(before));
        let seconds = self.looked.elapsed().as_secs_f64();
        (self.looked, self.worked) = (Instant::now(), now);
        let most = u64::try_from(options.evaluation_max.as_nanos()).unwrap_or(u64::MAX);
        let mut costly = Vec::new();
        for (name, RuleStatus { counts, disabled, .. }) in checker.rules() {
            if disabled {
                continue;
            }
            let before = self.rules.get(&name).copied().unwrap_or_default();
            let share = counts.nanos.saturating_sub(before.nanos) as f64 / (seconds * 1e9);
            let is_much = lagging && share * 100.0 > options.share_max as f64;
            let strikes = if is_much { before.strikes + 1 } else { 0 };
            if strikes >= 3 || is_slow(before.nanos_max, counts, work, most) {
                costly.push((name.clone(), share));
            }
            let RuleCounts { nanos, nanos_max, .. } = counts;
            self.rules.insert(name, Cost { nanos, nanos_max, strikes });
        }
        costly
    }
}

/// Whether an evaluation took longer than `most`. Evaluations are timed by the clock, which goes on
/// while the process is stopped or waits for a processor; then its thread has worked for less.
fn is_slow(before: u64, counts: RuleCounts, work: Option<u64>, most: u64) -> bool {
    let is_new = counts.nanos_max > before;
    is_new && counts.nanos_max > most && work.is_none_or(|work| work > most)
}

/// For how long this thread has had a processor, in nanoseconds.
fn worked() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().filter(|nanos| *nanos > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[track_caller]
    fn check(before: u64, longest: u64, work: Option<u64>, expected: bool) {
        let counts = RuleCounts { nanos_max: longest, ..RuleCounts::default() };
        assert_eq!(is_slow(before, counts, work, SECOND), expected);
    }

    #[test]
    fn a_process_that_was_stopped_is_no_expensive_rule() {
        check(0, 2 * SECOND, Some(2 * SECOND), true);
        check(0, 3 * SECOND, Some(SECOND / 10), false);
        check(3 * SECOND, 3 * SECOND, Some(2 * SECOND), false);
        check(0, 2 * SECOND, None, true);
        check(0, SECOND / 2, Some(SECOND), false);
    }

    /// The thread works for at least so long: the loop ends by its own count of work.
    #[test]
    fn a_thread_works_and_sleeps() {
        let Some(begun) = worked() else { return };
        std::thread::sleep(std::time::Duration::from_millis(300));
        let slept = worked().unwrap_or(0) - begun;
        assert!(slept < 100_000_000, "{slept} ns while it slept");
        let end = Instant::now() + std::time::Duration::from_secs(60);
        while worked().unwrap_or(0) < begun + 50_000_000 {
            assert!(Instant::now() < end, "it works");
        }
    }
}
