//! The nodes that processes are, or that are in them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use everhold_live::{Agent, Feed, NodeId, Recording};
use everhold_trace::wire::{Tuple, What};
use everhold_trace::{EventKind, Value};

use crate::language::Identity;
use crate::processes;

/// A node that is being reported.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) feed: Feed,
    pub(crate) id: NodeId,
    process: u32,
    /// Variables that are records, of which a line may set one field.
    records: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Node {
    /// A key and its values, as a tuple.
    pub(crate) fn tuple(relation: &str, mut values: Vec<Value>) -> Tuple {
        let key = values.remove(0);
        let value = match values.len() {
            0 => true.into(),
            1 => values.remove(0),
            _ => Value::List(values),
        };
        Tuple { relation: relation.into(), key, value }
    }

    /// New values of variables, and of fields in them.
    pub(crate) fn observe(&mut self, fields: Vec<(Vec<String>, Value)>) -> What {
        let mut changed: BTreeMap<String, Value> = BTreeMap::new();
        for (mut names, value) in fields {
            let name = names.remove(0);
            if names.is_empty() {
                changed.insert(name, value);
                continue;
            }
            let record = self.records.entry(name.clone()).or_default();
            record.insert(names.join("."), value);
            changed.insert(name, Value::Record(record.clone()));
        }
        What::Observe(changed.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// The tuple under a key ceases to hold, if there is one.
    pub(crate) fn remove(&self, relation: &str, key: Value) -> Option<What> {
        let Value::Record(mut fields) = self.feed.state() else { return None };
        let Some(Value::Map(tuples)) = fields.get_mut(relation) else { return None };
        let value = tuples.remove(&key)?;
        Some(What::Remove(Tuple { relation: relation.into(), key, value }))
    }
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    kind: String,
    record: Option<PathBuf>,
    /// The machine, if names of nodes mean something on it alone.
    machine: String,
    /// The numbers of all nodes that were ever seen, by name.
    numbers: BTreeMap<String, NodeId>,
    present: BTreeMap<String, Node>,
    /// The node that a whole process is.
    of_process: BTreeMap<u32, String>,
}

impl Nodes {
    pub(crate) fn new(kind: String, record: Option<PathBuf>, identity: &Identity) -> Nodes {
        let machine = match identity {
            Identity::Process | Identity::Address => processes::machine(),
            Identity::Argument(_) | Identity::Environment(_) | Identity::File(_) => String::new(),
        };
        Nodes {
            kind,
            record,
            machine,
            numbers: BTreeMap::new(),
            present: BTreeMap::new(),
            of_process: BTreeMap::new(),
        }
    }

    pub(crate) fn known(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.present.iter()
    }

    pub(crate) fn feeds(&self) -> impl Iterator<Item = &Feed> {
        self.present.values().map(|node| &node.feed)
    }

    /// The name of the node that a whole process is.
    pub(crate) fn of_process(&self, process: u32) -> Option<&str> {
        self.of_process.get(&process).map(String::as_str)
    }

    /// The whole process is this node; returns the name that it gets.
    pub(crate) fn whole(&mut self, agent: &Agent, process: u32, name: &str) -> String {
        // Two processes cannot be one node: the later one says so in its name.
        let is_taken = self.present.get(name).is_some_and(|node| node.process != process);
        let name = if is_taken { format!("{name}-{process}") } else { name.to_owned() };
        self.of_process.insert(process, name.clone());
        self.of(agent, process, &name);
        name
    }

    /// The node with this name, in a process.
    pub(crate) fn of(&mut self, agent: &Agent, process: u32, name: &str) -> &mut Node {
        let moved = self.present.get(name).is_some_and(|node| node.process != process);
        if moved && let Some(before) = self.present.remove(name) {
            before.feed.close(agent, Instant::now(), true);
        }
        let Nodes { kind, record, machine, numbers, .. } = self;
        self.present.entry(name.to_owned()).or_insert_with(|| {
            let is_first = !numbers.contains_key(name);
            let id = numbers.get(name).copied().unwrap_or_else(|| number(machine, name, numbers));
            numbers.insert(name.to_owned(), id);
            let kind = match kind.is_empty() {
                true => processes::program_name(process),
                false => kind.clone(),
            };
            let recording = record.as_ref().map(|folder| Recording::into(folder).from_outside());
            let mut feed = agent.node(id, name, &kind, now_micros(), recording);
            let began = if is_first { EventKind::Start } else { EventKind::Restart };
            feed.record(agent, Instant::now(), What::Event(began));
            Node { feed, id, process, records: BTreeMap::new() }
        })
    }

    /// Records were lost, of a process or of all.
    pub(crate) fn lost(&mut self, process: Option<u32>, records: u64) {
        for node in self.present.values_mut() {
            if process.is_none_or(|process| node.process == process) {
                node.feed.lost(records);
                node.records.clear();
            }
        }
    }

    pub(crate) fn pass(&mut self, agent: &Agent, to: Instant) {
        self.present.values_mut().for_each(|node| node.feed.pass(agent, to));
    }

    /// A process is gone; returns the names of its nodes, with their numbers.
    pub(crate) fn bury(
        &mut self,
        agent: &Agent,
        process: u32,
        at: Instant,
    ) -> Vec<(String, NodeId)> {
        self.of_process.remove(&process);
        let of = |(name, node): (&String, &Node)| {
            (node.process == process).then(|| (name.clone(), node.id))
        };
        let names: Vec<(String, NodeId)> = self.present.iter().filter_map(of).collect();
        for (name, _) in &names {
            if let Some(node) = self.present.remove(name) {
                node.feed.close(agent, at, true);
            }
        }
        names
    }

    pub(crate) fn close_all(self, agent: &Agent, at: Instant) {
        self.present.into_values().for_each(|node| node.feed.close(agent, at, false));
    }
}

/// The numbers of nodes that are attached to. Those that report themselves have smaller ones, and a
/// watch keeps a table as long as the largest.
const NUMBERS: Range<u32> = 1 << 10..1 << 16;

/// The number of a node with this name. Every session finds the same one, so a watch knows a node that is
/// attached to again, and sessions on several machines hardly ever number different nodes alike; the
/// watch refuses one of them then, and says so.
fn number(machine: &str, name: &str, taken: &BTreeMap<String, NodeId>) -> NodeId {
    // FNV-1a, which is the same in every version.
    let add = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let bytes = machine.as_bytes().iter().chain(&[0]).chain(name.as_bytes());
    let hash = bytes.fold(0x811c_9dc5, add);
    let count = NUMBERS.end - NUMBERS.start;
    let numbers = (0..count).map(|more| NodeId(NUMBERS.start + (hash % count + more) % count));
    let mut free = numbers.filter(|number| taken.values().all(|other| other != number));
    free.next().unwrap_or(NodeId(NUMBERS.end + u32::try_from(taken.len()).unwrap_or(0)))
}

/// Microseconds since 1970.
fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_in_every_session_and_free() {
        let mut taken = BTreeMap::new();
        let first = number("", "alice", &taken);
        assert_eq!(first, number("", "alice", &taken));
        assert_ne!(first, number("", "bob", &taken));
        assert_ne!(number("here", "redis-7", &taken), number("there", "redis-7", &taken));
        taken.insert("alice".to_owned(), first);
        let next = number("", "alice", &taken);
        assert!(next != first && NUMBERS.contains(&next.0), "{next}");
    }
}
