//! The distinct pairs of atoms that each scope shows together.

use everhold_property::Scope;
use everhold_trace::{NodeId, Order, Slice};

use super::atoms::{Atom, Atoms, NONE};
use super::rows::Pairs;
use crate::outcome::Bound;
use crate::states::States;
use crate::variables::KindId;

/// Pairs of atoms, packed and made distinct from time to time.
#[derive(Debug)]
struct Distinct {
    packed: Vec<u64>,
    /// The length at which they are next made distinct.
    next: usize,
    /// How many are kept at most, and whether there were more.
    max: usize,
    full: bool,
    samples: u64,
}

impl Distinct {
    fn within(max: usize) -> Distinct {
        let next = max.saturating_mul(2).min(1 << 20);
        Distinct { packed: Vec::new(), next, max, full: false, samples: 0 }
    }

    fn add(&mut self, left: Atom, right: Atom) {
        if self.full {
            return;
        }
        self.packed.push(u64::from(left) << 32 | u64::from(right));
        if self.packed.len() >= self.next {
            self.settle();
            self.next = self.packed.len() * 2;
            self.full = self.packed.len() > self.max;
        }
    }

    fn settle(&mut self) {
        self.packed.sort_unstable();
        self.packed.dedup();
    }

    fn finish(mut self) -> Pairs {
        self.settle();
        #[expect(clippy::cast_possible_truncation, reason = "this half is the whole")]
        let halves = |packed: &u64| ((packed >> 32) as u32, *packed as u32);
        let (left, right) = self.packed.iter().map(halves).unzip();
        Pairs::listed(left, right, self.samples)
    }
}

/// The pairs of all scopes, by the kinds of the two nodes.
#[derive(Debug)]
pub(super) struct Together<'a> {
    pub(super) atoms: &'a Atoms,
    pub(super) orders: &'a [Order],
    /// Distinct pairs kept in one scope and pair of kinds.
    pub(super) pairs_max: usize,
    /// Limits that were reached.
    pub(super) bounds: Vec<Bound>,
}

impl Together<'_> {
    /// The pairs of nodes of these kinds in a scope; of one kind, each pair in one of its orders.
    pub(super) fn pairs(&mut self, scope: Scope, left: KindId, right: KindId) -> Pairs {
        let mut found = Distinct::within(self.pairs_max);
        for run in 0..self.orders.len() {
            match scope {
                Scope::Delivery => self.deliveries(run, (left, right), &mut found),
                Scope::Chains => self.chains(run, (left, right), &mut found),
                _ => self.cuts(run, scope, (left, right), &mut found),
            }
        }
        if found.full {
            let (looked_at, all) = (found.packed.len() as u64, found.samples);
            self.bounds.push(Bound::PairsOfStates { looked_at, all });
        }
        found.finish()
    }

    fn cuts(&mut self, run: usize, scope: Scope, kinds: (KindId, KindId), found: &mut Distinct) {
        let (order, nodes) = (&self.orders[run], &self.atoms.runs[run]);
        let changes: Vec<Vec<u32>> = nodes.iter().map(|(_, atoms)| changes(atoms)).collect();
        let mut visit = |p: usize, q: usize, windows: &mut dyn Iterator<Item = (u32, u32, u32)>| {
            let (left, right) = (&nodes[p].1, &nodes[q].1);
            sweep(left, right, &changes[q], windows, found);
        };
        let wanted = |p: usize, q: usize| {
            let own = (nodes[p].0, nodes[q].0);
            if kinds.0 == kinds.1 {
                p < q && own == (Some(kinds.0), Some(kinds.1))
            } else {
                p != q && own == (Some(kinds.0), Some(kinds.1))
            }
        };
        if scope == Scope::EveryCut {
            let slice = Slice::consistent(order);
            slice.all_windows(|p, q, windows| {
                if wanted(p, q) {
                    let states = (0..).zip(windows);
                    visit(p, q, &mut states.map(|(state, (low, high))| (state, *low, *high)));
                }
            });
            return;
        }
        for p in 0..nodes.len() {
            for q in (0..nodes.len()).filter(|q| wanted(p, *q)) {
                let id = |place: usize| NodeId(u32::try_from(place).expect("fewer than 2^32"));
                let slice = Slice::quiet_among(order, &[id(p), id(q)]);
                let others = slice.states(1);
                let mut windows = slice
                    .windows(0, 1)
                    .map(|(state, window)| (state, others[*window.start()], others[*window.end()]));
                // Not every state between the ends need be quiet, so each is looked up.
                quiet_sweep(&nodes[p].1, &nodes[q].1, others, &mut windows, found);
            }
        }
    }

    /// The two ends of what nodes of a kind sent to themselves.
    pub(super) fn own_deliveries(&self, kind: KindId) -> Pairs {
        let mut found = Distinct::within(usize::MAX);
        for run in 0..self.orders.len() {
            self.ends(run, (kind, kind), true, &mut found);
        }
        found.finish()
    }

    fn deliveries(&self, run: usize, kinds: (KindId, KindId), found: &mut Distinct) {
        self.ends(run, kinds, false, found);
    }

    /// The two ends of each message: sent to itself, or to another node.
    fn ends(&self, run: usize, kinds: (KindId, KindId), own: bool, found: &mut Distinct) {
        let nodes = &self.atoms.runs[run];
        for delivery in self.orders[run].deliveries() {
            if (delivery.from == delivery.to) != own {
                continue;
            }
            let (from, to) = (&nodes[delivery.from.index()], &nodes[delivery.to.index()]);
            if (from.0, to.0) == (Some(kinds.0), Some(kinds.1)) {
                let pair = (from.1[delivery.sent as usize], to.1[delivery.received as usize]);
                together(pair, found);
            }
        }
    }

    /// Two nodes of one chain, in the order of the chain. Only those with its last two nodes: the
    /// others are met in the chain of the delivery before.
    fn chains(&self, run: usize, kinds: (KindId, KindId), found: &mut Distinct) {
        let nodes = &self.atoms.runs[run];
        let atom = |(node, state): &(NodeId, u32)| {
            let (kind, atoms) = &nodes[node.index()];
            (*kind, atoms[*state as usize])
        };
        for chain in self.orders[run].chains(nodes.len()) {
            let ends = chain.len().saturating_sub(2)..chain.len();
            for end in ends {
                for other in 0..end {
                    let (a, b) = (atom(&chain[other]), atom(&chain[end]));
                    if (a.0, b.0) == (Some(kinds.0), Some(kinds.1)) {
                        together((a.1, b.1), found);
                    } else if kinds.0 != kinds.1 && (b.0, a.0) == (Some(kinds.0), Some(kinds.1)) {
                        together((b.1, a.1), found);
                    }
                }
            }
        }
    }
}

