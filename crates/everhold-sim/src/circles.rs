//! The circles of an exhaustive search: ways to go on for ever while progress is owed.
//!
//! A search that enters each state once ends every path at a state that it knows, so it never sees
//! an endless execution whole. It keeps the graph of states instead. An endless execution stays in
//! the end within a strongly connected part of the graph. It violates progress if the same property
//! is owed in all of that part, and if it is fair: everything that is possible again and again
//! happens again and again, including every answer to a choice (strong fairness). A part in which
//! something is possible that leads out of it is therefore left, sooner or later, unless the
//! execution avoids the states in which it is possible; so these are removed and the rest is
//! examined again (the emptiness check of Streett automata).

use std::collections::{BTreeMap, BTreeSet};

/// The largest number of steps that are remembered.
const WAYS_MAX: usize = 1 << 22;
/// The name of a fault. Budgets make sure that none happens again and again.
pub(crate) const FAULT: u64 = 0;
/// No state.
const NOBODY: u32 = u32::MAX;

/// The states of a search, the steps between them, and the properties that are owed.
#[derive(Debug)]
pub(crate) struct Circles {
    numbers: BTreeMap<u64, u32>,
    states: Vec<Known>,
    ways: BTreeSet<Way>,
    /// The choices of the steps by which states were reached first, one after the other.
    choices: Vec<u32>,
    /// The present state.
    pub(crate) at: u32,
    /// Whether there were too many steps to remember.
    pub(crate) full: bool,
}

/// A state that the search has reached.
#[derive(Debug)]
struct Known {
    /// The properties that are owed in it, as bits.
    owed: u64,
    /// The state before it, when it was reached first.
    from: u32,
    /// The choices that led here from there, as a range.
    choices: (usize, usize),
    /// The number of steps that led here.
    depth: u32,
}

/// A step between two states, in the order of the states from which they lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    from: u32,
    name: u64,
    to: u32,
}

impl Circles {
    pub(crate) fn new() -> Circles {
        Circles {
            numbers: BTreeMap::new(),
            states: Vec::new(),
            ways: BTreeSet::new(),
            choices: Vec::new(),
            at: NOBODY,
            full: false,
        }
    }

    /// Begins an execution in this state, after these choices.
    pub(crate) fn begin(&mut self, fingerprint: u64, owed: u64, choices: &[u32]) {
        self.at = NOBODY;
        self.at = self.state(fingerprint, owed, choices);
    }

    /// Goes on to this state by a step with this name and these choices.
    pub(crate) fn go(&mut self, fingerprint: u64, owed: u64, name: u64, choices: &[u32]) {
        if self.full {
            return;
        }
        let from = self.at;
        let to = self.state(fingerprint, owed, choices);
        self.ways.insert(Way { from, name, to });
        self.at = to;
        self.full = self.ways.len() >= WAYS_MAX;
    }

    fn state(&mut self, fingerprint: u64, owed: u64, choices: &[u32]) -> u32 {
        if let Some(known) = self.numbers.get(&fingerprint) {
            return *known;
        }
        let number = self.states.len() as u32;
        let depth = self.states.get(self.at as usize).map_or(0, |before| before.depth + 1);
        let start = self.choices.len();
        self.choices.extend_from_slice(choices);
        let choices = (start, self.choices.len());
        self.states.push(Known { owed, from: self.at, choices, depth });
        self.numbers.insert(fingerprint, number);
        number
    }

    /// The choices that lead to a state from the beginning.
    pub(crate) fn path_to(&self, state: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut next = self.states.get(state as usize);
        while let Some(known) = next {
            path.extend(self.choices[known.choices.0..known.choices.1].iter().rev());
            next = self.states.get(known.from as usize);
        }
        path.reverse();
        path
    }

