//! The probability of a good end after each event of an execution.
//!
//! MacePC looks for one point after which none of k walks is good. That point depends on k: with 20
//! walks, a point from which 5 % of the walks are good is called lost in one of three cases. So the
//! whole curve is estimated here, with its uncertainty, and its falls are reported.

use serde::Serialize;

use super::normal::Share;

/// The effort for the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The number of points along the execution that are estimated first.
    pub points: usize,
    /// The number of walks from each of them.
    pub walks: u32,
    /// The number of walks from each point while a fall is narrowed down.
    pub closely: u32,
    /// The number of falls that are narrowed down.
    pub drops: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { points: 24, walks: 8, closely: 24, drops: 3 }
    }
}

/// A number of walks that branch off after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walks {
    /// The number of events after which they branch off.
    pub after: usize,
    /// The number of the first walk: walks with different numbers have different draws.
    pub first: u32,
    /// The number of walks.
    pub count: u32,
}

/// P(good) at one point of the execution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The number of events before it.
    pub after: usize,
    /// The share of walks from there that ended well.
    pub good: Share,
}

/// A fall of P(good).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fall {
    /// The event at which P(good) falls: before it, P(good) still has the old value.
    pub event: usize,
    /// The last event at which the fall may happen; the fall lies between `event` and this one.
    pub until: usize,
    /// P(good) before the fall.
    pub before: Share,
    /// P(good) after the fall.
    pub after: Share,
}

impl Fall {
    /// Returns the size of the fall.
    #[must_use]
    pub fn size(&self) -> f64 {
        self.before.rate() - self.after.rate()
    }
}

/// P(good) over an execution.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Curve {
    /// The points, in the order of the events.
    pub points: Vec<Point>,
    /// The falls of 0.2 or more, the largest first.
    pub falls: Vec<Fall>,
    /// The number of walks.
    pub walks: u64,
}

/// The smallest fall that is reported.
const FALL_MIN: f64 = 0.2;
/// The bound on the rounds of bisection: enough for 2^20 events.
const ROUNDS_MAX: usize = 20;

impl Curve {
    /// Estimates the curve of an execution of `events` events. `walk` runs batches of walks and
    /// returns how many of each were good; it may return fewer tries if it was interrupted.
    pub fn estimate(
        events: usize,
        effort: Effort,
        mut walk: impl FnMut(&[Walks]) -> Vec<Share>,
    ) -> Curve {
        let mut curve = Curve::default();
        let last = effort.points.max(2) - 1;
        let mut places: Vec<usize> = (0..=last).map(|i| events * i / last).collect();
        places.dedup();
        curve.add(&places, effort.walks, &mut walk);
        for _ in 0..effort.drops {
            let Some(at) = curve.widest_open_fall() else { break };
            curve.narrow(at, effort.closely, &mut walk);
        }
        curve.falls = curve.reported();
        curve
    }

    /// Moves each fall to the first event from there on that satisfies `may_be`.
    pub(super) fn blame(mut self, may_be: impl Fn(usize) -> bool) -> Curve {
        for fall in &mut self.falls {
            fall.event = (fall.event..).find(|event| may_be(*event)).unwrap_or(fall.event);
            fall.until = fall.until.max(fall.event);
        }
        self
    }

    /// Returns true if P(good) is low at the very beginning: nothing diverges, the common path is
    /// slow.
    #[must_use]
    pub fn lost_from_the_start(&self) -> bool {
        self.points.first().is_some_and(|point| point.good.band().1 < 0.5)
    }

    /// Returns the decisive fall, which is the largest.
    #[must_use]
    pub fn decisive(&self) -> Option<&Fall> {
        self.falls.first()
    }

    fn add(&mut self, places: &[usize], walks: u32, walk: &mut impl FnMut(&[Walks]) -> Vec<Share>) {
        let asked: Vec<Walks> = places
            .iter()
            .map(|after| {
                let known = self.points.iter().find(|p| p.after == *after);
                let first = known.map_or(0, |p| p.good.tries);
                Walks { after: *after, first, count: walks.saturating_sub(first) }
            })
            .filter(|asked| asked.count > 0)
            .collect();
        if asked.is_empty() {
            return;
        }
        for (asked, good) in asked.iter().zip(walk(&asked)) {
            self.walks += u64::from(good.tries);
            match self.points.binary_search_by_key(&asked.after, |p| p.after) {
                Ok(at) => self.points[at].good = self.points[at].good.plus(good),
                Err(at) => self.points.insert(at, Point { after: asked.after, good }),
            }
        }
    }

