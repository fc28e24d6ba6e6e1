//! The last changes, so that a violation comes with what led to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use everhold_trace::trace::notes;
use everhold_trace::wire::{Stamp, Tuple, relate};
use everhold_trace::{EventKind, Execution, NodeId, Time, TraceBuilder, Value};

use crate::assemble::{Change, Changing};
use crate::notice::Violation;

/// A ring of changes, and the states before the oldest of them.
#[derive(Clone, Debug)]
pub(crate) struct History {
    most: usize,
    ring: VecDeque<Change>,
    base: BTreeMap<NodeId, Past>,
}

/// A node as it was.
#[derive(Clone, Debug, Default)]
struct Past {
    name: String,
    kind: String,
    since: Stamp,
    state: BTreeMap<String, Value>,
}

/// What of the changes belongs to a violation.
pub(crate) struct Focus<'a> {
    /// Of a keyed rule: its key, the relations it reads, and what older changes left behind.
    pub(crate) key: Option<(&'a Value, &'a BTreeSet<String>, Vec<(Stamp, NodeId, Tuple)>)>,
    /// Relations that are read as a whole.
    pub(crate) mapped: &'a BTreeSet<String>,
}

impl Focus<'_> {
    fn wants(&self, tuple: &Tuple) -> bool {
        match &self.key {
            Some((key, relations, _)) => tuple.key == **key && relations.contains(&*tuple.relation),
            None => self.mapped.contains(&*tuple.relation),
        }
    }
}

impl History {
    pub(crate) fn new(most: usize) -> History {
        History { most, ring: VecDeque::new(), base: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, change: Change, mapped: &BTreeSet<String>) {
        if self.ring.len() >= self.most
            && let Some(oldest) = self.ring.pop_front()
        {
            let focus = Focus { key: None, mapped };
            apply(&mut self.base, &oldest, &focus);
        }
        self.ring.push_back(change);
    }

    /// The changes that led to a violation, as a trace that ends with it.
    pub(crate) fn trace(&self, violation: &Violation, focus: &Focus<'_>) -> Execution {
        let mut past = self.base.clone();
        let mut first: Vec<Change> = Vec::new();
        if let Some((_, _, left)) = &focus.key {
            past.values_mut().for_each(|past| past.state.clear());
            first.extend(left.iter().map(|(at, node, tuple)| Change {
                at: *at,
                node: *node,
                what: Changing::Add(tuple.clone()),
            }));
        }
        let seen: BTreeSet<NodeId> =
            self.ring.iter().filter(|c| focus.touches(c)).map(|c| c.node).collect();
        first.retain(|change| !seen.contains(&change.node));
        first.sort_by_key(|change| (change.at, change.node));
        let mut nodes = self.names();
        for change in &first {
            nodes.entry(change.node).or_insert_with(|| (change.node.to_string(), String::new()));
        }
        let mut writer = TraceWriter::new(&nodes);
        for (node, past) in &past {
            writer.event(*node, past.since, EventKind::Start, Some(&past.state), None);
        }
        for change in first.iter().chain(self.ring.iter().filter(|c| focus.touches(c))) {
            let kind = kind_of(&change.what, past.contains_key(&change.node));
            apply(&mut past, change, focus);
            let state = past.get(&change.node).map(|past| &past.state);
            writer.event(change.node, change.at, kind, state, Some(&change.what));
        }
        writer.finish(violation)
    }

    /// Everybody who is or was there.
    fn names(&self) -> BTreeMap<NodeId, (String, String)> {
        let base = self.base.iter().map(|(node, p)| (*node, (p.name.clone(), p.kind.clone())));
        let mut names: BTreeMap<_, _> = base.collect();
        for change in &self.ring {
            if let Changing::Up { name, kind } = &change.what {
                names.insert(change.node, (name.clone(), kind.clone()));
            }
            names.entry(change.node).or_insert_with(|| (change.node.to_string(), String::new()));
        }
        names
    }
}

impl Focus<'_> {
    fn touches(&self, change: &Change) -> bool {
        match &change.what {
            Changing::Add(tuple) | Changing::Remove(tuple) => self.wants(tuple),
            Changing::Observe(_) | Changing::State(_) => true,
            Changing::Up { .. } | Changing::Down { .. } => true,
            Changing::Lost { .. } | Changing::Missing { .. } => true,
            Changing::Joining | Changing::Present => true,
            Changing::Refresh | Changing::Whole => false,
            Changing::Sent { .. } | Changing::Received { .. } => false,
        }
    }
}

