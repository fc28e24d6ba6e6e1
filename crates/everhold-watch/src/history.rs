//! The last changes, so that a violation comes with what led to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use everhold_trace::trace::notes;
use everhold_trace::wire::{Stamp, Tuple, relate};
use everhold_trace::{EventKind, Execution, NodeId, Time, TraceBuilder, Value};

use crate::assemble::{Change, Changing};
use crate::notice::Violation;

/// The factor by which more changes are kept if a rule waits that long.
const STRETCH: usize = 16;

/// A ring of changes, and the states before the oldest of them.
#[derive(Clone, Debug)]
pub(crate) struct History {
    most: usize,
    /// Younger changes are kept even if there are more; in microseconds.
    horizon: u64,
    ring: VecDeque<Change>,
    base: BTreeMap<NodeId, Past>,
    /// The stamp of the last change that is in the base.
    base_at: Stamp,
}

/// A node as it was.
#[derive(Clone, Debug, Default)]
struct Past {
    name: String,
    kind: String,
    state: BTreeMap<String, Value>,
}

/// The part of the changes that belongs to a violation.
pub(crate) struct Focus<'a> {
    /// Of a keyed rule: its key.
    pub(crate) key: Option<KeyFocus<'a>>,
    /// Relations that are read as a whole.
    pub(crate) mapped: &'a BTreeSet<String>,
    /// Relations that are read by key.
    pub(crate) by_key: &'a BTreeSet<String>,
    /// Whether it is violated because time passed.
    pub(crate) is_late: bool,
}

/// The key of a violation.
pub(crate) struct KeyFocus<'a> {
    pub(crate) key: &'a Value,
    /// The keys of the tuples that have it as a part, by relation.
    pub(crate) grouped: BTreeMap<String, BTreeSet<Value>>,
    /// The present tuples of the nodes under these keys, each with the time since which it holds.
    pub(crate) cells: Vec<(Stamp, NodeId, Tuple)>,
    /// Whether the rule reads variables too.
    pub(crate) reads_variables: bool,
}

impl KeyFocus<'_> {
    /// Whether the tuples of this relation under this key belong to it.
    fn has(&self, relation: &str, key: &Value) -> bool {
        let grouped = || self.grouped.get(relation).is_some_and(|keys| keys.contains(key));
        key == self.key || grouped()
    }
}

impl Focus<'_> {
    fn has(&self, relation: &str) -> bool {
        self.by_key.contains(relation) || self.mapped.contains(relation)
    }

    fn wants(&self, tuple: &Tuple) -> bool {
        match &self.key {
            Some(focus) => focus.has(&tuple.relation, &tuple.key) && self.has(&tuple.relation),
            None => self.mapped.contains(&*tuple.relation),
        }
    }

    /// The relations of which the trace does not have everything.
    fn partial(&self) -> Vec<Value> {
        let all = self.by_key.union(self.mapped);
        let whole = |name: &&String| self.key.is_none() && self.mapped.contains(*name);
        all.filter(|name| !whole(name)).map(|name| Value::from(name.as_str())).collect()
    }
}

impl History {
    pub(crate) fn new(most: usize) -> History {
        let (ring, base) = (VecDeque::new(), BTreeMap::new());
        History { most, horizon: 0, ring, base, base_at: Stamp(0) }
    }

    /// Keeps at least the changes of so many microseconds, within bounds.
    pub(crate) fn reach_back(&mut self, micros: u64) {
        self.horizon = micros;
    }

    pub(crate) fn push(&mut self, change: Change, mapped: &BTreeSet<String>) {
        let none = BTreeSet::new();
        let focus = Focus { key: None, mapped, by_key: &none, is_late: false };
        while self.is_full(change.at)
            && let Some(oldest) = self.ring.pop_front()
        {
            apply(&mut self.base, &oldest, &focus);
            if let Changing::Down { .. } = oldest.what {
                self.base.remove(&oldest.node);
            }
            self.base_at = self.base_at.max(oldest.at);
        }
        self.ring.push_back(change);
    }

