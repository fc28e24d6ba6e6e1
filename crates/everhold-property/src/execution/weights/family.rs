//! The family of cuts that are allowed, as the closures of a graph.
//!
//! Events that come together form a group; groups that every cut has, and those that no cut can
//! have, are taken out. What is left are groups that each need some groups before them.

use everhold_trace::EventId;

use super::closure::Graph;
use super::events::{Allowed, Events};
use crate::execution::Trace;

/// The groups of events of a family of cuts.
#[derive(Debug)]
pub(super) struct Family {
    /// The group of each event, or [`FORCED`] or [`FORBIDDEN`].
    group: Vec<u32>,
    /// The number of groups. Each group needs only groups before it.
    pub(super) groups: usize,
    /// For each group, the last event in the recorded order of the least cut that has it.
    last: Vec<u32>,
    graph: Graph,
}

/// Every cut has the event.
const FORCED: u32 = u32::MAX;
/// No cut has the event.
const FORBIDDEN: u32 = u32::MAX - 1;

impl Family {
    /// Returns `None` if no cut is allowed.
    pub(super) fn of(trace: &Trace<'_>, allowed: &Allowed) -> Option<Family> {
        if allowed.none {
            return None;
        }
        let needs = needs(trace, &allowed.edges);
        let events = trace.execution.events().len();
        let mut group: Vec<u32> = vec![0; events];
        if !allowed.forbidden.is_empty() {
            let back = transposed(&needs);
            reach(&back, &allowed.forbidden, |event| group[event] = FORBIDDEN);
        }
        let mut possible = true;
        reach(&needs, &allowed.forced, |event| {
            possible &= group[event] != FORBIDDEN;
            group[event] = FORCED;
        });
        if !possible {
            return None;
        }
        let groups = if allowed.edges.is_empty() {
            let free = group.iter_mut().filter(|group| **group == 0);
            free.zip(0..).map(|(group, number)| *group = number).count()
        } else {
            condense(&needs, &mut group)
        };
        let (graph, last) = quotient(&needs, &group, groups);
        Some(Family { group, groups, last, graph })
    }

    /// The weights of the groups, and that of what every cut has.
    fn weigh(&self, events: &Events) -> (i64, Vec<i64>) {
        let mut base = events.base;
        let mut weights = vec![0; self.groups];
        for (group, weight) in self.group.iter().zip(&events.weights) {
            match *group {
                FORCED => base += weight,
                FORBIDDEN => {}
                group => weights[group as usize] += weight,
            }
        }
        (base, weights)
    }

    /// The weight of the least cut, and the graph with the weights of the groups.
    pub(super) fn weighed(&mut self, events: &Events) -> (i64, &Graph) {
        let (base, weights) = self.weigh(events);
        self.graph.weights = weights;
        (base, &self.graph)
    }

    /// Adds the groups one by one, those first whose least cuts were complete first, until `test`
    /// of the weight is true. Returns the groups of that cut.
    pub(super) fn walk(&self, base: i64, test: impl Fn(i64) -> bool) -> Option<Vec<bool>> {
        let mut taken = vec![false; self.groups];
        let mut weight = base;
        if test(weight) {
            return Some(taken);
        }
        let mut order: Vec<usize> = (0..self.groups).collect();
        order.sort_by_key(|group| (self.last[*group], *group));
        for group in order {
            taken[group] = true;
            weight += self.graph.weights[group];
            if test(weight) {
                return Some(taken);
            }
        }
        None
    }

    /// Whether simple bounds show that no cut weighs nothing.
    pub(super) fn is_never_zero(&self, base: i64) -> bool {
        let sum = |sign: i64| {
            let counted = self.graph.weights.iter().filter(|weight| **weight * sign > 0);
            counted.sum::<i64>()
        };
        base + sum(-1) > 0 || base + sum(1) < 0
    }

    /// The number of events of each node in a cut.
    pub(super) fn cut(&self, trace: &Trace<'_>, taken: &[bool]) -> Vec<u32> {
        let mut cut = vec![0; trace.members.len()];
        for (event, group) in trace.execution.events().iter().zip(&self.group) {
            let has = match *group {
                FORCED => true,
                FORBIDDEN => false,
                group => taken[group as usize],
            };
            cut[event.node.index()] += u32::from(has);
        }
        cut
    }
}

/// The needs of each event: the event of its node before it, the sends of what it received, and what
/// the edges say.
fn needs(trace: &Trace<'_>, edges: &[(EventId, EventId)]) -> Graph {
    let execution = trace.execution;
    let visit_all = |visit: &mut dyn FnMut(EventId, EventId)| {
        for node in execution.node_ids() {
            for pair in execution.events_of(node).windows(2) {
                visit(pair[1], pair[0]);
            }
        }
        for message in execution.messages() {
            let Some(sent) = message.sent else { continue };
            for receive in &message.delivered {
                if execution.event(*receive).node != execution.event(sent).node {
                    visit(*receive, sent);
                }
            }
        }
        edges.iter().for_each(|(from, to)| visit(*from, *to));
    };
    let events = execution.events().len();
    let mut graph = Graph { start: vec![0; events + 1], ..Graph::default() };
    visit_all(&mut |from, _| graph.start[from.index() + 1] += 1);
    fill(&mut graph, |put| visit_all(&mut |from, to| put(from.0, to.0)));
    graph
}