fn kind_of(what: &Changing, known: bool) -> EventKind {
    let local = |name: &str| EventKind::Local { name: name.to_owned() };
    match what {
        Changing::Up { .. } if known => EventKind::Restart,
        Changing::Up { .. } => EventKind::Start,
        Changing::Down { clean: true } => local("leaves"),
        Changing::Down { clean: false } => EventKind::Crash,
        Changing::Lost { .. } => local("records lost"),
        Changing::Missing { .. } => local("missing"),
        Changing::Joining => local("joining"),
        Changing::Present => local("present again"),
        Changing::Add(tuple) => local(&format!("add {}", tuple.relation)),
        Changing::Remove(tuple) => local(&format!("remove {}", tuple.relation)),
        _ => local("observe"),
    }
}

fn apply(past: &mut BTreeMap<NodeId, Past>, change: &Change, focus: &Focus<'_>) {
    let entry = past.entry(change.node).or_default();
    match &change.what {
        Changing::Up { name, kind } => {
            let (name, kind) = (name.clone(), kind.clone());
            *entry = Past { name, kind, since: change.at, state: BTreeMap::new() };
        }
        Changing::Down { .. } => entry.state.clear(),
        Changing::Observe(values) | Changing::State(values) => {
            if matches!(change.what, Changing::State(_)) {
                entry.state.retain(|name, _| focus.mapped.contains(name));
            }
            entry.state.extend(values.iter().map(|(n, v)| (n.to_string(), v.clone())));
        }
        Changing::Add(tuple) if focus.wants(tuple) => {
            relate(&mut entry.state, tuple, true);
        }
        Changing::Remove(tuple) if focus.wants(tuple) => relate(&mut entry.state, tuple, false),
        _ => {}
    }
}

struct TraceWriter {
    builder: TraceBuilder,
    ids: BTreeMap<NodeId, NodeId>,
    started: BTreeSet<NodeId>,
    down: BTreeSet<NodeId>,
    events: i64,
}

impl TraceWriter {
    fn new(nodes: &BTreeMap<NodeId, (String, String)>) -> TraceWriter {
        let mut builder = TraceBuilder::new();
        let mut names = BTreeSet::new();
        let mut ids = BTreeMap::new();
        for (node, (name, kind)) in nodes {
            // Two nodes of one name are told apart by their numbers.
            let name = match names.insert(name.clone()) {
                true => name.clone(),
                false => format!("{name} ({node})"),
            };
            ids.insert(*node, builder.add_node(&name, kind));
        }
        TraceWriter { builder, ids, started: BTreeSet::new(), down: BTreeSet::new(), events: 0 }
    }

    fn event(
        &mut self,
        node: NodeId,
        at: Stamp,
        kind: EventKind,
        state: Option<&BTreeMap<String, Value>>,
        what: Option<&Changing>,
    ) {
        let Some(id) = self.ids.get(&node) else { return };
        if self.started.insert(node) && kind != EventKind::Start {
            self.builder.begin(*id, EventKind::Start);
            self.events += 1;
        }
        // A node that was given up for silence may speak again: then it was up all along, but the
        // trace has said that it is down.
        let was_down = self.down.remove(&node);
        let ends = kind == EventKind::Crash;
        if was_down && kind != EventKind::Restart {
            self.builder.begin(*id, EventKind::Restart);
            self.events += 1;
        }
        if ends {
            self.down.insert(node);
        }
        self.builder.begin(*id, kind);
        self.builder.time(Time { logical: Some(at.0), physical_ns: Some(at.nanos()) });
        if let Some(state) = state
            && !ends
        {
            self.builder.observe(Value::Record(state.clone()));
        }
        match what {
            Some(Changing::Missing { reason }) => self.builder.text(reason),
            Some(Changing::Lost { records }) => self.builder.text(&format!("{records} or more")),
            _ => {}
        }
        self.events += 1;
    }

    fn finish(mut self, violation: &Violation) -> Execution {
        self.builder.name(&violation.id.to_string());
        self.builder.note(notes::PROPERTY, violation.rule.as_str());
        self.builder.note(notes::STEP, (self.events - 1).max(0));
        self.builder.note("rule", violation.text.as_str());
        self.builder.note("reason", violation.reason.as_str());
        if let Some(key) = &violation.key {
            self.builder.note("key", key.clone());
        }
        self.builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that was given up, speaks again, is given up twice, and comes back.
    #[test]
    fn what_was_given_up_may_speak_again() {
        let node = NodeId(0);
        let mut writer = TraceWriter::new(&BTreeMap::from([(node, ("n".into(), "k".into()))]));
        let local = EventKind::Local { name: "observe".to_owned() };
        let crash = EventKind::Crash;
        let kinds = [crash.clone(), local.clone(), crash.clone(), crash, EventKind::Restart, local];
        for kind in kinds {
            writer.event(node, Stamp(1), kind, None, None);
        }
        let execution = writer.builder.finish();
        let words: Vec<&str> = execution.events().iter().map(|e| e.kind.word()).collect();
        let expected =
            ["start", "crash", "restart", "local", "crash", "restart", "crash", "restart", "local"];
        assert_eq!(words, expected);
    }
}
