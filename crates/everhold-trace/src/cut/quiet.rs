//! Slicing for quiet cuts: the preorder, its components, and the least quiet cut of each state.

use std::borrow::Cow;

use super::{Components, RowOf, Slice};
use crate::NodeId;
use crate::order::{Order, join};

/// The cuts at which no message between `nodes` is in flight.
pub(super) fn slice(order: &Order, nodes: &[NodeId]) -> Slice<'static> {
    let graph = Graph::new(order, nodes);
    let Condensed { component, rows, components } = condense(&graph);
    let width = nodes.len();
    let last = last_quiet(order, nodes);
    let mut states = Vec::with_capacity(width);
    let mut row_of = Vec::with_capacity(width);
    for place in 0..width {
        // The empty cut is quiet; its row of zeros is the last one.
        let mut kept = vec![0];
        let mut listed = vec![index(components.count)];
        for state in 1..=graph.events(place) {
            let row = component[graph.id(place, state) as usize];
            let least = &rows[row as usize * width..(row as usize + 1) * width];
            // A state whose least quiet cut goes beyond it, or has a message in flight for ever, is
            // in no quiet cut.
            if least[place] == state && least.iter().zip(&last).all(|(at, last)| at <= last) {
                kept.push(state);
                listed.push(row);
            }
        }
        states.push(kept);
        row_of.push(RowOf::Listed(listed));
    }
    let rows = vec![Cow::Owned(rows)];
    Slice { nodes: nodes.to_vec(), states, row_of, rows, components: Some(components) }
}

/// The last state of each node in which it has not sent a message that never arrives at another of
/// these nodes, or at itself.
fn last_quiet(order: &Order, nodes: &[NodeId]) -> Vec<u32> {
    let place_of = places(order, nodes);
    let mut last: Vec<u32> = nodes.iter().map(|node| order.events_of(*node)).collect();
    for message in order.undelivered() {
        let Some(from) = place_of[message.from.index()] else { continue };
        if nodes.iter().any(|node| message.flies_to(*node)) {
            last[from] = last[from].min(message.sent - 1);
        }
    }
    last
}

/// The events of some nodes, and what each needs in a cut before it may be there.
struct Graph {
    /// The first id of each node's events; one more at the end.
    base: Vec<u32>,
    /// The needs of event `e` are `needs[start[e]..start[e + 1]]`.
    start: Vec<u32>,
    needs: Vec<u32>,
}

impl Graph {
    fn new(order: &Order, nodes: &[NodeId]) -> Graph {
        let mut base = vec![0];
        for node in nodes {
            base.push(base[base.len() - 1] + order.events_of(*node));
        }
        let mut graph = Graph { base, start: Vec::new(), needs: Vec::new() };
        let mut edges = Vec::new();
        for place in 0..nodes.len() {
            let own =
                (2..=graph.events(place)).map(|s| (graph.id(place, s), graph.id(place, s - 1)));
            edges.extend(own);
        }
        if nodes.len() == order.nodes() {
            graph.direct_causes(order, nodes, &mut edges);
        } else {
            graph.projected_causes(order, nodes, &mut edges);
        }
        graph.quiet_edges(order, nodes, &mut edges);
        graph.fill(&edges);
        graph
    }

    fn events(&self, place: usize) -> u32 {
        self.base[place + 1] - self.base[place]
    }

    /// The id of the event after which the node is in `state`.
    fn id(&self, place: usize, state: u32) -> u32 {
        self.base[place] + state - 1
    }

    /// With all nodes there, the messages are all the causes.
    fn direct_causes(&self, order: &Order, nodes: &[NodeId], edges: &mut Vec<(u32, u32)>) {
        let place_of = places(order, nodes);
        for d in order.deliveries() {
            let (Some(from), Some(to)) = (place_of[d.from.index()], place_of[d.to.index()]) else {
                continue;
            };
            edges.push((self.id(to, d.received), self.id(from, d.sent)));
        }
    }

    /// Causes that pass through other nodes show in the clocks.
    fn projected_causes(&self, order: &Order, nodes: &[NodeId], edges: &mut Vec<(u32, u32)>) {
        for (place, node) in nodes.iter().enumerate() {
            for (other, cause) in nodes.iter().enumerate().filter(|(other, _)| *other != place) {
                let mut before = 0;
                for state in 1..=self.events(place) {
                    let now = order.clock(*node, state)[cause.index()];
                    if now > before {
                        edges.push((self.id(place, state), self.id(other, now)));
                        before = now;
                    }
                }
            }
        }
    }

    /// A send needs its delivery: otherwise the message is in flight.
    fn quiet_edges(&self, order: &Order, nodes: &[NodeId], edges: &mut Vec<(u32, u32)>) {
        let place_of = places(order, nodes);
        for d in order.deliveries().iter().filter(|delivery| delivery.first) {
            let (Some(from), Some(to)) = (place_of[d.from.index()], place_of[d.to.index()]) else {
                continue;
            };
            edges.push((self.id(from, d.sent), self.id(to, d.received)));
        }
    }