/// Sorts edges by where they begin, once `start` has their numbers.
fn fill(graph: &mut Graph, edges: impl Fn(&mut dyn FnMut(u32, u32))) {
    for vertex in 1..graph.start.len() {
        graph.start[vertex] += graph.start[vertex - 1];
    }
    let mut next = graph.start.clone();
    graph.needs = vec![0; *graph.start.last().expect("there is a first entry") as usize];
    let needs = &mut graph.needs;
    edges(&mut |from, to| {
        needs[next[from as usize] as usize] = to;
        next[from as usize] += 1;
    });
}

fn transposed(graph: &Graph) -> Graph {
    let vertices = graph.start.len() - 1;
    let visit_all = |visit: &mut dyn FnMut(u32, u32)| {
        for vertex in 0..vertices {
            graph.needs(vertex).iter().for_each(|need| visit(*need, index(vertex)));
        }
    };
    let mut back = Graph { start: vec![0; vertices + 1], ..Graph::default() };
    visit_all(&mut |from, _| back.start[from as usize + 1] += 1);
    fill(&mut back, |put| visit_all(put));
    back
}

/// Visits all that can be reached from these events, themselves included, once.
fn reach(graph: &Graph, from: &[EventId], mut visit: impl FnMut(usize)) {
    if from.is_empty() {
        return;
    }
    let mut seen = vec![false; graph.start.len() - 1];
    let mut todo: Vec<usize> = from.iter().map(|event| event.index()).collect();
    while let Some(event) = todo.pop() {
        if !std::mem::replace(&mut seen[event], true) {
            visit(event);
            todo.extend(graph.needs(event).iter().map(|need| *need as usize));
        }
    }
}

/// Gives each free event the number of its group, and returns the number of groups. This is Tarjan's
/// algorithm without recursion, which finishes a group after all that it needs.
fn condense(needs: &Graph, group: &mut [u32]) -> usize {
    const UNSEEN: u32 = u32::MAX;
    let mut found: Vec<u32> = vec![UNSEEN; group.len()];
    let mut lowest: Vec<u32> = vec![0; group.len()];
    let mut next: Vec<u32> = needs.start[..group.len()].to_vec();
    let mut finished: Vec<bool> = group.iter().map(|group| *group != 0).collect();
    let (mut open, mut calls, mut clock, mut groups) = (Vec::new(), Vec::new(), 0, 0);
    for root in 0..group.len() {
        if finished[root] || found[root] != UNSEEN {
            continue;
        }
        calls.push(root);
        while let Some(&event) = calls.last() {
            if found[event] == UNSEEN {
                (found[event], lowest[event]) = (clock, clock);
                clock += 1;
                open.push(event);
            }
            if next[event] < needs.start[event + 1] {
                let need = needs.needs[next[event] as usize] as usize;
                if finished[need] {
                    next[event] += 1;
                } else if found[need] == UNSEEN {
                    calls.push(need);
                } else {
                    lowest[event] = lowest[event].min(lowest[need]);
                    next[event] += 1;
                }
                continue;
            }
            calls.pop();
            if lowest[event] == found[event] {
                let start = open.iter().rposition(|other| *other == event).expect("it is open");
                for member in open.drain(start..) {
                    finished[member] = true;
                    group[member] = groups;
                }
                groups += 1;
            }
        }
    }
    groups as usize
}

/// The graph of the groups, and the last event of the least cut of each.
fn quotient(needs: &Graph, group: &[u32], groups: usize) -> (Graph, Vec<u32>) {
    let visit_all = |visit: &mut dyn FnMut(u32, u32)| {
        for (event, from) in group.iter().enumerate().filter(|(_, from)| **from < FORBIDDEN) {
            for need in needs.needs(event) {
                let to = group[*need as usize];
                if to < FORBIDDEN && to != *from {
                    visit(*from, to);
                }
            }
        }
    };
    let mut graph = Graph { start: vec![0; groups + 1], ..Graph::default() };
    visit_all(&mut |from, _| graph.start[from as usize + 1] += 1);
    fill(&mut graph, |put| visit_all(put));
    let mut last = vec![0; groups];
    for (event, group) in group.iter().enumerate().filter(|(_, group)| **group < FORBIDDEN) {
        let last: &mut u32 = &mut last[*group as usize];
        *last = (*last).max(index(event));
    }
    for vertex in 0..groups {
        for need in graph.needs(vertex) {
            last[vertex] = last[vertex].max(last[*need as usize]);
        }
    }
    (graph, last)
}

fn index(number: usize) -> u32 {
    u32::try_from(number).expect("event ids are 32 bits")
}
