//! The judgement of a snapshot: its consistency, and the property in it.

use std::collections::BTreeMap;

use everhold_property::{
    Changed, Checker, End, Expr, ExprKind, Member, Property, Rule, Snapshot, Verdict,
};
use everhold_trace::{NodeId, Value};

use super::Outcome;
use crate::host::Channels;

/// A property with the fields that it mentions.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) rule: Rule,
    pub(super) fields: Vec<String>,
}

/// The answer of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Showed {
    pub(super) state: Option<Value>,
    pub(super) channels: Channels,
}

/// Returns the names of all fields in a property.
pub(super) fn fields(property: &Property) -> Vec<String> {
    fn collect(expr: &Expr, found: &mut Vec<String>) {
        if let ExprKind::Field(_, field) = &expr.kind
            && !found.contains(&field.name)
        {
            found.push(field.name.clone());
        }
        expr.for_each_child(&mut |child| collect(child, found));
    }
    let mut found = Vec::new();
    collect(&property.body, &mut found);
    found.sort();
    found
}

/// Returns a message that its receiver shows as received and its sender as not sent yet.
pub(super) fn contradiction(shown: &BTreeMap<NodeId, Showed>) -> Option<(NodeId, NodeId, u64)> {
    shown.iter().find_map(|(receiver, at)| {
        let received = at.channels.received.iter();
        received
            .filter_map(|(sender, (_, newest))| Some((sender, newest, shown.get(sender)?)))
            .find(|(_, newest, sender)| **newest >= sender.channels.next)
            .map(|(sender, newest, _)| (*sender, *receiver, *newest))
    })
}

pub(super) fn judge(
    question: &Question,
    kind: &str,
    nodes: impl Iterator<Item = NodeId>,
    shown: &BTreeMap<NodeId, Showed>,
    now_ns: u64,
) -> Outcome {
    let name = &question.rule.property().name;
    if let Some((sender, receiver, seq)) = contradiction(shown) {
        return Outcome::Skipped(format!(
            "assertion \"{name}\" is skipped: {receiver} shows message {seq} of {sender} as \
             received, {sender} as not yet sent; tried again next time"
        ));
    }
    let snapshot = snapshot(kind, nodes, shown);
    let mut checker = Checker::new(&question.rule);
    let verdict = checker.step(&snapshot, Changed::All, now_ns);
    let outcome = checker.finish(End::Cut);
    match (verdict, outcome.violation) {
        (_, Some(violation)) => Outcome::Violated(format!(
            "assertion \"{name}\" is violated: {}\n{}",
            violation.reason, violation.witness
        )),
        (Verdict::Holds, None) => Outcome::Holds,
        _ => Outcome::Unknown(format!(
            "assertion \"{name}\" is unknown: the nodes do not show all that it mentions"
        )),
    }
}

fn snapshot(
    kind: &str,
    nodes: impl Iterator<Item = NodeId>,
    shown: &BTreeMap<NodeId, Showed>,
) -> Snapshot {
    let members = nodes.map(|node| Member::new(node, &node.to_string(), kind)).collect();
    let mut snapshot = Snapshot::new(members);
    for (node, at) in shown {
        if let Some(state) = &at.state {
            snapshot.set(*node, state.clone());
        }
        for (to, sent) in &at.channels.sent {
            let received = shown.get(to).and_then(|other| other.channels.received.get(node));
            let flying = sent.saturating_sub(received.map_or(0, |(count, _)| *count));
            snapshot.set_in_flight(*node, *to, u32::try_from(flying).unwrap_or(u32::MAX));
        }
    }
    snapshot
}
