//! When which nodes were in which states: the bindings of a class over the recorded order.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use super::domain::Domain;
use super::evaluate::Coded;
use super::moments::Moments;
use super::parallel;
use super::worlds::Worlds;
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
    runs: Vec<RunTimeline>,
    /// How many states each node shows, over all runs.
    shown: Vec<u32>,
    /// The same of the whole.
    worlds_shown: u32,
}

struct RunTimeline {
    snapshots: u32,
    nodes: Vec<(Option<KindId>, Line)>,
    /// The whole state, if that is asked for.
    world: Line,
}

/// From which snapshot on which state is shown.
type Line = Vec<Change>;

#[derive(Clone, Copy, Debug)]
struct Change {
    at: u32,
    state: StateId,
    /// Its place among the states of this node.
    place: u32,
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
const WORLD: u32 = u32::MAX;

impl Timelines {
    /// In the snapshots at these moments.
    pub(crate) fn of(states: &States, worlds: &Worlds, moments: &Moments) -> Timelines {
        let (mut numbered, mut numbered_worlds) = (Numbered::default(), Numbered::default());
        let mut runs = Vec::new();
        for (place, run) in states.runs.iter().enumerate() {
            let moments = &moments.runs[place];
            let absent = || vec![Change { at: 0, state: States::ABSENT, place: 0 }];
            let mut nodes: Vec<(Option<KindId>, Line)> =
                run.nodes.iter().map(|node| (node.kind, absent())).collect();
            let mut at = 0;
            for (event, step) in (0..).zip(&run.steps) {
                at += passed(&moments[at..], event);
                let node = step.node.index();
                change(&mut nodes[node].1, at, step.state, || numbered.place(node, step.state));
            }
            let mut world = absent();
            let mut at = 0;
            for (event, state) in worlds.of_run(place).unwrap_or_default() {
                at += passed(&moments[at..], *event);
                change(&mut world, at, *state, || numbered_worlds.place(0, *state));
            }
            let snapshots = u32::try_from(moments.len()).expect("event ids are 32 bits");
            runs.push(RunTimeline { snapshots, nodes, world });
        }
        let shown = (0..numbered.0.len()).map(|node| numbered.shown(node)).collect();
        Timelines { runs, shown, worlds_shown: numbered_worlds.shown(0) }
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
        if domain.world {
            tuples.iter_mut().for_each(|tuple| tuple.push(WORLD));
        }
        tuples
    }

    /// Those of the tuples that some binding has.
    pub(crate) fn bound(
        &self,
        domain: &Domain,
        items: &Items<'_>,
        mut tuples: Vec<Vec<u32>>,
    ) -> Vec<Vec<u32>> {
        if domain.link.is_some() {
            tuples.retain(|nodes| {
                let mut bound = false;
                self.spans(domain, nodes, |span| {
                    items.each(nodes, &span.states, &mut |_| bound = true);
                });
                bound
            });
        }
        tuples
    }

    /// Calls `visit` with each stretch of a tuple of nodes, and the place of its binding among
    /// those of the tuple.
    pub(crate) fn each_span(
        &self,
        domain: &Domain,
        nodes: &[u32],
        mut visit: impl FnMut(Span, usize),
    ) {
        let mut met = Met::new(nodes.iter().map(|node| self.shown(*node)), self.stretches(nodes));
        self.spans(domain, nodes, |span| {
            let place = met.place(&span);
            visit(span, place);
        });
    }

    fn shown(&self, node: u32) -> u32 {
        match node {
            WORLD => self.worlds_shown,
            node => self.shown.get(node as usize).copied().unwrap_or(0),
        }
    }

    /// About how many stretches these nodes have.
    fn stretches(&self, nodes: &[u32]) -> usize {
        let of = |run: &RunTimeline| nodes.iter().map(|node| run.line(*node).len()).sum::<usize>();
        self.runs.iter().map(of).sum()
    }

    /// Calls `visit` with each stretch in which these nodes show states and are of the kinds of
    /// the class, in the order of time.
    pub(crate) fn spans(&self, domain: &Domain, nodes: &[u32], mut visit: impl FnMut(Span)) {
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
            WORLD => &self.world,
            node => self.nodes.get(node as usize).map_or(&[], |(_, line)| line),
        }
    }