    /// The parts in which an execution can fairly stay for ever while a property is owed: all the
    /// time, or again and again if it must be true `at_end`. The states of each part are in the
    /// order of their distance from the beginning.
    pub(crate) fn endless(&self, property: u64, at_end: bool) -> Vec<Vec<u32>> {
        let is_owed = |state: &u32| self.states[*state as usize].owed & property != 0;
        let all = 0..self.states.len() as u32;
        let mut parts = vec![all.filter(|state| at_end || is_owed(state)).collect::<Vec<u32>>()];
        let mut inside = vec![NOBODY; self.states.len()];
        let mut endless = Vec::new();
        while let Some(part) = parts.pop() {
            for mut circle in self.connected(&part) {
                if !circle.iter().any(is_owed) {
                    continue;
                }
                let rest = self.without_exits(&circle, &mut inside);
                if rest.len() < circle.len() {
                    parts.push(rest);
                    continue;
                }
                circle.sort_by_key(|state| (self.states[*state as usize].depth, *state));
                endless.push(circle);
            }
        }
        endless
    }

    /// The states of a circle without those in which something is possible that never happens
    /// within the circle.
    fn without_exits(&self, circle: &[u32], inside: &mut [u32]) -> Vec<u32> {
        circle.iter().for_each(|state| inside[*state as usize] = circle[0]);
        let within = |way: &&Way| inside[way.to as usize] == circle[0];
        let ways = circle.iter().flat_map(|state| self.ways_from(*state));
        let taken: BTreeSet<u64> = ways.filter(within).map(|way| way.name).collect();
        let is_fair = |way: &Way| way.name == FAULT || taken.contains(&way.name);
        let stays = |state: &&u32| self.ways_from(**state).all(is_fair);
        let rest = circle.iter().filter(stays).copied().collect();
        circle.iter().for_each(|state| inside[*state as usize] = NOBODY);
        rest
    }

    fn ways_from(&self, state: u32) -> impl Iterator<Item = &Way> {
        let first = Way { from: state, name: 0, to: 0 };
        let last = Way { from: state, name: u64::MAX, to: NOBODY };
        self.ways.range(first..=last)
    }

    /// The strongly connected components of these states that have a step within (Tarjan's
    /// algorithm, with a stack of its own instead of recursion).
    fn connected(&self, states: &[u32]) -> Vec<Vec<u32>> {
        let mut search = Tarjan {
            order: states.iter().map(|state| (*state, None)).collect(),
            low: BTreeMap::new(),
            stack: Vec::new(),
            next: 0,
        };
        states.iter().flat_map(|root| search.from(*root, self)).collect()
    }
}

/// The state of Tarjan's algorithm. States that are done have the number [`NOBODY`].
struct Tarjan {
    order: BTreeMap<u32, Option<u32>>,
    low: BTreeMap<u32, u32>,
    stack: Vec<u32>,
    next: u32,
}

impl Tarjan {
    /// The components that are reached from a state and are not done yet.
    fn from(&mut self, root: u32, circles: &Circles) -> Vec<Vec<u32>> {
        let mut found = Vec::new();
        if self.order[&root].is_some() {
            return found;
        }
        self.enter(root);
        let mut path = vec![(root, circles.ways_from(root))];
        while let Some((state, ways)) = path.last_mut() {
            let state = *state;
            let Some(way) = ways.next() else {
                path.pop();
                let low = self.low[&state];
                if let Some((before, _)) = path.last() {
                    self.lower(*before, low);
                }
                found.extend(self.leave(state, circles));
                continue;
            };
            match self.order.get(&way.to) {
                Some(None) => {
                    self.enter(way.to);
                    path.push((way.to, circles.ways_from(way.to)));
                }
                Some(Some(number)) if *number != NOBODY => self.lower(state, *number),
                _ => {}
            }
        }
        found
    }

    fn enter(&mut self, state: u32) {
        self.order.insert(state, Some(self.next));
        self.low.insert(state, self.next);
        self.stack.push(state);
        self.next += 1;
    }

    fn lower(&mut self, state: u32, number: u32) {
        let low = self.low.get_mut(&state).expect("a state on the path was entered");
        *low = (*low).min(number);
    }

