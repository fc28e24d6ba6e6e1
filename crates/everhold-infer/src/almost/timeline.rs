//! When which nodes were in which states: the bindings of a class over the recorded order.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use super::domain::Domain;
use super::global::GlobalStates;
use super::items::Items;
use super::moments::Moments;
use crate::dictionary::hash_of;
use crate::states::{StateId, States};
use crate::variables::KindId;

/// The most node variables of a property.
pub(crate) const NODES_MAX: usize = 4;

/// A stretch of snapshots of one run in which the bound nodes kept their states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) states: [StateId; NODES_MAX],
    /// The same by their places among the states that each node shows.
    places: [u32; NODES_MAX],
    pub(crate) run: u32,
    /// The first snapshot, by its place among those that are judged.
    pub(crate) start: u32,
    /// The snapshot after the last.
    pub(crate) end: u32,
}

/// For each node of each run, from which snapshot on it is in which state.
pub(crate) struct Timelines {
    pub(crate) runs: Vec<RunTimeline>,
    /// How many states each node shows, over all runs.
    shown: Vec<u32>,
    /// The same of the whole.
    globals_shown: u32,
}

pub(crate) struct RunTimeline {
    pub(crate) snapshots: u32,
    pub(crate) nodes: Vec<(Option<KindId>, Line)>,
    /// The state changes of all nodes, in the order of time.
    pub(crate) turns: Vec<Turn>,
    /// The whole state, if that is asked for.
    global: Line,
}

/// From which snapshot on which state is shown.
type Line = Vec<Change>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    at: u32,
    state: StateId,
    /// Its place among the states of this node.
    place: u32,
}

/// From a snapshot on a node is in a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) at: u32,
    pub(crate) node: u32,
    pub(crate) state: StateId,
}

/// The states that each node shows, numbered in the order of first meeting.
#[derive(Default)]
struct Numbered(Vec<BTreeMap<StateId, u32>>);

impl Numbered {
    fn place(&mut self, node: usize, state: StateId) -> u32 {
        if self.0.len() <= node {
            self.0.resize_with(node + 1, BTreeMap::new);
        }
        let next = u32::try_from(self.0[node].len()).expect("states are 32 bits");
        *self.0[node].entry(state).or_insert(next)
    }

    fn shown(&self, node: usize) -> u32 {
        self.0.get(node).map_or(0, |of| u32::try_from(of.len()).expect("states are 32 bits"))
    }
}

/// Stands for the whole state in a tuple of nodes.
const GLOBAL: u32 = u32::MAX;

impl Timelines {
    /// In the snapshots at these moments.
    pub(crate) fn of(states: &States, globals: &GlobalStates, moments: &Moments) -> Timelines {
        let (mut numbered, mut numbered_globals) = (Numbered::default(), Numbered::default());
        let mut runs = Vec::new();
        for (place, run) in states.runs.iter().enumerate() {
            let moments = &moments.runs[place];
            let absent = || vec![Change { at: 0, state: States::ABSENT, place: 0 }];
            let mut nodes: Vec<(Option<KindId>, Line)> =
                run.nodes.iter().map(|node| (node.kind, absent())).collect();
            let mut turns = Vec::with_capacity(run.steps.len());
            let mut at = 0;
            for (event, step) in (0..).zip(&run.steps) {
                at += passed(&moments[at..], event);
                let node = step.node.index();
                turns.push(Turn { at: number(at), node: step.node.0, state: step.state });
                change(&mut nodes[node].1, at, step.state, || numbered.place(node, step.state));
            }
            let mut global = absent();
            let mut at = 0;
            for (event, state) in globals.of_run(place).unwrap_or_default() {
                at += passed(&moments[at..], *event);
                change(&mut global, at, *state, || numbered_globals.place(0, *state));
            }
            runs.push(RunTimeline { snapshots: number(moments.len()), nodes, turns, global });
        }
        let shown = (0..numbered.0.len()).map(|node| numbered.shown(node)).collect();
        Timelines { runs, shown, globals_shown: numbered_globals.shown(0) }
    }

    /// How many snapshots each run has.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().map(|run| run.snapshots)
    }

    /// The node tuples that a class can be bound to in some run, in order.
    pub(crate) fn tuples(&self, domain: &Domain) -> Vec<Vec<u32>> {
        let nodes = self.runs.iter().map(|run| run.nodes.len()).max().unwrap_or(0);
        let of_kind = |kind: KindId| {
            let is = move |id: &u32| {
                let here = |run: &RunTimeline| {
                    run.nodes.get(*id as usize).is_some_and(|node| node.0 == Some(kind))
                };
                self.runs.iter().any(here)
            };
            (0..u32::try_from(nodes).expect("node ids are 32 bits")).filter(is)
        };
        let mut tuples = vec![Vec::new()];
        for kind in &domain.kinds {
            let longer = |tuple: &Vec<u32>| {
                let free = |id: &u32| domain.link.is_some() || !tuple.contains(id);
                of_kind(*kind)
                    .filter(free)
                    .map(|id| [&tuple[..], &[id]].concat())
                    .collect::<Vec<_>>()
            };
            tuples = tuples.iter().flat_map(longer).collect();
        }
        if domain.global {
            tuples.iter_mut().for_each(|tuple| tuple.push(GLOBAL));
        }
        tuples
    }

    /// Calls `visit` with each stretch of a tuple of nodes that has rows, and the place of its
    /// binding among those of the tuple.
    pub(crate) fn each_span(
        &self,
        domain: &Domain,
        items: &Items,
        nodes: &[u32],
        mut visit: impl FnMut(Span, usize),
    ) {
        let mut met = Met::new(nodes.iter().map(|node| self.shown(*node)), self.stretches(nodes));
        self.spans(domain, nodes, |span| {
            if items.count(nodes, &span.states) > 0 {
                let place = met.place(&span);
                visit(span, place);
            }
        });
    }

    fn shown(&self, node: u32) -> u32 {
        match node {
            GLOBAL => self.globals_shown,
            node => self.shown.get(node as usize).copied().unwrap_or(0),
        }
    }

    /// The most bindings that these nodes can have.
    pub(crate) fn bindings_max(&self, nodes: &[u32]) -> usize {
        let all = nodes.iter().map(|node| self.shown(*node) as usize);
        all.fold(1, usize::saturating_mul).min(self.stretches(nodes))
    }

    /// About how many stretches these nodes have.
    fn stretches(&self, nodes: &[u32]) -> usize {
        let of = |run: &RunTimeline| nodes.iter().map(|node| run.line(*node).len()).sum::<usize>();
        self.runs.iter().map(of).sum()
    }

    /// Calls `visit` with each stretch in which these nodes show states and are of the kinds of
    /// the class, in the order of time.
    fn spans(&self, domain: &Domain, nodes: &[u32], mut visit: impl FnMut(Span)) {
        for (place, run) in self.runs.iter().enumerate() {
            let fits = |(node, kind): (&u32, &KindId)| {
                run.nodes.get(*node as usize).is_some_and(|node| node.0 == Some(*kind))
            };
            if nodes.iter().zip(&domain.kinds).all(fits) {
                let place = u32::try_from(place).expect("fewer than 2^32 runs");
                run.spans(place, nodes, &mut visit);
            }
        }
    }
}

