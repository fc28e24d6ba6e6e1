//! Families of cuts, without walking the lattice of global states.
//!
//! A [`Slice`] is a family of cuts that is closed under union and intersection: all consistent
//! cuts, or those at which the channels between some nodes are empty (*quiet* cuts, Dinv's ground
//! states). Three facts make it cheap:
//!
//! 1. Such a family is the down-sets of a preorder. For quiet cuts the preorder is happens-before
//!    plus, for each delivered message, an edge from its delivery back to its send; one pass over
//!    strongly connected components gives it. A message that never arrives, and was not lost, is in
//!    flight for ever: no quiet cut has its send.
//! 2. Local states that are pairwise compatible meet in some cut of the family, so a claim over k
//!    nodes needs only k-tuples of compatible states, not cuts: [`Slice::among`] k nodes.
//! 3. The states of one node that are compatible with a state of another form an interval whose
//!    ends only move forward: [`Slice::windows`] is one sweep.
//!
//! ```
//! use everhold_trace::{EventKind, Order, Slice, TraceBuilder};
//!
//! let mut trace = TraceBuilder::new();
//! let (a, b) = (trace.add_node("a", ""), trace.add_node("b", ""));
//! trace.begin(a, EventKind::Start);
//! let message = trace.send(b, "", None);
//! trace.begin(b, EventKind::Deliver { message });
//! let order = Order::of(&trace.finish());
//!
//! let mut cuts = Slice::quiet(&order).cuts();
//! assert_eq!(cuts.next_cut(), Some([0, 0].as_slice()));
//! assert_eq!(cuts.next_cut(), Some([1, 1].as_slice()));
//! assert_eq!(cuts.next_cut(), None);
//! ```

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::NodeId;
use crate::order::{Order, join};

mod enumerate;
mod quiet;

pub use enumerate::Cuts;

/// A family of cuts closed under union and intersection, over some nodes.
///
/// Its cuts are named by one count of events a node, in the order of [`Slice::nodes`].
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    nodes: Vec<NodeId>,
    /// For each node its local states that occur in some cut of the family, ascending; never
    /// empty, since the empty cut belongs to every family here.
    states: Vec<Vec<u32>>,
    /// For each node and state, the row of `rows` with its least cut.
    row_of: Vec<RowOf>,
    /// Least cuts: one count for each of `nodes`.
    rows: Vec<Cow<'a, [u32]>>,
    components: Option<Components>,
}

/// How the preorder of a quiet slice falls into components of events that come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Components {
    /// The number of cuts.
    pub count: usize,
    /// The number of events in the largest.
    pub largest: usize,
}

/// Where the least cut of a state is.
#[derive(Clone, Debug)]
enum RowOf {
    /// In the table of its node, at the number of the state.
    Direct(usize),
    /// In table 0, at the given row for each kept state.
    Listed(Vec<u32>),
}

impl<'a> Slice<'a> {
    /// All consistent cuts.
    #[must_use]
    pub fn consistent(order: &'a Order) -> Slice<'a> {
        Slice {
            nodes: order.node_ids().collect(),
            states: order.node_ids().map(|node| (0..=order.events_of(node)).collect()).collect(),
            row_of: (0..order.nodes()).map(RowOf::Direct).collect(),
            rows: order.node_ids().map(|node| Cow::Borrowed(order.rows(node))).collect(),
            components: None,
        }
    }

    /// All consistent cuts as `nodes` see them: the compatible tuples of their states.
    ///
    /// # Panics
    ///
    /// When a node is named twice.
    #[must_use]
    pub fn among(order: &Order, nodes: &[NodeId]) -> Slice<'static> {
        assert_distinct(nodes);
        let project = |node: &NodeId| {
            let clocks = order.rows(*node).chunks_exact(order.nodes());
            clocks.flat_map(|clock| nodes.iter().map(|other| clock[other.index()])).collect()
        };
        Slice {
            nodes: nodes.to_vec(),
            states: nodes.iter().map(|node| (0..=order.events_of(*node)).collect()).collect(),
            row_of: (0..nodes.len()).map(RowOf::Direct).collect(),
            rows: nodes.iter().map(project).map(Cow::Owned).collect(),
            components: None,
        }
    }