    /// The component whose first state this is, if it is one and has a step within.
    fn leave(&mut self, state: u32, circles: &Circles) -> Option<Vec<u32>> {
        if self.order[&state] != Some(self.low[&state]) {
            return None;
        }
        let at = self.stack.iter().rposition(|other| *other == state).expect("it was entered");
        let component = self.stack.split_off(at);
        for member in &component {
            self.order.insert(*member, Some(NOBODY));
        }
        let goes_round = component.len() > 1 || circles.ways_from(state).any(|w| w.to == state);
        goes_round.then_some(component)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// A random graph of few states, in which everything is reached from the first.
    fn graph(rng: &mut Rng, states: u32) -> Circles {
        let mut circles = Circles::new();
        let owed = |rng: &mut Rng| u64::from(rng.below(4) > 0);
        for state in 0..states {
            let owed = owed(rng);
            circles.at = if state == 0 { NOBODY } else { rng.below(state) };
            circles.state(u64::from(state), owed, &[state]);
        }
        for _ in 0..rng.below(3 * states) {
            let (from, to) = (rng.below(states), rng.below(states));
            circles.ways.insert(Way { from, name: u64::from(rng.below(4)), to });
        }
        circles
    }

    fn reaches(circles: &Circles, set: &[u32], from: u32, to: u32) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(state) = next.pop() {
            for way in circles.ways_from(state).filter(|way| set.contains(&way.to)) {
                if seen.insert(way.to) {
                    next.push(way.to);
                }
            }
        }
        seen.contains(&to)
    }

    /// Whether an execution that visits exactly these states again and again is fair and owes the
    /// property, by the definitions.
    fn is_endless(circles: &Circles, set: &[u32], at_end: bool) -> bool {
        let owed = |state: &u32| circles.states[*state as usize].owed & 1 == 1;
        let within = |way: &&Way| set.contains(&way.to);
        let ways = || set.iter().flat_map(|state| circles.ways_from(*state));
        let happens = |name: u64| ways().filter(within).any(|way| way.name == name);
        let is_fair = ways().all(|way| way.name == FAULT || happens(way.name));
        let is_owed = if at_end { set.iter().any(owed) } else { set.iter().all(owed) };
        let meets = |from: &u32| set.iter().all(|to| reaches(circles, set, *from, *to));
        is_fair && is_owed && set.iter().all(meets)
    }

    /// The twin examines every set of states.
    #[test]
    fn endless_parts_are_those_by_the_definition() {
        let mut rng = Rng::new(11);
        let mut some = 0;
        for round in 0..2_000 {
            let states = 1 + rng.below(6);
            let circles = graph(&mut rng, states);
            for at_end in [false, true] {
                let subsets = (1_u32..1 << states).map(|bits| {
                    (0..states).filter(|state| bits >> state & 1 == 1).collect::<Vec<u32>>()
                });
                let by_definition = subsets.filter(|set| is_endless(&circles, set, at_end));
                let exists = by_definition.count() > 0;
                let found = circles.endless(1, at_end);
                assert_eq!(!found.is_empty(), exists, "round {round}: {circles:?}");
                for mut part in found {
                    part.sort_unstable();
                    assert!(is_endless(&circles, &part, at_end), "round {round}: {part:?}");
                    some += 1;
                }
            }
        }
        assert!(some > 300, "{some} endless parts");
    }

    #[test]
    fn the_way_to_a_state_is_remembered() {
        let mut circles = Circles::new();
        circles.begin(7, 0, &[9]);
        circles.go(8, 0, 1, &[1, 2]);
        circles.go(9, 0, 1, &[3]);
        assert_eq!(circles.path_to(2), [9, 1, 2, 3]);
        circles.go(8, 0, 1, &[4]);
        assert_eq!((circles.at, circles.path_to(1)), (1, vec![9, 1, 2]));
    }
}
