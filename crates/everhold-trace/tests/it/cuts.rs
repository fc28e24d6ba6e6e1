//! Every algorithm on cuts against its brute-force twin, on thousands of small random executions:
//! FIFO and not, lossy, duplicating, with broadcasts, drained or with messages in flight.
//!
//! The twins know only each node's own order and which event received which message; they do not
//! use clocks. Happens-before is checked against reachability, enumeration against a filter over
//! all vectors of counts, windows and tuples against the cuts that contain them.

use std::collections::{BTreeMap, BTreeSet};

use everhold_trace::{Cuts, EventId, Execution, NodeId, Order, Slice};

use crate::random::{Random, Shape, execution};

fn small_executions(seed: u64, count: usize) -> impl Iterator<Item = Execution> {
    let mut random = Random(seed);
    (0..count).map(move |_| {
        let shape = Shape::small(&mut random);
        execution(&mut random, shape)
    })
}

fn all(mut cuts: Cuts) -> Vec<Vec<u32>> {
    std::iter::from_fn(|| cuts.next_cut().map(<[u32]>::to_vec)).collect()
}

/// All vectors of counts, in lexical order.
fn vectors(execution: &Execution) -> Vec<Vec<u32>> {
    let mut vectors = vec![vec![]];
    for node in execution.node_ids() {
        let events = u32::try_from(execution.events_of(node).len()).unwrap();
        let extend = |vector: &Vec<u32>| {
            (0..=events).map(|count| [vector.as_slice(), &[count]].concat()).collect::<Vec<_>>()
        };
        vectors = vectors.iter().flat_map(extend).collect();
    }
    vectors
}

fn contains(execution: &Execution, cut: &[u32], event: EventId) -> bool {
    execution.index_in_node(event) < cut[execution.event(event).node.index()] as usize
}

/// By definition: no receive without its send.
fn is_consistent(execution: &Execution, cut: &[u32]) -> bool {
    execution.messages().iter().all(|message| {
        message.sent.is_none_or(|sent| contains(execution, cut, sent))
            || message.delivered.iter().all(|receive| !contains(execution, cut, *receive))
    })
}

/// By definition: each receiver among `nodes` that ever gets a message sent in the cut by one of
/// `nodes` has got it, and none of these messages is on its way for ever without being lost.
fn is_quiet(execution: &Execution, cut: &[u32], nodes: &[NodeId]) -> bool {
    execution.messages().iter().all(|message| {
        let Some(sent) = message.sent else { return true };
        if !contains(execution, cut, sent) || !nodes.contains(&execution.event(sent).node) {
            return true;
        }
        let mut first: BTreeMap<NodeId, EventId> = BTreeMap::new();
        for receive in &message.delivered {
            first.entry(execution.event(*receive).node).or_insert(*receive);
        }
        let to = execution.send_of(message).unwrap().to;
        let waits = |node: &NodeId| to.map_or(*node != message.id.sender, |to| to == *node);
        if first.is_empty() && !message.lost && nodes.iter().any(waits) {
            return false;
        }
        first.iter().all(|(node, event)| !nodes.contains(node) || contains(execution, cut, *event))
    })
}

fn project(cut: &[u32], nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| cut[node.index()]).collect()
}

#[test]
fn happens_before_is_reachability() {
    for execution in small_executions(11, 1_000) {
        let order = Order::of(&execution);
        let count = execution.events().len();
        let mut reach = vec![vec![false; count]; count];
        for (b, event) in execution.events().iter().enumerate() {
            let index = execution.index_in_node(EventId(b as u32));
            let own = index.checked_sub(1).map(|i| execution.events_of(event.node)[i]);
            let sends = event.received().map(|id| execution.message(id).unwrap().sent.unwrap());
            for before in own.into_iter().chain(sends) {
                for (a, row) in reach.iter_mut().enumerate() {
                    row[b] |= a == before.index() || row[before.index()];
                }
            }
        }
        for (a, row) in reach.iter().enumerate() {
            for (b, reached) in row.iter().enumerate() {
                let (a, b) = (EventId(a as u32), EventId(b as u32));
                assert_eq!(order.happens_before(a, b), *reached, "{a} before {b}");
            }
        }
    }
}

#[test]
fn enumeration_finds_the_consistent_cuts_in_lexical_order() {
    for execution in small_executions(12, 3_000) {
        let order = Order::of(&execution);
        let (mut expected, others): (Vec<_>, Vec<_>) =
            vectors(&execution).into_iter().partition(|cut| is_consistent(&execution, cut));
        assert!(expected.iter().all(|cut| order.is_consistent(cut)));
        assert!(others.iter().all(|cut| !order.is_consistent(cut)));
        assert_eq!(all(Slice::consistent(&order).cuts()), expected);
        expected.retain(|cut| order.in_flight(cut).next().is_none());
        let nodes: Vec<_> = execution.node_ids().collect();
        assert!(expected.iter().all(|cut| is_quiet(&execution, cut, &nodes)));
    }
}

#[test]
fn slicing_finds_the_quiet_cuts() {
    for execution in small_executions(13, 3_000) {
        let order = Order::of(&execution);
        let nodes: Vec<_> = execution.node_ids().collect();
        let mut expected = vectors(&execution);
        expected.retain(|cut| is_consistent(&execution, cut) && is_quiet(&execution, cut, &nodes));
        assert_eq!(all(Slice::quiet(&order).cuts()), expected);
    }
}