    /// Returns the largest fall that spans more than one event, as the index of the point before
    /// it.
    fn widest_open_fall(&self) -> Option<usize> {
        let open = (1..self.points.len())
            .filter(|at| self.points[*at].after - self.points[at - 1].after > 1);
        let size = |at: &usize| self.points[at - 1].good.rate() - self.points[*at].good.rate();
        let widest = open.max_by(|a, b| size(a).total_cmp(&size(b)).then(b.cmp(a)))?;
        (size(&widest) >= FALL_MIN).then_some(widest - 1)
    }

    /// Bisects the interval after a point until the fall is at one event.
    fn narrow(&mut self, at: usize, walks: u32, walk: &mut impl FnMut(&[Walks]) -> Vec<Share>) {
        let (mut low, mut high) = (self.points[at].after, self.points[at + 1].after);
        self.add(&[low, high], walks, walk);
        // The threshold is fixed by the ends: comparing with the last point would drift with its
        // noise.
        let half_way = f64::midpoint(self.rate(low), self.rate(high));
        for _ in 0..ROUNDS_MAX {
            if high - low <= 1 {
                break;
            }
            let middle = low + (high - low) / 2;
            self.add(&[middle], walks, walk);
            if self.rate(middle) > half_way {
                low = middle;
            } else {
                high = middle;
            }
        }
    }

    fn rate(&self, after: usize) -> f64 {
        let found = self.points.iter().find(|point| point.after == after);
        found.map_or(0.0, |point| point.good.rate())
    }

    fn reported(&self) -> Vec<Fall> {
        let falls = self.points.windows(2).map(|pair| Fall {
            event: pair[0].after,
            until: pair[1].after.saturating_sub(1),
            before: pair[0].good,
            after: pair[1].good,
        });
        let certain = |fall: &Fall| fall.size() >= FALL_MIN && fall.before.exceeds(fall.after);
        let mut falls: Vec<Fall> = falls.filter(certain).collect();
        falls.sort_by(|a, b| b.size().total_cmp(&a.size()).then(a.event.cmp(&b.event)));
        falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_node::fingerprint::mix;
    use everhold_sim::rng::Rng;

    /// Simulates walks whose probability of a good end after `k` events is known.
    fn walks(chance: impl Fn(usize) -> f64) -> impl FnMut(&[Walks]) -> Vec<Share> {
        move |asked| {
            let run = |walks: &Walks| {
                let good = |number: &u32| {
                    let seed = mix(walks.after as u64, u64::from(*number));
                    (Rng::new(seed).next() >> 11) as f64 / ((1u64 << 53) as f64)
                        < chance(walks.after)
                };
                let hits = (walks.first..walks.first + walks.count).filter(good).count() as u32;
                Share { hits, tries: walks.count }
            };
            asked.iter().map(run).collect()
        }
    }

    fn check(events: usize, chance: impl Fn(usize) -> f64, fall_at: Option<usize>) -> Curve {
        let curve = Curve::estimate(events, Effort::default(), walks(chance));
        let found = curve.decisive().map(|fall| fall.event);
        assert_eq!(found, fall_at, "{curve:#?}");
        curve
    }

    #[test]
    fn the_event_of_a_fall_is_found() {
        // A step is located exactly: each side has 24 walks, and 0.9 and 0 cannot be confused.
        for step in [1usize, 77, 500, 999] {
            check(1000, move |after| if after < step { 0.9 } else { 0.0 }, Some(step - 1));
        }
        let flat = check(1000, |_| 0.0, None);
        assert!(flat.lost_from_the_start());
        assert!(!check(1000, |_| 1.0, None).lost_from_the_start());
    }

    /// With two falls a single point is not enough; the curve shows both.
    #[test]
    fn every_fall_is_reported() {
        let chance = |after: usize| match after {
            0..300 => 1.0,
            300..700 => 0.5,
            _ => 0.0,
        };
        let curve = Curve::estimate(1000, Effort::default(), walks(chance));
        let falls_near = |event: usize| curve.falls.iter().any(|f| f.event.abs_diff(event) < 45);
        // P(good) is 0.5 at half height, with 24 walks: a place may be off by one step of the grid.
        assert!(falls_near(299) && falls_near(699), "{:?}", curve.falls);
    }

    #[test]
    fn executions_of_few_events() {
        check(0, |_| 1.0, None);
        check(1, |after| if after == 0 { 1.0 } else { 0.0 }, Some(0));
    }
}