    /// Sorts the edges by where they begin, by counting.
    fn fill(&mut self, edges: &[(u32, u32)]) {
        let events = self.base[self.base.len() - 1] as usize;
        self.start = vec![0; events + 1];
        for (from, _) in edges {
            self.start[*from as usize + 1] += 1;
        }
        for event in 0..events {
            self.start[event + 1] += self.start[event];
        }
        let mut next = self.start.clone();
        self.needs = vec![0; edges.len()];
        for (from, to) in edges {
            let at = &mut next[*from as usize];
            self.needs[*at as usize] = *to;
            *at += 1;
        }
    }

    fn needs(&self, event: u32) -> &[u32] {
        let (begin, end) = (self.start[event as usize], self.start[event as usize + 1]);
        &self.needs[begin as usize..end as usize]
    }
}

fn places(order: &Order, nodes: &[NodeId]) -> Vec<Option<usize>> {
    let mut place_of = vec![None; order.nodes()];
    for (place, node) in nodes.iter().enumerate() {
        place_of[node.index()] = Some(place);
    }
    place_of
}

struct Condensed {
    /// The component of each event.
    component: Vec<u32>,
    /// The least quiet cut of each component, and a row of zeros.
    rows: Vec<u32>,
    components: Components,
}

const UNSEEN: u32 = u32::MAX;

/// Tarjan's algorithm without recursion. It finishes a component only after all that it needs, so
/// the least cuts are joined in the same pass.
fn condense(graph: &Graph) -> Condensed {
    let events = graph.start.len() - 1;
    let mut tarjan = Tarjan {
        graph,
        found: vec![UNSEEN; events],
        lowest: vec![0; events],
        component: vec![UNSEEN; events],
        stack: Vec::new(),
        clock: 0,
        rows: Vec::new(),
        components: Components { count: 0, largest: 0 },
    };
    for event in 0..index(events) {
        if tarjan.found[event as usize] == UNSEEN {
            tarjan.visit(event);
        }
    }
    let Tarjan { component, mut rows, components, .. } = tarjan;
    rows.resize(rows.len() + graph.base.len() - 1, 0);
    Condensed { component, rows, components }
}

struct Tarjan<'a> {
    graph: &'a Graph,
    found: Vec<u32>,
    lowest: Vec<u32>,
    component: Vec<u32>,
    stack: Vec<u32>,
    clock: u32,
    rows: Vec<u32>,
    components: Components,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: u32) {
        let mut calls = vec![(root, 0)];
        self.enter(root);
        while let Some((event, edge)) = calls.last_mut() {
            let event = *event;
            match self.graph.needs(event).get(*edge) {
                Some(&need) => {
                    *edge += 1;
                    if self.found[need as usize] == UNSEEN {
                        self.enter(need);
                        calls.push((need, 0));
                    } else if self.component[need as usize] == UNSEEN {
                        self.lower(event, self.found[need as usize]);
                    }
                }
                None => {
                    calls.pop();
                    if self.lowest[event as usize] == self.found[event as usize] {
                        self.finish(event);
                    }
                    if let Some((caller, _)) = calls.last() {
                        self.lower(*caller, self.lowest[event as usize]);
                    }
                }
            }
        }
    }

    fn enter(&mut self, event: u32) {
        self.found[event as usize] = self.clock;
        self.lowest[event as usize] = self.clock;
        self.clock += 1;
        self.stack.push(event);
    }

    fn lower(&mut self, event: u32, to: u32) {
        let lowest = &mut self.lowest[event as usize];
        *lowest = (*lowest).min(to);
    }

    /// Takes the component of `root` off the stack and joins its least cut.
    fn finish(&mut self, root: u32) {
        let start = self.stack.iter().rposition(|event| *event == root).expect("root is on it");
        let members = self.stack.split_off(start);
        let number = index(self.components.count);
        for event in &members {
            self.component[*event as usize] = number;
        }
        let width = self.graph.base.len() - 1;
        let begin = self.rows.len();
        self.rows.resize(begin + width, 0);
        for event in &members {
            let (done, row) = self.rows.split_at_mut(begin);
            // The node whose ids start at or before this event.
            let place = self.graph.base.partition_point(|base| base <= event) - 1;
            row[place] = row[place].max(event - self.graph.base[place] + 1);
            for need in self.graph.needs(*event) {
                let other = self.component[*need as usize];
                if other != number {
                    let at = other as usize * width;
                    join(row, &done[at..at + width]);
                }
            }
        }
        self.components.count += 1;
        self.components.largest = self.components.largest.max(members.len());
    }
}

fn index(number: usize) -> u32 {
    u32::try_from(number).expect("event ids are 32 bits")
}
