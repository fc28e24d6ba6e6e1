//! The present snapshot: who is there, what each node shows, and the tuples by key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

use everhold_property::{Member, Schema, State};
use everhold_trace::value::StableHash;
use everhold_trace::wire::{Name, Stamp, Tuple, relate, settle};
use everhold_trace::{NodeId, Value};
use rustc_hash::FxHasher;

use crate::assemble::{Change, Changing};

mod groups;
mod save;

use groups::{Groups, Said};

/// A hash of a key: the same in every process and version, so that partitions agree.
#[must_use]
pub fn hash_of(key: &Value) -> u64 {
    StableHash::of(key)
}

/// The place of a key among the [`Slot`]s.
pub(crate) type SlotId = usize;

/// Everything that is known of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// Whether it belongs to a key.
    used: bool,
    pub(crate) key: Value,
    pub(crate) cells: Vec<Cell>,
    /// Which relations were ever told of the key, as bits.
    heard: u64,
}

/// The value of one key in one relation of one node.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) node: NodeId,
    pub(crate) relation: Name,
    /// After which loss of the node's records it was said; older is out of date.
    pub(crate) epoch: u32,
    pub(crate) at: Stamp,
    /// `None`: it said that there is no tuple.
    pub(crate) value: Option<Value>,
}

/// The known state of one node.
#[derive(Clone, Debug)]
struct Shown {
    /// A record; relations that some rule reads as a whole are maps in it.
    state: Value,
    /// Whether it has shown anything in this life.
    reported: bool,
    /// Variables that may be out of date since records were lost.
    stale: BTreeSet<String>,
    /// The number of times in this life that records were lost or it began to send its whole state.
    epoch: u32,
    /// The first epoch whose content is still known to be valid.
    known_from: u32,
    /// Whether it says nothing of the keys of which nothing is known here.
    whole: bool,
    /// The epoch since which it tells everything.
    refreshing: Option<u32>,
    /// Variables that it has not sent since.
    untold: BTreeSet<String>,
    /// Whether it has sent any tuple.
    tupled: bool,
    /// Nothing is known of it at present.
    missing: bool,
    /// Whether it can tell all that it shows, as it began to do in this life or an earlier one.
    tells_all: bool,
}

/// The part of the world that a change affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// The members, and perhaps cells of the node.
    Members(NodeId),
    /// Whether anything is known of a node.
    Knowledge(NodeId),
    /// The state of a node.
    Node(NodeId),
    /// The value of a key at a node; and the node's state, if the relation is mapped.
    Cell { node: NodeId, slot: SlotId, mapped: bool },
    /// The messages to or from a node.
    Channel(NodeId),
    /// Nothing.
    Nothing,
}

/// The present snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    members: Vec<Member>,
    shown: Vec<Shown>,
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    index: HashMap<Value, SlotId, BuildHasherDefault<FxHasher>>,
    /// The numbers of the messages in flight from one node to another.
    in_flight: BTreeMap<(NodeId, NodeId), BTreeSet<u64>>,
    /// Whether any message was ever reported; if none was, none says that it is quiet.
    pub(crate) messages_seen: bool,
    /// Relations that are also kept as maps in the states of nodes.
    mapped: BTreeSet<String>,
    /// Of states as a whole, and of states seen under one key.
    schema: Schema,
    keyed_schema: Schema,
    /// The relations of which tuples were seen, in the order in which they came, and the names of groups.
    relations: Vec<Name>,
    groups: Groups,
    /// Tuples that a node left out when it sent its whole state, for the history.
    left_out: Vec<Tuple>,
    /// Which (kind, variable) were seen; types are joined only now and then.
    seen: BTreeMap<(String, Name), u32>,
}

/// Of each variable of each kind, so many values go into the schema.
const SCHEMA_SAMPLES: u32 = 64;

/// More messages in flight between two nodes than this were lost, the oldest first.
const IN_FLIGHT_MAX: usize = 4096;

/// The number of former nodes that are remembered as members that are down.
const DOWN_MAX: usize = 1024;