fn together((left, right): (Atom, Atom), found: &mut Distinct) {
    found.samples += 1;
    if left != NONE && right != NONE {
        found.add(left, right);
    }
}

/// The states at which a sequence takes another atom.
fn changes(atoms: &[Atom]) -> Vec<u32> {
    let differs = |place: &usize| *place == 0 || atoms[*place] != atoms[place - 1];
    let state = |place: usize| u32::try_from(place).expect("event ids are 32 bits");
    (0..atoms.len()).filter(differs).map(state).collect()
}

/// All pairs of states that windows show together, each stretch of one atom once.
fn sweep(
    left: &[Atom],
    right: &[Atom],
    right_changes: &[u32],
    windows: &mut dyn Iterator<Item = (u32, u32, u32)>,
    found: &mut Distinct,
) {
    // The atom of the stretch of the left node, and how far the right node was followed in it.
    let mut stretch: Option<(Atom, u32)> = None;
    for (state, low, high) in windows {
        found.samples += u64::from(high - low + 1);
        let atom = left[state as usize];
        let from = match stretch {
            Some((same, done)) if same == atom => low.max(done + 1),
            _ => low,
        };
        stretch = Some((atom, high));
        if atom == NONE || from > high {
            continue;
        }
        let first = right[from as usize];
        if first != NONE {
            found.add(atom, first);
        }
        let next = right_changes.partition_point(|change| *change <= from);
        for change in right_changes[next..].iter().take_while(|change| **change <= high) {
            let other = right[*change as usize];
            if other != NONE {
                found.add(atom, other);
            }
        }
    }
}

/// Like [`sweep`], where only some states of the right node count.
fn quiet_sweep(
    left: &[Atom],
    right: &[Atom],
    others: &[u32],
    windows: &mut dyn Iterator<Item = (u32, u32, u32)>,
    found: &mut Distinct,
) {
    for (state, low, high) in windows {
        let begin = others.partition_point(|other| *other < low);
        let mut last = NONE;
        for other in others[begin..].iter().take_while(|other| **other <= high) {
            found.samples += 1;
            let atom = right[*other as usize];
            if atom != last && atom != NONE && left[state as usize] != NONE {
                found.add(left[state as usize], atom);
            }
            last = atom;
        }
    }
}

/// Each state of a node and the next, within one of its lives, as often as they occurred.
pub(super) fn all_steps(states: &States, atoms: &Atoms, kind: KindId) -> Vec<(Atom, Atom)> {
    let mut found = Vec::new();
    for (run, sequences) in states.runs.iter().zip(&atoms.runs) {
        for (node, (own, sequence)) in run.nodes.iter().zip(sequences) {
            if *own != Some(kind) {
                continue;
            }
            for at in 1..sequence.len() {
                let same_life = node.incarnation[at] == node.incarnation[at - 1];
                let step = (sequence[at - 1], sequence[at]);
                if same_life && step.0 != step.1 && step.0 != NONE && step.1 != NONE {
                    found.push(step);
                }
            }
        }
    }
    found
}

/// For each node, its first state in a run and its first state in the next run.
pub(super) fn starts(atoms: &Atoms, kind: KindId) -> Vec<(Atom, Atom)> {
    let groups = &atoms.kinds[kind].nodes;
    let mut last: Vec<Option<Atom>> = vec![None; atoms.nodes.len()];
    let mut found = Vec::new();
    for (own, sequence) in atoms.runs.iter().flatten() {
        let first = sequence.iter().find(|atom| **atom != NONE);
        if let (true, Some(first)) = (*own == Some(kind), first) {
            let before = last[groups[*first as usize] as usize].replace(*first);
            found.extend(before.map(|before| (before, *first)));
        }
    }
    found
}

/// The distinct ones among these steps.
pub(super) fn steps(all: &[(Atom, Atom)]) -> Pairs {
    let mut found = Distinct::within(usize::MAX);
    for step in all {
        together(*step, &mut found);
    }
    found.finish()
}

/// Each atom with itself.
pub(super) fn alone(states: &States, atoms: &Atoms, kind: KindId) -> Pairs {
    Pairs::alone(atoms.kinds[kind].len(), states.kinds[kind].times.iter().sum())
}