    fn spans(&self, run: u32, nodes: &[u32], visit: &mut impl FnMut(Span)) {
        let mut lines = [&[][..]; NODES_MAX];
        lines.iter_mut().zip(nodes).for_each(|(line, node)| *line = self.line(*node));
        let lines = &lines[..nodes.len()];
        let mut next = [0; NODES_MAX];
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
            for (of, line) in lines.iter().enumerate() {
                if let Some(change) = line.get(next[of]).filter(|change| change.at == span.start) {
                    (span.states[of], span.places[of]) = (change.state, change.place);
                    next[of] += 1;
                }
                span.end = line.get(next[of]).map_or(span.end, |change| span.end.min(change.at));
            }
            if span.states[..nodes.len()].iter().all(|state| *state != States::ABSENT) {
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

/// A line changes to a state before the snapshot of this place.
fn change(line: &mut Line, at: usize, state: StateId, place: impl FnOnce() -> u32) {
    let at = u32::try_from(at).expect("event ids are 32 bits");
    line.pop_if(|last| last.at == at);
    if line.last().is_none_or(|last| last.state != state) {
        line.push(Change { at, state, place: place() });
    }
}

/// The elements over which a class ranges, by state.
pub(crate) struct Items<'a> {
    domain: &'a Domain,
    states: &'a States,
    coded: &'a Coded,
    /// For each element variable, where the rows of each state start.
    starts: Vec<Vec<u32>>,
}

impl<'a> Items<'a> {
    pub(crate) fn new(domain: &'a Domain, states: &'a States, coded: &'a Coded) -> Items<'a> {
        let starts =
            domain.ranges.iter().map(|range| starts(states, domain.kinds[range.node], range.table));
        Items { domain, states, coded, starts: starts.collect() }
    }

    /// Calls `visit` with the elements of each row of a binding of nodes in these states.
    pub(crate) fn each(
        &self,
        nodes: &[u32],
        states: &[StateId; NODES_MAX],
        visit: &mut dyn FnMut([u32; 2]),
    ) {
        let range = |place: usize| match self.domain.ranges.get(place) {
            Some(range) => {
                let (starts, state) = (&self.starts[place], states[range.node] as usize);
                starts[state]..starts[state + 1]
            }
            None => 0..1,
        };
        if !self.is_linked(nodes, states) {
            return;
        }
        for first in range(0) {
            if self.is_linked_by(nodes, first) {
                range(1).for_each(|second| visit([first, second]));
            }
        }
    }

    /// Whether the variable of the first node names the second.
    fn is_linked(&self, nodes: &[u32], states: &[StateId; NODES_MAX]) -> bool {
        self.domain.link.is_none_or(|link| {
            let column = &self.states.kinds[self.domain.kinds[0]];
            link.table > 0
                || column.column(0, link.variable)[states[0] as usize] == self.coded.node(nodes[1])
        })
    }

    /// Whether the element names the second node.
    fn is_linked_by(&self, nodes: &[u32], item: u32) -> bool {
        self.domain.link.is_none_or(|link| {
            let column = &self.states.kinds[self.domain.kinds[0]];
            link.table == 0
                || column.column(link.table, link.variable)[item as usize]
                    == self.coded.node(nodes[1])
        })
    }
}

/// Where the rows of each state start in a table, which may lie below another.
fn starts(states: &States, kind: KindId, table: usize) -> Vec<u32> {
    let of = &states.kinds[kind];
    let mut counts = vec![0u32; of.len() + 1];
    for row in 0..of.owners(table).len() {
        let (mut at, mut row) = (table, row);
        while at != 0 {
            row = of.owners(at)[row] as usize;
            at = states.variables.kinds[kind].tables[at].origin.container().map_or(0, |(t, _)| t);
        }
        counts[row + 1] += 1;
    }
    for place in 1..counts.len() {
        counts[place] += counts[place - 1];
    }
    counts
}

/// One whole, as a weight: that of a snapshot. Bindings of a snapshot share it.
pub(crate) const WHOLE: u64 = 1 << 32;

/// For each run, the weight of one binding in the snapshots up to each.
///
/// With spatial accounting a snapshot weighs the same however many bindings it has; one without
/// bindings has no weight, so that empty containers are no evidence.
pub(crate) struct Shares {
    /// For each run.
    sums: Vec<Vec<u64>>,
    /// How many rows each tuple of nodes has.
    pub(crate) rows: Vec<u64>,
}

impl Shares {
    pub(crate) fn of(
        timelines: &Timelines,
        domain: &Domain,
        items: &Items<'_>,
        tuples: &[Vec<u32>],
        threads: usize,
    ) -> Shares {
        let parts = threads.min(tuples.len()).max(1);
        let changes = parallel::map(parts, threads, |part| {
            let mut changes: Vec<Vec<i64>> =
                timelines.snapshots().map(|count| vec![0; count as usize + 1]).collect();
            let mut counts = Vec::new();
            for nodes in tuples.iter().skip(part).step_by(parts) {
                // The rows of each binding, counted when it is first met.
                let mut rows: Vec<i64> = Vec::new();
                timelines.each_span(domain, nodes, |span, place| {
                    if place == rows.len() {
                        rows.push(0);
                        items.each(nodes, &span.states, &mut |_| rows[place] += 1);
                    }
                    let rows = rows[place];
                    let changes = &mut changes[span.run as usize];
                    changes[span.start as usize] += rows;
                    changes[span.end as usize] -= rows;
                });
                counts.push(rows.iter().sum::<i64>().unsigned_abs());
            }
            (changes, counts)
        });
        let rows = (0..tuples.len()).map(|place| changes[place % parts].1[place / parts]).collect();
        let runs = timelines.snapshots().enumerate().map(|(run, snapshots)| {
            let (mut bindings, mut sum) = (0, 0);
            let mut sums = vec![0];
            for snapshot in 0..snapshots as usize {
                bindings += changes.iter().map(|(part, _)| part[run][snapshot]).sum::<i64>();
                sum += u64::try_from(bindings).ok().filter(|b| *b > 0).map_or(0, |b| WHOLE / b);
                sums.push(sum);
            }
            sums
        });
        Shares { sums: runs.collect(), rows }
    }

    pub(crate) fn weight(&self, span: &Span) -> u64 {
        let sums = &self.sums[span.run as usize];
        sums[span.end as usize] - sums[span.start as usize]
    }
}