impl Shown {
    fn new() -> Shown {
        Shown {
            state: Value::Record(BTreeMap::new()),
            reported: false,
            stale: BTreeSet::new(),
            epoch: 0,
            known_from: 0,
            whole: true,
            refreshing: None,
            untold: BTreeSet::new(),
            tupled: false,
            missing: false,
            tells_all: false,
        }
    }

    /// Records were lost: the state that is known so far may be out of date.
    fn lose(&mut self) {
        self.hide_until_told();
        self.refreshing = None;
        let names: Vec<String> = fields(&mut self.state).keys().cloned().collect();
        self.stale.extend(names);
    }

    fn hide_until_told(&mut self) {
        self.epoch += 1;
        self.known_from = self.epoch;
        self.whole = false;
    }

    /// The node begins to send its whole state. What is known stays known meanwhile; but of a node that
    /// has sent nothing yet, nothing is known before it has finished.
    fn refresh(&mut self) {
        self.tells_all = true;
        if self.reported {
            self.epoch += 1;
        } else {
            self.hide_until_told();
        }
        self.refreshing = Some(self.epoch);
        self.untold = fields(&mut self.state).keys().cloned().collect();
    }

    fn is_known(&self) -> bool {
        let tuples = self.whole || !self.tupled;
        self.reported && !self.missing && self.stale.is_empty() && tuples
    }
}

impl State for World {
    fn members(&self) -> &[Member] {
        &self.members
    }

    fn state(&self, node: NodeId) -> Option<&Value> {
        let shown = &self.shown[self.place(node).ok()?];
        shown.is_known().then_some(&shown.state)
    }

    fn in_flight(&self, from: NodeId, to: NodeId) -> bool {
        self.in_flight.contains_key(&(from, to))
    }
}

impl World {
    fn place(&self, node: NodeId) -> Result<usize, usize> {
        let guess = node.index();
        if self.members.get(guess).is_some_and(|member| member.id == node) {
            return Ok(guess);
        }
        self.members.binary_search_by_key(&node, |member| member.id)
    }

    pub(crate) fn schema(&self) -> (&Schema, &Schema) {
        (&self.schema, &self.keyed_schema)
    }

    pub(crate) fn slot(&self, slot: SlotId) -> &Slot {
        &self.slots[slot]
    }