/// k-local: the tuples of states of some nodes at cuts where their own channels are empty.
#[test]
fn slicing_among_nodes_finds_their_quiet_tuples() {
    let mut random = Random(14);
    for execution in small_executions(14, 3_000) {
        let order = Order::of(&execution);
        let mut nodes: Vec<_> = execution.node_ids().collect();
        nodes.swap_remove(random.below(nodes.len()));
        let consistent = vectors(&execution).into_iter().filter(|c| is_consistent(&execution, c));
        let consistent: Vec<_> = consistent.collect();
        let quiet = consistent.iter().filter(|cut| is_quiet(&execution, cut, &nodes));
        let quiet: BTreeSet<_> = quiet.map(|cut| project(cut, &nodes)).collect();
        let found = all(Slice::quiet_among(&order, &nodes).cuts());
        assert_eq!(found, quiet.into_iter().collect::<Vec<_>>());
        let tuples: BTreeSet<_> = consistent.iter().map(|cut| project(cut, &nodes)).collect();
        let found = all(Slice::among(&order, &nodes).cuts());
        assert_eq!(found, tuples.into_iter().collect::<Vec<_>>());
    }
}

/// Windows, states and least cuts of a slice against the list of its cuts.
fn check_slice(slice: &Slice<'_>) {
    let cuts = all(slice.cuts());
    let mut visited = 0;
    slice.all_windows(|p, q, windows| {
        visited += 1;
        let expected = slice.windows(p, q).map(|(_, window)| window.into_inner());
        assert!(expected.eq(windows.iter().map(|(low, high)| (*low as usize, *high as usize))));
    });
    assert_eq!(visited, slice.nodes().len() * (slice.nodes().len() - 1));
    for p in 0..slice.nodes().len() {
        let states: BTreeSet<u32> = cuts.iter().map(|cut| cut[p]).collect();
        assert!(states.iter().eq(slice.states(p)));
        for (index, state) in states.iter().enumerate() {
            let with = cuts.iter().filter(|cut| cut[p] == *state);
            let least =
                with.cloned().reduce(|a, b| a.iter().zip(&b).map(|(x, y)| *x.min(y)).collect());
            assert_eq!(slice.least(p, index), least.unwrap());
        }
        for q in (0..slice.nodes().len()).filter(|q| *q != p) {
            let pairs: BTreeSet<_> = cuts.iter().map(|cut| (cut[p], cut[q])).collect();
            let windows = slice.windows(p, q).flat_map(|(state, window)| {
                slice.states(q)[window].iter().map(move |other| (state, *other)).collect::<Vec<_>>()
            });
            assert!(windows.eq(pairs.iter().copied()));
            assert_eq!(slice.pairs(p, q), pairs.len() as u64);
        }
    }
}

#[test]
fn windows_are_the_pairs_that_occur_in_cuts() {
    for execution in small_executions(15, 1_500) {
        let order = Order::of(&execution);
        check_slice(&Slice::consistent(&order));
        check_slice(&Slice::quiet(&order));
        check_slice(&Slice::quiet_among(&order, &[NodeId(1), NodeId(0)]));
    }
}

#[test]
fn compatible_states_meet_in_their_least_cut() {
    for execution in small_executions(16, 500) {
        let order = Order::of(&execution);
        let cuts = all(Slice::consistent(&order).cuts());
        let slice = Slice::quiet(&order);
        let quiet = all(slice.cuts());
        let least = |cuts: &[Vec<u32>], states: &[(usize, u32)]| {
            let with = |cut: &&Vec<u32>| states.iter().all(|(node, state)| cut[*node] == *state);
            let meet =
                |a: Vec<u32>, b: Vec<u32>| a.iter().zip(&b).map(|(x, y)| *x.min(y)).collect();
            cuts.iter().filter(with).cloned().reduce(meet)
        };
        for vector in vectors(&execution) {
            let states: Vec<_> = vector.iter().copied().enumerate().take(2).collect();
            assert_eq!(slice.cut_with(&states), least(&quiet, &states));
            let named: Vec<_> = states.iter().map(|(n, s)| (NodeId(*n as u32), *s)).collect();
            assert_eq!(order.cut_with(&named), least(&cuts, &states));
            let compatible = order.is_compatible(named[0], named[1]);
            assert_eq!(compatible, order.cut_with(&named).is_some());
        }
    }
}

#[test]
fn deliveries_and_chains_follow_the_messages() {
    for execution in small_executions(17, 1_000) {
        let order = Order::of(&execution);
        let received: usize = execution.events().iter().map(|e| e.received().count()).sum();
        assert_eq!(order.deliveries().len(), received);
        let chains: Vec<_> = order.chains(usize::MAX).collect();
        for (delivery, chain) in order.deliveries().iter().zip(&chains) {
            assert_eq!(
                *chain,
                naive_chain(
                    &order,
                    delivery.from,
                    delivery.sent,
                    vec![(delivery.to, delivery.received)]
                )
            );
            let steps = chain.windows(2).map(|pair| (pair[0], pair[1]));
            for ((p, i), (q, j)) in steps {
                assert!(order.clock(q, j)[p.index()] >= i, "each step of a chain is causal");
            }
        }
        assert!(order.chains(2).all(|chain| chain.len() <= 2));
    }
}

/// Looks at every delivery for the last one to the sender by the time of its send.
fn naive_chain(
    order: &Order,
    from: NodeId,
    sent: u32,
    after: Vec<(NodeId, u32)>,
) -> Vec<(NodeId, u32)> {
    if after.iter().any(|(node, _)| *node == from) {
        return after;
    }
    let chain = [vec![(from, sent)], after].concat();
    let earlier = order.deliveries().iter().filter(|d| d.to == from && d.received <= sent);
    match earlier.max_by_key(|d| (d.received, d.from, d.sent, d.message)) {
        Some(d) => naive_chain(order, d.from, d.sent, chain),
        None => chain,
    }
}