    /// The cuts with no message in flight anywhere.
    #[must_use]
    pub fn quiet(order: &Order) -> Slice<'static> {
        quiet::slice(order, &order.node_ids().collect::<Vec<_>>())
    }

    /// The cuts with no message in flight between the given nodes (nor from one to itself), as
    /// these nodes see them.
    ///
    /// In a pipelined system the whole is almost never quiet; the few nodes that a property
    /// mentions often are.
    ///
    /// # Panics
    ///
    /// When a node is named twice.
    #[must_use]
    pub fn quiet_among(order: &Order, nodes: &[NodeId]) -> Slice<'static> {
        assert_distinct(nodes);
        quiet::slice(order, nodes)
    }

    /// The nodes, in the order in which cuts list them.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The components of a quiet slice.
    #[must_use]
    pub fn components(&self) -> Option<Components> {
        self.components
    }

    /// The local states of the node at `place` in [`Slice::nodes`] that occur in some cut.
    #[must_use]
    pub fn states(&self, place: usize) -> &[u32] {
        &self.states[place]
    }

    /// The least cut of the family in which the node at `place` is in its `index`-th state.
    #[must_use]
    pub fn least(&self, place: usize, index: usize) -> &[u32] {
        let width = self.nodes.len();
        let (table, row) = match &self.row_of[place] {
            RowOf::Direct(table) => (*table, self.states[place][index] as usize),
            RowOf::Listed(rows) => (0, rows[index] as usize),
        };
        &self.rows[table][row * width..(row + 1) * width]
    }

    /// The least cut of the family with these states, given as (place of node, state), if any
    /// cut of the family has all of them.
    #[must_use]
    pub fn cut_with(&self, states: &[(usize, u32)]) -> Option<Vec<u32>> {
        let mut cut = vec![0; self.nodes.len()];
        for &(place, state) in states {
            let index = self.states[place].binary_search(&state).ok()?;
            join(&mut cut, self.least(place, index));
        }
        states.iter().all(|(place, state)| cut[*place] == *state).then_some(cut)
    }

    /// For each state of the node at place `p`, the states of the node at place `q` that occur
    /// with it in some cut: an interval of positions in `states(q)`, never empty, whose ends never
    /// move back.
    ///
    /// ```
    /// # use everhold_trace::{EventKind, Order, Slice, TraceBuilder};
    /// # let mut trace = TraceBuilder::new();
    /// # let (a, b) = (trace.add_node("a", ""), trace.add_node("b", ""));
    /// # trace.begin(a, EventKind::Start);
    /// # let message = trace.send(b, "", None);
    /// # trace.begin(b, EventKind::Deliver { message });
    /// # let order = Order::of(&trace.finish());
    /// // One message from the first node to the second.
    /// let windows: Vec<_> = Slice::consistent(&order).windows(0, 1).collect();
    /// assert_eq!(windows, [(0, 0..=0), (1, 0..=1)]);
    /// ```
    pub fn windows(
        &self,
        p: usize,
        q: usize,
    ) -> impl Iterator<Item = (u32, RangeInclusive<usize>)> {
        let others = &self.states[q];
        let (mut low, mut high) = (0, 0);
        self.states[p].iter().enumerate().map(move |(index, &state)| {
            let need = self.least(p, index)[q];
            while others[low] < need {
                low += 1;
            }
            while high + 1 < others.len() && self.least(q, high + 1)[p] <= state {
                high += 1;
            }
            debug_assert!(low <= high, "a state of the family occurs in some cut");
            (state, low..=high)
        })
    }

    /// The number of pairs of states of two nodes that occur together.
    #[must_use]
    pub fn pairs(&self, p: usize, q: usize) -> u64 {
        let size = |(_, window): (u32, RangeInclusive<usize>)| window.end() - window.start() + 1;
        self.windows(p, q).map(size).map(|size| u64::try_from(size).expect("fits")).sum()
    }

    /// The windows of every ordered pair of nodes: `visit` gets the places of the two nodes and,
    /// for each state of the first, the least and greatest position among the states of the
    /// second. Much faster than [`Slice::windows`] for each pair when nodes are many, since it
    /// reads the least cuts in blocks of a cache line.
    pub fn all_windows(&self, mut visit: impl FnMut(usize, usize, &[(u32, u32)])) {
        let width = self.nodes.len();
        let blocks = || (0..width).step_by(BLOCK).map(|b| b..(b + BLOCK).min(width));
        let mut windows = Vec::new();
        for ps in blocks() {
            for qs in blocks().filter(|qs| qs.start >= ps.start) {
                let forward: Vec<_> = ps.clone().map(|p| self.columns(p, qs.clone())).collect();
                let back: Vec<_> = qs.clone().map(|q| self.columns(q, ps.clone())).collect();
                for (i, p) in ps.clone().enumerate() {
                    for (j, q) in qs.clone().enumerate().filter(|(_, q)| p < *q) {
                        let (needs_q, needs_p) = (&forward[i][j], &back[j][i]);
                        self.sweep(p, q, needs_q, needs_p, &mut windows);
                        visit(p, q, &windows);
                        self.sweep(q, p, needs_p, needs_q, &mut windows);
                        visit(q, p, &windows);
                    }
                }
            }
        }
    }

    /// For each state of `p`, the states that it requires of the nodes at places `qs`.
    fn columns(&self, p: usize, qs: std::ops::Range<usize>) -> Vec<Vec<u32>> {
        let count = self.states[p].len();
        let mut columns = vec![Vec::with_capacity(count); qs.len()];
        for index in 0..count {
            let row = &self.least(p, index)[qs.clone()];
            columns.iter_mut().zip(row).for_each(|(column, need)| column.push(*need));
        }
        columns
    }

    fn sweep(
        &self,
        p: usize,
        q: usize,
        needs_q: &[u32],
        needs_p: &[u32],
        windows: &mut Vec<(u32, u32)>,
    ) {
        let others = &self.states[q];
        let (mut low, mut high) = (0, 0);
        windows.clear();
        windows.extend(self.states[p].iter().zip(needs_q).map(|(state, need)| {
            while others[low] < *need {
                low += 1;
            }
            while needs_p.get(high + 1).is_some_and(|need| need <= state) {
                high += 1;
            }
            let position = |place| u32::try_from(place).expect("event ids are 32 bits");
            (position(low), position(high))
        }));
    }

    /// All cuts of the family, in lexical order. There can be exponentially many.
    #[must_use]
    pub fn cuts(&self) -> Cuts {
        Cuts::new(self)
    }
}

/// Nodes in one block: 16 counts of 4 bytes are one cache line.
const BLOCK: usize = 16;

fn assert_distinct(nodes: &[NodeId]) {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "each node once: {nodes:?}");
}
