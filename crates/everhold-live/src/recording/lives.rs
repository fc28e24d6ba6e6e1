//! The crashes of nodes, as far as recordings show them.

use std::collections::{BTreeMap, BTreeSet};

use everhold_trace::{Event, EventKind, MessageId, NodeId};

/// A node that is silent for this long while others continue is considered dead.
const SILENCE_NS: i64 = 1_000_000_000;

/// One life of a node: from its start or restart to its crash.
struct Life {
    node: NodeId,
    /// The last event that shows it alive.
    last: usize,
    /// Whether another life of the node follows.
    over: bool,
}

/// Returns the nodes that crashed after each event.
pub(super) fn crashes(events: &[Event], ended: &BTreeSet<NodeId>) -> BTreeMap<usize, Vec<NodeId>> {
    let nanos = |index: usize| events[index].time.physical_ns.unwrap_or(0);
    let newest = events.len().checked_sub(1).map_or(0, nanos);
    let mut found: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for life in lives(events) {
        let silent = || nanos(life.last).saturating_add(SILENCE_NS) < newest;
        if life.over || (!ended.contains(&life.node) && silent()) {
            found.entry(life.last).or_default().push(life.node);
        }
    }
    found
}

fn lives(events: &[Event]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    let mut present: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut sent: BTreeMap<MessageId, usize> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        let begins = matches!(event.kind, EventKind::Start | EventKind::Restart);
        let known = present.get(&event.node).copied();
        let life = match known.filter(|_| !begins) {
            Some(life) => life,
            None => {
                if let Some(before) = known {
                    lives[before].over = true;
                }
                lives.push(Life { node: event.node, last: index, over: false });
                present.insert(event.node, lives.len() - 1);
                lives.len() - 1
            }
        };
        lives[life].last = index;
        let ids = event.sends.iter().map(|send| MessageId { sender: event.node, seq: send.seq });
        sent.extend(ids.map(|id| (id, life)));
        if let EventKind::Deliver { message } = &event.kind
            && let Some(sender) = sent.get(message)
            && !lives[*sender].over
        {
            lives[*sender].last = index;
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use everhold_trace::{Send, Time};

    use super::*;

    fn event(node: u32, at_ms: i64, kind: EventKind) -> Event {
        let mut event = Event::new(NodeId(node), kind);
        event.time = Time::physical_ns(at_ms * 1_000_000);
        event
    }

    fn local(node: u32, at_ms: i64) -> Event {
        event(node, at_ms, EventKind::Local { name: "step".to_owned() })
    }

    #[track_caller]
    fn check(events: &[Event], ended: &[u32], expected: &[(usize, u32)]) {
        let ended = ended.iter().copied().map(NodeId).collect();
        let found = crashes(events, &ended).into_iter();
        let found: Vec<_> =
            found.flat_map(|(at, nodes)| nodes.into_iter().map(move |node| (at, node.0))).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn nodes_crash_after_the_last_sign_of_life() {
        let start = |node| event(node, 0, EventKind::Start);
        let mut says = local(0, 5);
        says.sends.push(Send { to: Some(NodeId(1)), seq: 0, label: String::new(), payload: None });
        let message = MessageId { sender: NodeId(0), seq: 0 };
        let hears = |at| event(1, at, EventKind::Deliver { message });
        // The node came back: a message sent before the crash had arrived by then, or arrived
        // later.
        let restart = event(0, 50, EventKind::Restart);
        let events = [start(0), start(1), says.clone(), hears(9), restart.clone(), local(1, 60)];
        check(&events, &[0, 1], &[(3, 0)]);
        let events = [start(0), start(1), says.clone(), restart, hears(60)];
        check(&events, &[0, 1], &[(2, 0)]);
        // The node was not heard of again: that is a crash only without an end, and after a second.
        let events = [start(0), start(1), says.clone(), hears(9), local(1, 2_000)];
        check(&events, &[1], &[(3, 0)]);
        check(&events, &[0, 1], &[]);
        check(&[start(0), start(1), says, hears(9), local(1, 900)], &[1], &[]);
    }
}
