//! Max-min fair sharing of bandwidth: no flow can get a higher rate without lowering that of
//! another flow that has no more than it.
//!
//! Rates are floating-point numbers, computed only from sums, products and quotients, which are the
//! same on every platform.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use everhold_node::NodeId;

/// A message counts as sent when no more than this many bytes are left.
const NOTHING: f64 = 1e-6;

/// The transfers in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    /// The flows, by the number of the link.
    flows: BTreeMap<u32, Flow>,
    /// The time up to which the flows have been advanced.
    now: u64,
    /// Whether rates must be computed anew.
    stale: bool,
    /// The time of the next change; wake-ups at other times are left over from earlier rates.
    due: Option<u64>,
}

/// The messages of one link, which are sent one at a time.
#[derive(Clone, Debug)]
struct Flow {
    from: (NodeId, f64),
    to: (NodeId, f64),
    cap: f64,
    rate: f64,
    /// The bytes of the first message that are left.
    left: f64,
    line: VecDeque<(u32, u64)>,
}

impl Flows {
    /// Appends a message to the queue of its link. `ends` are sender and receiver with their upload
    /// and download capacities, in bytes per nanosecond.
    pub(crate) fn add(
        &mut self,
        now: u64,
        link: u32,
        ends: (NodeId, NodeId, f64, f64),
        cap: f64,
        (slot, bytes): (u32, u64),
    ) {
        self.advance(now);
        let (from, to, up, down) = ends;
        let flow = self.flows.entry(link).or_insert_with(|| {
            self.stale = true;
            let (from, to, left) = ((from, up), (to, down), bytes as f64);
            Flow { from, to, cap, rate: 0.0, left, line: VecDeque::new() }
        });
        flow.line.push_back((slot, bytes));
    }

    /// Returns the time at which to compute rates anew, unless that is scheduled already.
    pub(crate) fn look_at(&mut self, now: u64) -> Option<u64> {
        if !self.stale || self.due == Some(now) {
            return None;
        }
        self.due = Some(now);
        Some(now)
    }

    /// Advances all transfers to `now`.
    pub(crate) fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now) as f64;
        self.now = now;
        if passed > 0.0 {
            self.flows.values_mut().for_each(|flow| flow.left -= flow.rate * passed);
        }
    }

    /// Removes and returns a message that has been sent completely.
    pub(crate) fn finished(&mut self) -> Option<u32> {
        let (&link, flow) = self.flows.iter_mut().find(|(_, flow)| flow.left <= NOTHING)?;
        let (slot, _) = flow.line.pop_front()?;
        match flow.line.front() {
            Some((_, bytes)) => flow.left = *bytes as f64,
            None => {
                self.flows.remove(&link);
                self.stale = true;
            }
        }
        Some(slot)
    }

    /// Computes rates anew if something changed, and returns the time at which the next message
    /// ends.
    pub(crate) fn refill(&mut self, now: u64) -> Option<u64> {
        if std::mem::take(&mut self.stale) {
            self.share();
        }
        let through = |flow: &Flow| match flow.rate {
            rate if rate.is_infinite() => now,
            rate => now.saturating_add((flow.left / rate).max(0.0) as u64 + 1),
        };
        let next = self.flows.values().map(through).min();
        let known = std::mem::replace(&mut self.due, next);
        next.filter(|_| next != known || known == Some(now))
    }

    fn share(&mut self) {
        let mut ends: BTreeMap<(NodeId, bool), usize> = BTreeMap::new();
        let mut room = Vec::new();
        let mut number = |end: (NodeId, bool), rate: f64| {
            *ends.entry(end).or_insert_with(|| {
                room.push(rate);
                room.len() - 1
            })
        };
        let demands: Vec<Demand> = self
            .flows
            .values()
            .map(|flow| Demand {
                ends: [
                    number((flow.from.0, true), flow.from.1),
                    number((flow.to.0, false), flow.to.1),
                ],
                cap: flow.cap,
            })
            .collect();
        let rates = fair_rates(&demands, &room);
        for (flow, rate) in self.flows.values_mut().zip(rates) {
            if rate.is_infinite() {
                flow.left = 0.0;
            }
            flow.rate = rate;
        }
    }
}

/// A flow with unlimited demand.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// The two places (sender's uplink and receiver's downlink) whose capacity it uses.
    ends: [usize; 2],
    /// The upper bound on its rate.
    cap: f64,
}