impl RunTimeline {
    fn line(&self, node: u32) -> &[Change] {
        match node {
            GLOBAL => &self.global,
            node => self.nodes.get(node as usize).map_or(&[], |(_, line)| line),
        }
    }

    fn spans(&self, run: u32, nodes: &[u32], visit: &mut impl FnMut(Span)) {
        match *nodes {
            [a] => self.spans_of([a], run, visit),
            [a, b] => self.spans_of([a, b], run, visit),
            [a, b, c] => self.spans_of([a, b, c], run, visit),
            [a, b, c, d] => self.spans_of([a, b, c, d], run, visit),
            _ => unreachable!("a class has up to {NODES_MAX} places"),
        }
    }

    /// For each number of nodes compiled apart: this is walked for every class.
    fn spans_of<const N: usize>(&self, nodes: [u32; N], run: u32, visit: &mut impl FnMut(Span)) {
        let lines = nodes.map(|node| self.line(node));
        let mut next = [0; N];
        let mut span = Span {
            states: [States::ABSENT; NODES_MAX],
            places: [0; NODES_MAX],
            run,
            start: 0,
            end: 0,
        };
        while span.end < self.snapshots {
            span.start = span.end;
            span.end = self.snapshots;
            for of in 0..N {
                if let Some(change) = lines[of].get(next[of]).filter(|to| to.at == span.start) {
                    (span.states[of], span.places[of]) = (change.state, change.place);
                    next[of] += 1;
                }
                span.end = lines[of].get(next[of]).map_or(span.end, |to| span.end.min(to.at));
            }
            if span.states[..N].iter().all(|state| *state != States::ABSENT) {
                visit(span);
            }
        }
    }
}

/// The bindings of a tuple of nodes that were met, numbered in the order of first meeting.
enum Met {
    /// One place for each combination of states, where there are few beside the stretches.
    Dense {
        widths: [usize; NODES_MAX],
        places: Vec<u32>,
        count: u32,
    },
    Sparse {
        met: Vec<[StateId; NODES_MAX]>,
        table: HashTable<usize>,
    },
}

impl Met {
    fn new(shown: impl Iterator<Item = u32>, stretches: usize) -> Met {
        let mut widths = [1; NODES_MAX];
        widths.iter_mut().zip(shown).for_each(|(width, shown)| *width = shown.max(1) as usize);
        let all = widths.iter().try_fold(1_usize, |all, width| all.checked_mul(*width));
        match all.filter(|all| *all <= stretches.saturating_mul(2)) {
            Some(all) => Met::Dense { widths, places: vec![u32::MAX; all], count: 0 },
            None => Met::Sparse { met: Vec::new(), table: HashTable::new() },
        }
    }

    #[inline]
    fn place(&mut self, span: &Span) -> usize {
        match self {
            Met::Dense { widths, places, count } => {
                let at = span
                    .places
                    .iter()
                    .zip(widths)
                    .fold(0, |at, (place, width)| at * *width + *place as usize);
                if places[at] == u32::MAX {
                    places[at] = *count;
                    *count += 1;
                }
                places[at] as usize
            }
            Met::Sparse { met, table } => {
                let hash = |states: &[StateId; NODES_MAX]| hash_of(states);
                let same = |place: &usize| met[*place] == span.states;
                if let Some(place) = table.find(hash(&span.states), same) {
                    return *place;
                }
                let place = met.len();
                met.push(span.states);
                table.insert_unique(hash(&span.states), place, |place| hash(&met[*place]));
                place
            }
        }
    }
}

/// How many of the sorted moments are before this event.
fn passed(moments: &[u32], event: u32) -> usize {
    // Mostly none or one.
    moments.iter().take_while(|moment| **moment < event).count()
}

fn number(place: usize) -> u32 {
    u32::try_from(place).expect("event ids are 32 bits")
}

/// A line changes to a state before the snapshot of this place.
fn change(line: &mut Line, at: usize, state: StateId, place: impl FnOnce() -> u32) {
    let at = number(at);
    line.pop_if(|last| last.at == at);
    if line.last().is_none_or(|last| last.state != state) {
        line.push(Change { at, state, place: place() });
    }
}