    /// The changes that are kept.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.ring.iter()
    }

    fn is_full(&self, now: Stamp) -> bool {
        let Some(oldest) = self.ring.front() else { return false };
        let is_old = oldest.at.micros().saturating_add(self.horizon) < now.micros();
        let length = self.ring.len();
        length >= self.most && (is_old || length >= self.most.saturating_mul(STRETCH))
    }

    /// The changes that led to a violation, as a trace that ends with it.
    pub(crate) fn trace(&self, violation: &Violation, focus: &Focus<'_>) -> Execution {
        let mut past = self.base.clone();
        let mut since = self.base_at;
        if let Some(key) = &focus.key {
            since = self.narrow(&mut past, key, focus).unwrap_or(since);
        }
        let mut nodes = self.names();
        for node in past.keys() {
            nodes.entry(*node).or_insert_with(|| (node.to_string(), String::new()));
        }
        let mut writer = TraceWriter::new(&nodes);
        for (node, past) in &past {
            writer.event(*node, since, EventKind::Start, Some(&past.state), None);
        }
        for change in self.ring.iter().filter(|c| focus.touches(c)) {
            let kind = kind_of(&change.what, past.contains_key(&change.node));
            apply(&mut past, change, focus);
            let state = past.get(&change.node).map(|past| &past.state);
            writer.event(change.node, change.at, kind, state, Some(&change.what));
        }
        if focus.is_late {
            writer.time_passes(violation.at);
        }
        writer.finish(violation, focus)
    }

    /// Leaves of the relations what concerns a key. Returns since when the nodes show what they show
    /// of it at the beginning of the trace, if only that matters.
    fn narrow(
        &self,
        past: &mut BTreeMap<NodeId, Past>,
        of: &KeyFocus<'_>,
        focus: &Focus<'_>,
    ) -> Option<Stamp> {
        for past in past.values_mut() {
            past.state.retain(|name, value| match value {
                Value::Map(map) if focus.mapped.contains(name) => {
                    map.retain(|key, _| of.has(name, key));
                    true
                }
                _ => true,
            });
        }
        let mut first: BTreeMap<(NodeId, &str, &Value), Option<&Tuple>> = BTreeMap::new();
        for change in self.ring.iter().filter(|change| focus.touches(change)) {
            if let Changing::Add(tuple) | Changing::Remove(tuple) = &change.what {
                let is_removed = matches!(change.what, Changing::Remove(_));
                let cell = (change.node, &*tuple.relation, &tuple.key);
                first.entry(cell).or_insert(is_removed.then_some(tuple));
            }
        }
        let begin = self.ring.front().map_or(Stamp(u64::MAX), |oldest| oldest.at);
        let older = of.cells.iter().filter(|(at, node, tuple)| {
            *at <= begin && !first.contains_key(&(*node, &*tuple.relation, &tuple.key))
        });
        let mut since = None;
        for (at, node, tuple) in older {
            relate(&mut past.entry(*node).or_default().state, tuple, true);
            since = since.max(Some(*at));
        }
        // What the first change that is kept takes away was there before.
        let removed = first.iter().filter_map(|((node, ..), tuple)| Some((node, (*tuple)?)));
        for (node, tuple) in removed {
            if let Some(past) = past.get_mut(node) {
                relate(&mut past.state, tuple, true);
            }
        }
        since.filter(|_| !of.reads_variables)
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
        // In either case nobody may take it for one that is there.
        Changing::Down { .. } => EventKind::Crash,
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
            *entry = Past { name, kind, state: BTreeMap::new() };
        }
        Changing::Down { .. } => entry.state.clear(),
        Changing::Observe(values) | Changing::State(values) => {
            if matches!(change.what, Changing::State(_)) {
                entry.state.retain(|name, _| focus.has(name));
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
    last: Stamp,
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
        let (started, down) = (BTreeSet::new(), BTreeSet::new());
        TraceWriter { builder, ids, started, down, events: 0, last: Stamp(0) }
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
            Some(Changing::Down { clean: true }) => self.builder.text("it leaves"),
            Some(Changing::Missing { reason }) => self.builder.text(reason),
            Some(Changing::Lost { records }) => self.builder.text(&format!("{records} or more")),
            _ => {}
        }
        self.events += 1;
        self.last = self.last.max(at);
    }

    /// Time passes until `at`, and nothing changes: without such an event nobody could say, of the
    /// trace alone, that something is late.
    fn time_passes(&mut self, at: Stamp) {
        let up = self.started.difference(&self.down).next().copied();
        if let Some(node) = up.filter(|_| self.last < at) {
            let name = "time passes".to_owned();
            self.event(node, at, EventKind::Local { name }, None, None);
        }
    }

    fn finish(mut self, violation: &Violation, focus: &Focus<'_>) -> Execution {
        self.builder.name(&violation.id.to_string());
        self.builder.note(notes::PROPERTY, violation.rule.as_str());
        self.builder.note(notes::STEP, (self.events - 1).max(0));
        self.builder.note("rule", violation.text.as_str());
        self.builder.note("reason", violation.reason.as_str());
        self.builder.note(notes::ORDER, "recorded");
        self.builder.note(notes::PARTIAL, Value::List(focus.partial()));
        if let Some(key) = &violation.key {
            self.builder.note(notes::KEY, key.clone());
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
