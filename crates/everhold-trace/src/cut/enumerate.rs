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
    low: Vec<Vec<u32>>,
    high: Vec<Vec<u32>>,
    /// Bounds at each depth: `depth * width + node`, given the nodes before `depth`.
    low_at: Vec<u32>,
    high_at: Vec<u32>,
    /// The position of each node in its states, and the states themselves.
    at: Vec<u32>,
    cut: Vec<u32>,
    begun: bool,
}

impl Cuts {
    pub(super) fn new(slice: &Slice<'_>) -> Cuts {
        let width = slice.nodes.len();
        let tables = |pick: fn(&(usize, usize)) -> usize| -> Vec<Vec<u32>> {
            (0..width).map(|p| table(slice, p, pick)).collect()
        };
        let last = |states: &Vec<u32>| position(states.len() - 1);
        let mut high_at = vec![0; (width + 1) * width];
        for (node, states) in slice.states.iter().enumerate() {
            high_at[node] = last(states);
        }
        Cuts {
            width,
            states: slice.states.clone(),
            low: tables(|window| window.0),
            high: tables(|window| window.1),
            low_at: vec![0; (width + 1) * width],
            high_at,
            at: vec![0; width],
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
        let mut depth = self.width.checked_sub(1)?;
        while self.at[depth] == self.high_at[depth * self.width + depth] {
            depth = depth.checked_sub(1)?;
        }
        self.place(depth, self.at[depth] + 1);
        if depth + 1 < self.width {
            self.settle_after(depth);
        }
        Some(&self.cut)
    }

    #[inline]
    fn place(&mut self, depth: usize, at: u32) {
        self.at[depth] = at;
        self.cut[depth] = self.states[depth][at as usize];
    }

    /// Puts every node from `depth` on at its least position.
    fn settle(&mut self, depth: usize) {
        for depth in depth..self.width {
            self.place(depth, self.low_at[depth * self.width + depth]);
            if depth + 1 < self.width {
                self.bound(depth);
            }
        }
    }

    fn settle_after(&mut self, depth: usize) {
        self.bound(depth);
        self.settle(depth + 1);
    }

    /// The bounds on the nodes after `depth`, given its new position.
    #[inline]
    fn bound(&mut self, depth: usize) {
        let width = self.width;
        let row = self.at[depth] as usize * width;
        let (now, next) = (depth * width, (depth + 1) * width);
        let low = &self.low[depth][row..row + width];
        let high = &self.high[depth][row..row + width];
        for node in depth + 1..width {
            self.low_at[next + node] = self.low_at[now + node].max(low[node]);
            self.high_at[next + node] = self.high_at[now + node].min(high[node]);
        }
    }
}

/// For each state of `p` the chosen end of its window in every node.
fn table(slice: &Slice<'_>, p: usize, pick: fn(&(usize, usize)) -> usize) -> Vec<u32> {
    let width = slice.nodes.len();
    let mut table = vec![0; slice.states[p].len() * width];
    for q in (0..width).filter(|q| *q != p) {
        for (index, (_, window)) in slice.windows(p, q).enumerate() {
            table[index * width + q] = position(pick(&window.into_inner()));
        }
    }
    table
}

fn position(place: usize) -> u32 {
    u32::try_from(place).expect("event ids are 32 bits")
}
