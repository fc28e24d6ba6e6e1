//! The explanation of progress that is still owed: the steps of the system in the meantime, and the
//! nodes that could not help.

use std::collections::BTreeMap;

use everhold_node::NodeId;

use crate::env::node_id;
use crate::failure::Failure;
use crate::record::{EventRecord, RunRecord, StepRecord};
use crate::report::text::count;

/// The number of steps of a fair tail that are kept where no state recurred.
const TAIL_SHOWN: usize = 64;
/// The number of sorts of steps that are named.
const SORTS_MAX: usize = 8;

/// Describes the steps of the system while progress was owed, and leaves out the repetitions.
pub(crate) fn explain(
    failure: &mut Failure,
    recording: &mut RunRecord,
    waiting: Option<(NodeId, String)>,
    down: &[NodeId],
) {
    let Some(tail) = recording.tail_at.filter(|_| failure.cause.is_progress()) else { return };
    let all = recording.steps.len();
    let (from, to) = recording.lasso.map_or((tail, all), |(from, to)| (from + 1, to + 1));
    let did = sorts(recording, recording.steps.get(from..to.min(all)).unwrap_or_default());
    let when = match recording.lasso {
        Some((from, to)) => format!("the round from step {} to step {to}", from + 1),
        None => format!("the {}", count(all.saturating_sub(tail) as u64, "fair step")),
    };
    if !did.is_empty() {
        failure.message.push_str(&format!("\n  {when}: {did}; none of it helped"));
    }
    let (idle, down) = (idle(recording, tail, down), names(recording, down));
    for (what, who) in [("up, but nothing happened there", idle), ("down or gone", down)] {
        if !who.is_empty() {
            failure.message.push_str(&format!("\n  {what}: {who}"));
        }
    }
    if let Some((node, what)) = waiting {
        let name = &recording.nodes[node.index()].name;
        failure.message.push_str(&format!("\n  waiting: at {name} {what}"));
    }
    // The later steps are more of the same.
    recording.steps.truncate(recording.lasso.map_or(tail + TAIL_SHOWN, |(_, to)| to + 1));
}

/// The steps by sort, with the number of each and the nodes.
fn sorts(recording: &RunRecord, steps: &[StepRecord]) -> String {
    let mut sorts: BTreeMap<String, (usize, Vec<NodeId>)> = BTreeMap::new();
    for step in steps {
        let (count, nodes) = sorts.entry(sort(&step.event)).or_default();
        *count += 1;
        if !nodes.contains(&step.node) {
            nodes.push(step.node);
        }
    }
    let mut sorts: Vec<_> = sorts.into_iter().collect();
    sorts.sort_by_key(|(_, (count, _))| usize::MAX - count);
    let show = |(sort, (count, nodes)): &(String, (usize, Vec<NodeId>))| match nodes.as_slice() {
        [one] => format!("{count} × {sort} at {}", recording.nodes[one.index()].name),
        many => format!("{count} × {sort} at {} nodes", many.len()),
    };
    let more = sorts.len().saturating_sub(SORTS_MAX);
    let mut shown: Vec<String> = sorts.iter().take(SORTS_MAX).map(show).collect();
    if more > 0 {
        shown.push(count(more as u64, "other sort"));
    }
    shown.join(", ")
}

fn sort(event: &EventRecord) -> String {
    match event {
        EventRecord::Deliver { kind: "", .. } => "message".to_owned(),
        EventRecord::Deliver { kind, .. } => (*kind).to_owned(),
        EventRecord::Timer(timer) => {
            format!("timer {}", timer.split('#').next().unwrap_or_default())
        }
        EventRecord::Poll(_) => "task".to_owned(),
        EventRecord::Restart => "restart".to_owned(),
        EventRecord::Start => "start".to_owned(),
        EventRecord::Heal => "end of the partition".to_owned(),
        EventRecord::Fault(_) => "fault".to_owned(),
        EventRecord::Disconnected(_) => "end of a connection".to_owned(),
    }
}

/// Nodes that are up, and at which nothing happened in the tail.
fn idle(recording: &RunRecord, tail: usize, down: &[NodeId]) -> String {
    let busy = |node: usize| {
        recording.steps[tail.min(recording.steps.len())..]
            .iter()
            .any(|step| step.node.index() == node)
    };
    let all = (0..recording.nodes.len()).map(node_id);
    let idle: Vec<NodeId> = all.filter(|node| !busy(node.index())).collect();
    if idle.len() == recording.nodes.len() {
        return String::new();
    }
    let up: Vec<NodeId> = idle.into_iter().filter(|node| !down.contains(node)).collect();
    names(recording, &up)
}

fn names(recording: &RunRecord, nodes: &[NodeId]) -> String {
    let names = nodes.iter().filter_map(|node| recording.nodes.get(node.index()));
    names.map(|info| info.name.as_str()).collect::<Vec<_>>().join(", ")
}