/// Computes max-min fair rates by progressive filling: the place with the smallest equal share
/// saturates first, and its flows keep that rate. Shares never decrease, so a heap with outdated
/// entries, which are refreshed when popped, finds the place.
pub(crate) fn fair_rates(demands: &[Demand], room: &[f64]) -> Vec<f64> {
    let mut room = room.to_vec();
    let mut at_place: Vec<Vec<usize>> = vec![Vec::new(); room.len()];
    for (number, demand) in demands.iter().enumerate() {
        demand.ends.iter().for_each(|end| at_place[*end].push(number));
    }
    let mut open: Vec<usize> = at_place.iter().map(Vec::len).collect();
    let mut rates = vec![f64::NAN; demands.len()];
    let mut places: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let share = |room: f64, open: usize| (room / open as f64).max(0.0);
    // The bit patterns of positive floating-point numbers have the order of the numbers.
    places.extend((0..room.len()).map(|at| Reverse((share(room[at], open[at]).to_bits(), at))));
    let mut caps: Vec<usize> = (0..demands.len()).collect();
    caps.sort_by(|a, b| demands[*b].cap.total_cmp(&demands[*a].cap));
    loop {
        while caps.last().is_some_and(|flow| !rates[*flow].is_nan()) {
            caps.pop();
        }
        let Some(&least_cap) = caps.last() else { return rates };
        let full = loop {
            let Some(Reverse((known, at))) = places.pop() else { break None };
            if open[at] == 0 {
                continue;
            }
            let now = share(room[at], open[at]).to_bits();
            if now == known {
                break Some((now, at));
            }
            places.push(Reverse((now, at)));
        };
        let level = full.map_or(f64::INFINITY, |(bits, _)| f64::from_bits(bits));
        let capped = demands[least_cap].cap <= level;
        let done: Vec<usize> = match full {
            Some((bits, at)) if capped => {
                places.push(Reverse((bits, at)));
                vec![least_cap]
            }
            Some((_, at)) => {
                at_place[at].iter().copied().filter(|flow| rates[*flow].is_nan()).collect()
            }
            None => vec![least_cap],
        };
        let rate = if capped { demands[least_cap].cap } else { level };
        for flow in done {
            rates[flow] = rate;
            for end in demands[flow].ends {
                room[end] -= rate;
                open[end] -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_sim::rng::Rng;

    /// A reference implementation: raises all open flows together to the next full place or cap.
    fn water_filling(demands: &[Demand], room: &[f64]) -> Vec<f64> {
        let mut rates = vec![0.0; demands.len()];
        let mut open = vec![true; demands.len()];
        while open.contains(&true) {
            let used = |place: usize, rates: &[f64]| -> f64 {
                let here = |d: &Demand| d.ends.contains(&place);
                demands.iter().zip(rates).filter(|(d, _)| here(d)).map(|(_, rate)| rate).sum()
            };
            let growing = |place: usize, open: &[bool]| {
                demands
                    .iter()
                    .zip(open)
                    .filter(|(d, open)| **open && d.ends.contains(&place))
                    .count()
            };
            let mut step = f64::INFINITY;
            for (place, room) in room.iter().enumerate() {
                let count = growing(place, &open);
                if count > 0 {
                    step = step.min((room - used(place, &rates)) / count as f64);
                }
            }
            for flow in (0..demands.len()).filter(|flow| open[*flow]) {
                step = step.min(demands[flow].cap - rates[flow]);
            }
            (0..demands.len()).filter(|flow| open[*flow]).for_each(|flow| rates[flow] += step);
            for flow in 0..demands.len() {
                let full = |end: &usize| room[*end] - used(*end, &rates) < 1e-9;
                let capped = demands[flow].cap - rates[flow] < 1e-9;
                open[flow] &= !(capped || demands[flow].ends.iter().any(full));
            }
        }
        rates
    }

    #[test]
    fn rates_are_those_of_water_filling() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let places = 2 + rng.below(8) as usize;
            let room: Vec<f64> = (0..places).map(|_| f64::from(1 + rng.below(20))).collect();
            let half = places / 2;
            let demand = |rng: &mut Rng| Demand {
                ends: [
                    rng.below(half as u32) as usize,
                    half + rng.below((places - half) as u32) as usize,
                ],
                cap: f64::from(1 + rng.below(12)),
            };
            let demands: Vec<Demand> = (0..1 + rng.below(20)).map(|_| demand(&mut rng)).collect();
            let (fast, slow) = (fair_rates(&demands, &room), water_filling(&demands, &room));
            for (fast, slow) in fast.iter().zip(&slow) {
                assert!((fast - slow).abs() < 1e-6, "seed {seed}: {fast} and {slow}");
            }
        }
    }
}
