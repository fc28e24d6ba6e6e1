//! All cuts of a slice in lexical order, in the spirit of Garg's Lex algorithm.
//!
//! Where we differ: a prefix of compatible states always extends to a cut, so the bounds on each
//! next node follow from the states chosen before it and no candidate is ever rejected. The cost
//! of a cut is that of the positions that changed; most change only the last.

use super::Slice;

/// The cuts of a slice in lexical order; made by [`Slice::cuts`].
///
/// Lends each cut, so that no cut costs an allocation:
///
/// ```
/// # use everhold_trace::{EventKind, Order, Slice, TraceBuilder};
/// # let mut trace = TraceBuilder::new();
/// # let a = trace.add_node("a", "");
/// # trace.begin(a, EventKind::Start);
/// # let order = Order::of(&trace.finish());
/// let mut cuts = Slice::consistent(&order).cuts();
/// let mut seen = 0;
/// while let Some(_cut) = cuts.next_cut() {
///     seen += 1;
/// }
/// assert_eq!(seen, 2);
/// ```
#[derive(Clone, Debug)]
pub struct Cuts {
    width: usize,
    /// For each node, its states.
    states: Vec<Vec<u32>>,
    /// For each node and state, the least and greatest position of every node beside it.
    windows: Vec<Vec<(u32, u32)>>,
    /// Bounds at each depth: `depth * width + node`, given the nodes before `depth`.
    bounds: Vec<(u32, u32)>,
    /// The position of each node in its states, the last one it may take, and the state itself.
    at: Vec<u32>,
    last: Vec<u32>,
    cut: Vec<u32>,
    begun: bool,
}

impl Cuts {
    pub(super) fn new(slice: &Slice<'_>) -> Cuts {
        let width = slice.nodes.len();
        let mut bounds = vec![(0, 0); width * width];
        for (node, states) in slice.states.iter().enumerate() {
            bounds[node] = (0, position(states.len() - 1));
        }
        Cuts {
            width,
            states: slice.states.clone(),
            windows: (0..width).map(|p| table(slice, p)).collect(),
            bounds,
            at: vec![0; width],
            last: vec![0; width],
            cut: vec![0; width],
            begun: false,
        }
    }

    /// The next cut: one count of events a node, in the order of the slice's nodes.
    #[inline]
    pub fn next_cut(&mut self) -> Option<&[u32]> {
        if !self.begun {
            self.begun = true;
            self.settle(0);
            return Some(&self.cut);
        }
        let free = self.at.iter().zip(&self.last).rposition(|(at, last)| at < last)?;
        self.at[free] += 1;
        self.cut[free] = self.states[free][self.at[free] as usize];
        if free + 1 < self.width {
            self.bound(free);
            self.settle(free + 1);
        }
        Some(&self.cut)
    }

    /// Puts every node from `depth` on at its least position.
    fn settle(&mut self, depth: usize) {
        for depth in depth..self.width {
            let (low, high) = self.bounds[depth * self.width + depth];
            self.at[depth] = low;
            self.last[depth] = high;
            self.cut[depth] = self.states[depth][low as usize];
            if depth + 1 < self.width {
                self.bound(depth);
            }
        }
    }

    /// The bounds on the nodes after `depth`, given its new position.
    #[inline]
    fn bound(&mut self, depth: usize) {
        let (width, after) = (self.width, depth + 1);
        let row = self.at[depth] as usize * width;
        let windows = &self.windows[depth][row + after..row + width];
        let (now, next) = self.bounds.split_at_mut(after * width);
        let now = &now[depth * width + after..];
        for ((next, now), window) in next[after..width].iter_mut().zip(now).zip(windows) {
            *next = (now.0.max(window.0), now.1.min(window.1));
        }
    }
}

/// For each state of `p` the ends of its window in every node.
fn table(slice: &Slice<'_>, p: usize) -> Vec<(u32, u32)> {
    let width = slice.nodes.len();
    let mut table = vec![(0, 0); slice.states[p].len() * width];
    for q in (0..width).filter(|q| *q != p) {
        for (index, (_, window)) in slice.windows(p, q).enumerate() {
            let (low, high) = window.into_inner();
            table[index * width + q] = (position(low), position(high));
        }
    }
    table
}

fn position(place: usize) -> u32 {
    u32::try_from(place).expect("event ids are 32 bits")
}