    pub(crate) fn slot_of(&self, key: &Value) -> Option<SlotId> {
        self.index.get(key).copied()
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Whether the slot belongs to a key.
    pub(crate) fn is_used(&self, slot: SlotId) -> bool {
        self.slots[slot].used
    }

    /// The number of keys.
    pub(crate) fn key_count(&self) -> usize {
        self.index.len()
    }

    /// Whether nothing is said of the key any more.
    pub(crate) fn is_idle(&self, slot: SlotId) -> bool {
        self.slots[slot].cells.iter().all(|cell| cell.value.is_none())
    }

    /// The tuples of a relation and the values of a variable of that name (under the key null).
    pub(crate) fn facts(&self, name: &str) -> Vec<(NodeId, Value, Value)> {
        let mut facts = Vec::new();
        for slot in &self.slots {
            for cell in slot.cells.iter().filter(|cell| *cell.relation == *name) {
                let value = cell.value.clone();
                facts.extend(value.map(|value| (cell.node, slot.key.clone(), value)));
            }
        }
        for (member, shown) in self.members.iter().zip(&self.shown) {
            if let Some(value) = shown.state.get(name).filter(|_| !self.mapped.contains(name)) {
                facts.push((member.id, Value::Null, value.clone()));
            }
        }
        facts
    }

    /// The tuples of a relation, of all nodes and keys.
    pub(crate) fn tuples_of(&self, relation: &str) -> Vec<(NodeId, Tuple)> {
        let mut tuples = Vec::new();
        for slot in self.slots.iter().filter(|slot| slot.used) {
            for cell in slot.cells.iter().filter(|cell| *cell.relation == *relation) {
                let Some(value) = cell.value.clone() else { continue };
                let (relation, key) = (cell.relation.clone(), slot.key.clone());
                tuples.push((cell.node, Tuple { relation, key, value }));
            }
        }
        tuples
    }

    pub(crate) fn mapped(&self) -> &BTreeSet<String> {
        &self.mapped
    }

    /// Whether nothing is known of a node, whatever it showed.
    pub(crate) fn is_hidden(&self, node: NodeId) -> bool {
        self.place(node).map_or(true, |place| self.shown[place].missing)
    }

    /// Whether a node that speaks can tell what is not known of it.
    pub(crate) fn can_tell(&self, node: NodeId) -> bool {
        let shown = self.place(node).map(|place| &self.shown[place]);
        shown.is_ok_and(|shown| shown.tells_all && !shown.missing)
    }

    /// Whether a node says nothing of the keys of which nothing is known here.
    pub(crate) fn is_whole(&self, node: NodeId) -> bool {
        self.place(node).is_ok_and(|place| self.shown[place].whole)
    }

    /// Takes the tuples that a node left out when it sent its whole state.
    pub(crate) fn take_left_out(&mut self) -> Vec<Tuple> {
        std::mem::take(&mut self.left_out)
    }

    /// The variables of a node.
    pub(crate) fn variables(&self, node: NodeId) -> Vec<(Name, Value)> {
        let Ok(place) = self.place(node) else { return Vec::new() };
        let Value::Record(fields) = &self.shown[place].state else { return Vec::new() };
        let plain = fields.iter().filter(|(name, _)| !self.mapped.contains(*name));
        plain.map(|(name, value)| (Name::from(name.as_str()), value.clone())).collect()
    }

    /// A variable of a node, if it is known.
    pub(crate) fn variable(&self, node: NodeId, name: &str) -> Result<&Value, ()> {
        let shown = &self.shown[self.place(node).map_err(|_| ())?];
        if shown.missing || shown.stale.contains(name) {
            return Err(());
        }
        match shown.state.get(name) {
            Some(value) => Ok(value),
            // Its tuples are not in the state.
            None if self.is_relation(name) && !self.mapped.contains(name) => Err(()),
            None => Ok(&NULL),
        }
    }

    /// The value of a key at a node: `Err` if that is not known.
    pub(crate) fn cell(&self, slot: SlotId, node: NodeId, relation: &str) -> Result<&Value, ()> {
        let shown = &self.shown[self.place(node).map_err(|_| ())?];
        if shown.missing {
            return Err(());
        }
        let same = |cell: &&Cell| cell.node == node && *cell.relation == *relation;
        let cell = self.slots[slot].cells.iter().find(same);
        let is_known = cell.map_or(shown.whole, |cell| cell.epoch >= shown.known_from);
        if !is_known || (!shown.whole && self.groups.are_called(relation)) {
            return Err(());
        }
        Ok(cell.and_then(|cell| cell.value.as_ref()).unwrap_or(&NULL))
    }

    /// Keeps these relations as maps too, from now on.
    pub(crate) fn map_relations(&mut self, wanted: &BTreeSet<String>) {
        for gone in self.mapped.clone().difference(wanted) {
            self.shown.iter_mut().for_each(|shown| drop(fields(&mut shown.state).remove(gone)));
        }
        let new: BTreeSet<String> = wanted.difference(&self.mapped).cloned().collect();
        for slot in &self.slots {
            for cell in slot.cells.iter().filter(|cell| new.contains(&*cell.relation)) {
                let found = self.members.binary_search_by_key(&cell.node, |member| member.id);
                if let (Ok(place), Some(value)) = (found, &cell.value) {
                    let map = relation_map(&mut self.shown[place].state, &cell.relation);
                    map.insert(slot.key.clone(), value.clone());
                }
            }
        }
        self.mapped.clone_from(wanted);
    }

    /// Makes a change.
    pub(crate) fn apply(&mut self, change: &Change) -> Touched {
        let node = change.node;
        match &change.what {
            Changing::Up { name, kind } => self.up(node, name, kind),
            Changing::Down { .. } => self.down(node),
            Changing::Observe(values) => self.observe(node, values, false),
            Changing::State(values) => self.observe(node, values, true),
            Changing::Add(tuple) => self.tuple(change.at, node, tuple, true),
            Changing::Remove(tuple) => self.tuple(change.at, node, tuple, false),
            Changing::Sent { to, seq } => self.sent(node, *to, *seq),
            Changing::Received { from, seq } => self.received(*from, node, *seq),
            Changing::Lost { .. } => self.with(node, Shown::lose),
            Changing::Refresh => self.with(node, Shown::refresh),
            Changing::Whole => self.whole(node),
            Changing::Joining | Changing::Missing { .. } => {
                self.with(node, |shown| shown.missing = true)
            }
            Changing::Present => self.with(node, |shown| shown.missing = false),
        }
    }

    fn sent(&mut self, from: NodeId, to: NodeId, seq: u64) -> Touched {
        self.messages_seen = true;
        let numbers = self.in_flight.entry((from, to)).or_default();
        numbers.insert(seq);
        if numbers.len() > IN_FLIGHT_MAX {
            numbers.pop_first();
        }
        Touched::Channel(from)
    }

    fn received(&mut self, from: NodeId, to: NodeId, seq: u64) -> Touched {
        if let Some(numbers) = self.in_flight.get_mut(&(from, to)) {
            numbers.remove(&seq);
            if numbers.is_empty() {
                self.in_flight.remove(&(from, to));
            }
        }
        Touched::Channel(to)
    }

    fn with(&mut self, node: NodeId, change: impl FnOnce(&mut Shown)) -> Touched {
        let Ok(place) = self.place(node) else { return Touched::Nothing };
        change(&mut self.shown[place]);
        Touched::Knowledge(node)
    }

    /// The node has finished sending its whole state: what it left out is gone.
    fn whole(&mut self, node: NodeId) -> Touched {
        let Ok(place) = self.place(node) else { return Touched::Nothing };
        let shown = &mut self.shown[place];
        let Some(since) = shown.refreshing.take() else { return Touched::Nothing };
        let already = self.left_out.len();
        for slot in &mut self.slots {
            let key = &slot.key;
            slot.cells.retain(|cell| {
                let stays = cell.node != node || cell.epoch >= since;
                let is_group = self.groups.are_called(&cell.relation);
                if let (false, false, Some(value)) = (stays, is_group, &cell.value) {
                    let (relation, value) = (Name::clone(&cell.relation), value.clone());
                    if self.mapped.contains(&*relation) {
                        relation_map(&mut shown.state, &relation).remove(key);
                    }
                    self.left_out.push(Tuple { relation, key: key.clone(), value });
                }
                stays
            });
        }
        let untold = std::mem::take(&mut shown.untold);
        let mapped = &self.mapped;
        fields(&mut shown.state).retain(|name, _| mapped.contains(name) || !untold.contains(name));
        shown.stale.clear();
        (shown.known_from, shown.whole, shown.reported) = (since, true, true);
        self.ungroup(node, since, already);
        Touched::Knowledge(node)
    }

    fn up(&mut self, node: NodeId, name: &str, kind: &str) -> Touched {
        let shown = Shown::new();
        let member = Member::new(node, name, kind);
        match self.place(node) {
            Ok(place) => {
                self.members[place] = member;
                let tells_all = self.shown[place].tells_all;
                self.shown[place] = Shown { tells_all, ..shown };
                self.forget_cells(node);
            }
            Err(place) => {
                self.members.insert(place, member);
                self.shown.insert(place, shown);
            }
        }
        Touched::Members(node)
    }

    fn down(&mut self, node: NodeId) -> Touched {
        let Ok(place) = self.place(node) else { return Touched::Nothing };
        self.forget_cells(node);
        self.in_flight.retain(|(from, to), _| *from != node && *to != node);
        let down = self.members.iter().filter(|member| !member.up).count();
        if down >= DOWN_MAX {
            self.members.remove(place);
            self.shown.remove(place);
        } else {
            self.members[place].up = false;
            self.shown[place] = Shown::new();
        }
        Touched::Members(node)
    }

    /// The cells of a node vanish; the slots stay until they are next touched, since rules must
    /// look at them once more.
    fn forget_cells(&mut self, node: NodeId) {
        for slot in &mut self.slots {
            slot.cells.retain(|cell| cell.node != node);
        }
    }

    /// Frees the slot of a key.
    pub(crate) fn release(&mut self, slot: SlotId) {
        if self.index.remove(&self.slots[slot].key).is_some() {
            self.slots[slot] = Slot::default();
            self.free.push(slot);
        }
    }

    fn observe(&mut self, node: NodeId, values: &[(Name, Value)], whole: bool) -> Touched {
        let Ok(place) = self.place(node) else { return Touched::Nothing };
        let kind = self.members[place].kind.clone();
        for (name, value) in values {
            self.note_type(&kind, name, value, value);
        }
        let shown = &mut self.shown[place];
        if whole {
            shown.tells_all = true;
            shown.stale.clear();
            let mapped = &self.mapped;
            fields(&mut shown.state).retain(|name, _| mapped.contains(name));
        }
        shown.reported = true;
        for (name, value) in values {
            shown.stale.remove(&**name);
            shown.untold.remove(&**name);
            let state = fields(&mut shown.state);
            match state.get_mut(&**name) {
                Some(held) => held.clone_from(value),
                None => drop(state.insert(name.to_string(), value.clone())),
            }
        }
        Touched::Node(node)
    }

    fn tuple(&mut self, at: Stamp, node: NodeId, tuple: &Tuple, add: bool) -> Touched {
        let Ok(place) = self.place(node) else { return Touched::Nothing };
        let epoch = self.shown[place].epoch;
        (self.shown[place].reported, self.shown[place].tupled) = (true, true);
        let slot = self.slot_for(&tuple.key);
        let is_grouped = self.groups.concern(&tuple.relation);
        let cells = &mut self.slots[slot].cells;
        let same = |cell: &Cell| cell.node == node && cell.relation == tuple.relation;
        let found = cells.iter_mut().find(|cell| same(cell));
        let (before, after) = match found {
            Some(cell) => {
                let before = cell.value.clone().filter(|_| is_grouped);
                settle(&mut cell.value, tuple, add);
                (cell.at, cell.epoch) = (at, epoch);
                (before, cell.value.clone().filter(|_| is_grouped))
            }
            None => {
                let relation = Name::clone(&tuple.relation);
                let value = add.then(|| tuple.value.clone());
                cells.push(Cell { node, relation, epoch, at, value: value.clone() });
                let kind = self.members[place].kind.clone();
                self.note_tuple(&kind, tuple);
                self.hear(slot, &tuple.relation);
                (None, value)
            }
        };
        if is_grouped {
            self.regroup(Said { at, epoch, node }, tuple, before.as_ref(), after.as_ref());
        }
        let mapped = self.mapped.contains(&*tuple.relation);
        if mapped {
            relate(fields(&mut self.shown[place].state), tuple, add);
        }
        Touched::Cell { node, slot, mapped }
    }

    fn slot_for(&mut self, key: &Value) -> SlotId {
        if let Some(slot) = self.index.get(key) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[slot].key.clone_from(key);
        self.slots[slot].used = true;
        self.index.insert(key.clone(), slot);
        slot
    }

    fn note_tuple(&mut self, kind: &str, tuple: &Tuple) {
        let map = Value::Map([(tuple.key.clone(), tuple.value.clone())].into());
        self.note_type(kind, &tuple.relation, &map, &tuple.value);
    }

    fn note_type(&mut self, kind: &str, name: &Name, whole: &Value, keyed: &Value) {
        let seen = self.seen.entry((kind.to_owned(), Name::clone(name))).or_default();
        if *seen < SCHEMA_SAMPLES {
            *seen += 1;
            self.schema.observe(kind, &Value::record([(name.to_string(), whole.clone())]));
            self.keyed_schema.observe(kind, &Value::record([(name.to_string(), keyed.clone())]));
        }
    }
}

pub(crate) static NULL: Value = Value::Null;

fn fields(state: &mut Value) -> &mut BTreeMap<String, Value> {
    if !matches!(state, Value::Record(_)) {
        *state = Value::Record(BTreeMap::new());
    }
    match state {
        Value::Record(fields) => fields,
        _ => unreachable!("it was just made a record"),
    }
}

fn relation_map<'a>(state: &'a mut Value, relation: &str) -> &'a mut BTreeMap<Value, Value> {
    everhold_trace::wire::relation(fields(state), relation)
}
