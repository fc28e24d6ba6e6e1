//! The method of measurement: CPU seconds of this process, medians over alternating rounds, bars.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::table::Table;

/// The amount of work of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// The minimum that shows that the benchmark still runs; the figures are meaningless.
    Smoke,
    /// Enough for reproducible figures.
    Full,
}

impl Size {
    /// The number of turns of each contender.
    pub(crate) fn rounds(self) -> usize {
        self.pick(1, 5)
    }

    /// Selects one of two values by size.
    pub(crate) fn pick<T>(self, smoke: T, full: T) -> T {
        match self {
            Size::Smoke => smoke,
            Size::Full => full,
        }
    }
}

/// CPU time of this process so far, of all its threads, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The work of a contender in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) executions: u64,
    /// The units of the comparison: messages delivered, or states generated.
    pub(crate) units: u64,
    /// Scheduling decisions.
    pub(crate) steps: u64,
}

/// A measured program or variant.
pub(crate) struct Contender {
    pub(crate) name: String,
    /// Performs about the given number of executions.
    body: Box<dyn Fn(u64) -> Work>,
}

impl Contender {
    /// A contender, whose turns are made long enough to measure.
    pub(crate) fn new(name: impl Into<String>, body: impl Fn(u64) -> Work + 'static) -> Self {
        Contender { name: name.into(), body: Box::new(body) }
    }

    fn turn(&self, executions: u64) -> (Work, f64) {
        let before = cpu_seconds();
        let work = (self.body)(executions);
        (work, cpu_seconds() - before)
    }

    /// The number of executions that take a little longer than [`TURN`].
    fn calibrate(&self, size: Size) -> u64 {
        let mut executions = 1;
        loop {
            let (_, seconds) = self.turn(executions);
            let turn = TURN.as_secs_f64();
            if size == Size::Smoke || seconds > turn {
                return executions;
            }
            if seconds > turn / 16.0 {
                return (executions as f64 * turn * 1.2 / seconds).ceil() as u64;
            }
            executions *= 4;
        }
    }
}

/// The minimum CPU time of one turn.
const TURN: Duration = Duration::from_millis(300);

/// The rates of a contender per CPU-second: the medians of its turns.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    pub(crate) name: String,
    pub(crate) executions: f64,
    pub(crate) units: f64,
    pub(crate) steps: f64,
    /// The work of one turn.
    pub(crate) work: Work,
    /// The difference between the slowest and the fastest turn, as a share of the median.
    pub(crate) spread: f64,
}

/// Gives each contender its turn, one after the other, for several rounds.
pub(crate) fn race(contenders: &[Contender], size: Size) -> Vec<Rates> {
    let counts: Vec<u64> = contenders.iter().map(|c| c.calibrate(size)).collect();
    let mut turns: Vec<Vec<(Work, f64)>> = vec![Vec::new(); contenders.len()];
    for _ in 0..size.rounds() {
        for (at, contender) in contenders.iter().enumerate() {
            turns[at].push(contender.turn(counts[at]));
        }
    }
    contenders.iter().zip(turns).map(|(contender, turns)| summary(&contender.name, turns)).collect()
}

fn summary(name: &str, mut turns: Vec<(Work, f64)>) -> Rates {
    turns.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (work, seconds) = turns[turns.len() / 2];
    let rate = |count: u64| count as f64 / seconds;
    let range = turns[turns.len() - 1].1 - turns[0].1;
    Rates {
        name: name.to_owned(),
        executions: rate(work.executions),
        units: rate(work.units),
        steps: rate(work.steps),
        work,
        spread: range / seconds,
    }
}

/// The one with the highest value.
pub(crate) fn fastest<'a>(
    rates: impl IntoIterator<Item = &'a Rates>,
    value: impl Fn(&Rates) -> f64,
) -> &'a Rates {
    let best = rates.into_iter().max_by(|a, b| value(a).total_cmp(&value(b)));
    best.expect("something was measured")
}

/// A claim with a measured number and its bound.
#[derive(Clone, Debug)]
struct Bar {
    claim: String,
    measured: f64,
    bound: Bound,
}

/// The bound on a measured number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn met_by(self, measured: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("at least {bound}x"),
            Bound::AtMost(bound) => format!("at most {bound}x"),
        }
    }
}

/// The bars of an area.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scorecard {
    bars: Vec<Bar>,
}

impl Scorecard {
    pub(crate) fn hold(&mut self, claim: impl Into<String>, measured: f64, bound: Bound) {
        self.bars.push(Bar { claim: claim.into(), measured, bound });
    }

    pub(crate) fn missed(&self) -> usize {
        self.bars.iter().filter(|bar| !bar.bound.met_by(bar.measured)).count()
    }

    pub(crate) fn print(&self) {
        if self.bars.is_empty() {
            return;
        }
        let mut table = Table::new(&["bar", "bound", "measured", ""]);
        for bar in &self.bars {
            let verdict = if bar.bound.met_by(bar.measured) { "pass" } else { "MISS" };
            table.row(vec![
                bar.claim.clone(),
                bar.bound.text(),
                format!("{:.2}x", bar.measured),
                verdict.to_owned(),
            ]);
        }
        table.print(&format!("Bars: {} of {} missed", self.missed(), self.bars.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_turn_gives_the_rates() {
        let work = Work { executions: 10, units: 100, steps: 50 };
        let rates = summary("x", vec![(work, 4.0), (work, 1.0), (work, 2.0)]);
        assert_eq!((rates.executions, rates.units, rates.steps), (5.0, 50.0, 25.0));
        assert_eq!(rates.spread, 1.5);
    }

    #[test]
    fn bars_are_met_or_missed() {
        let mut scores = Scorecard::default();
        scores.hold("fast", 3.0, Bound::AtLeast(3.0));
        scores.hold("small", 1.2, Bound::AtMost(1.1));
        assert_eq!(scores.missed(), 1);
    }
}
