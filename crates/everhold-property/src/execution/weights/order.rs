//! At most one: the intervals in which nodes hold must be ordered by happens-before.

use super::events::Events;
use super::linear::Linear;
use crate::ast::BinaryOp;
use crate::execution::Trace;

/// Whether the claim is `count(..) <= 1` of nodes that hold or do not hold.
pub(super) fn applies(linear: &Linear, events: &Events) -> bool {
    let held: i64 = events.initial.iter().sum();
    let limit = events.base - held;
    let at_most_one = match linear.op {
        BinaryOp::Le => limit == -1,
        BinaryOp::Lt => limit == -2,
        _ => false,
    };
    at_most_one
        && events.initial.iter().all(|held| matches!(held, 0 | 1))
        && events.weights.iter().all(|weight| matches!(weight, -1..=1))
}

/// A cut in which two nodes hold, given that no two do in the recorded order.
///
/// There the intervals follow each other. They are ordered if the end of each happens before the
/// begin of the next, so it is enough to know the last end in the past of each event.
pub(super) fn overlap(trace: &Trace<'_>, events: &Events) -> Option<Vec<u32>> {
    let execution = trace.execution;
    let mut past = vec![0_u32; execution.events().len()];
    // Each node's deliveries are used up in its order, so one position a node is enough.
    let deliveries = trace.order.deliveries();
    let first = |node| deliveries.partition_point(|delivery| delivery.to < node);
    let mut next: Vec<usize> = execution.node_ids().map(first).collect();
    let mut counts = vec![0_u32; trace.members.len()];
    // The number of intervals that have begun, and the event that began the last one.
    let mut begun = u32::from(events.initial.contains(&1));
    let mut begin = None;
    for (at, event) in execution.events().iter().enumerate() {
        let id = everhold_trace::EventId(u32::try_from(at).expect("event ids are 32 bits"));
        let (node, count) = (event.node, &mut counts[event.node.index()]);
        let own = execution.events_of(node);
        let mut known =
            (*count).checked_sub(1).map_or(0, |before| past[own[before as usize].index()]);
        *count += 1;
        let next = &mut next[node.index()];
        while let Some(delivery) = deliveries.get(*next) {
            if delivery.to != node || delivery.received != *count {
                break;
            }
            let sent = execution.events_of(delivery.from)[delivery.sent as usize - 1];
            known = known.max(past[sent.index()]);
            *next += 1;
        }
        past[at] = known;
        match events.weights[at] {
            1 => {
                if known < begun {
                    let mut cut = trace.order.clock(node, *count).to_vec();
                    if let Some(begin) = begin {
                        let (other, at) = trace.order.place(begin);
                        let other = trace.order.clock(other, at);
                        cut.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).max(*b));
                    }
                    return Some(cut);
                }
                begun += 1;
                begin = Some(id);
            }
            -1 => past[at] = begun,
            _ => {}
        }
    }
    None
}
