//! Rules about all keys at once, where the keys are spread over partitions.
//!
//! Such a rule is a dataflow of two stages. The first runs in every partition: it selects, in the
//! order of stamps, the changes of the tuples that some rule reads as a whole or in groups. They are
//! exchanged through the log: each goes to the partition that the rule's name selects, or to that of its
//! group (`interest`). There the second stage merges what came from all partitions and judges the rule on
//! the state of all keys, or of all keys of its groups.
//!
//! A message says how far its sender has come, and changes are handed on only below the least of
//! these stamps. It is numbered by the entry that caused it, so a checker that reads its log again
//! sends the same messages, which count once. When the rules change, each partition marks the place
//! in what it sends; the second stage takes over new rules when it has the marks of all partitions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use everhold_property::Verdict;
use everhold_trace::value::StableHash;
use everhold_trace::wire::{Stamp, Tuple};
use everhold_trace::{NodeId, Value};

use super::{CheckOptions, PartitionChecker};
use crate::assemble::{Assembler, Change, Changing};
use crate::log::partition_of;
use crate::notice::Notice;
use crate::rule::{Reach, RuleCounts, RuleSet, RuleStatus};
use crate::save::{Fields, Read, bad, from_bytes, list, number, stamp, to_bytes};
use crate::world::{World, hash_of};

mod interest;
mod save;

use interest::Interest;

/// Which of how many partitions a checker judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the partition.
    pub partition: u32,
    /// The number of partitions of the log.
    pub of: u32,
}

impl Default for Place {
    fn default() -> Place {
        Place { partition: 0, of: 1 }
    }
}

/// Which of the rules a checker judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All: there is one partition.
    All,
    /// Those about one key at a time.
    ByKey,
    /// Those about groups, of the keys of this partition, and those about all keys that are judged in it.
    Gathered(Place),
}

impl Part {
    pub(super) fn of(place: Place) -> Part {
        if place.of > 1 { Part::ByKey } else { Part::All }
    }

    /// Which keys it judges. The log of a partition has no others, so that only a gathered part asks.
    pub(super) fn place(self) -> Place {
        match self {
            Part::Gathered(place) => place,
            Part::All | Part::ByKey => Place::default(),
        }
    }

    /// The rules of this part.
    pub(super) fn select(self, set: &RuleSet) -> RuleSet {
        set.only(|name, reach| match (self, reach) {
            (Part::All, _) => true,
            (Part::ByKey, reach) => reach == Reach::OneKey,
            (Part::Gathered(_), Reach::OneKey) => false,
            (Part::Gathered(_), Reach::Group) => true,
            (Part::Gathered(place), Reach::AllKeys) => judged_in(name, place.of) == place.partition,
        })
    }
}

/// The partition in which a rule about all keys is judged.
fn judged_in(rule: &str, of: u32) -> u32 {
    partition_of(hash_of(&Value::from(rule)), of)
}

/// The same rules have the same edition.
fn edition_of(rules: &RuleSet) -> u64 {
    StableHash::of(&Value::from(rules.text()))
}

/// A message tells how far its sender has come at least this often, in microseconds of arrival.
const TELL_EVERY: u64 = 50_000;

/// Changes are collected for so many microseconds of arrival before they are sent.
const SEND_EVERY: u64 = 10_000;

/// A message is closed at about so many items.
const ITEMS_MAX: usize = 1_000;

/// If a partition sends nothing for so many microseconds, what depends on it is unknown.
const SILENT_MAX: u64 = 5_000_000;

/// A message from one partition to another.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Change(Change),
    /// A tuple that holds at the mark which follows.
    Holds {
        at: Stamp,
        node: NodeId,
        tuple: Tuple,
    },
    /// From here on, rules of another edition are in force, and `relations` are sent anew.
    Mark {
        at: Stamp,
        edition: u64,
        relations: Vec<String>,
    },
}

/// The input from one partition.
#[derive(Clone, Debug, Default)]
struct Source {
    /// The number of its last message.
    last: u64,
    frontier: Stamp,
    /// The last edition of the rules of which its mark was handed on.
    edition: u64,
    queue: VecDeque<Item>,
    /// The number of items of the queue that belong to marks.
    barriers: usize,
}

impl Source {
    fn extend(&mut self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.barriers += usize::from(item.is_barrier());
            self.queue.push_back(item);
        }
    }

    fn pop(&mut self) -> Option<Item> {
        let item = self.queue.pop_front()?;
        self.barriers -= usize::from(item.is_barrier());
        Some(item)
    }

    /// Below which stamp its changes can be handed on.
    fn complete(&self, frontier: Stamp) -> Stamp {
        let barrier = match self.barriers {
            0 => None,
            _ => self.queue.iter().find(|item| item.is_barrier()),
        };
        barrier.map_or(frontier, |item| item.at().min(frontier))
    }

    fn has_mark(&self, edition: u64) -> bool {
        self.barriers > 0 && self.queue.iter().any(|item| item.is_mark(edition))
    }
}

/// The output to one partition.
#[derive(Clone, Debug, Default)]
struct Target {
    /// The tuples that its rules read.
    wanted: Interest,
    /// Whether it judges any rule that is not about one key.
    judges: bool,
    /// The progress of this partition that was announced to it.
    told: Stamp,
    /// The time of the last message to it, in microseconds of arrival.
    said: u64,
    draft: Vec<Item>,
}

impl Target {
    fn is_due(&self, frontier: Stamp, now: u64) -> bool {
        let silent = now.saturating_sub(self.said);
        match self.draft.len() {
            0 => self.judges && frontier > self.told && silent >= TELL_EVERY,
            ITEMS_MAX.. => true,
            _ => silent >= SEND_EVERY,
        }
    }
}

/// The part of a checker that exchanges tuples with the checkers of other partitions.
#[derive(Debug)]
pub(super) struct Exchange {
    place: Place,
    sources: Vec<Source>,
    targets: Vec<Target>,
    /// Judges the rules about all keys.
    pub(super) gathered: Box<PartitionChecker>,
    /// The edition of the rules that are in force in this partition.
    edition: u64,
    /// The rules that are not judged yet, in their order.
    pending: VecDeque<RuleSet>,
    /// Below this stamp, the states of the partitions do not belong together yet.
    quiet_until: Stamp,
    reached: Stamp,
    /// The nodes of which some partitions know nothing at present.
    away: BTreeMap<NodeId, BTreeSet<u32>>,
}

impl Item {
    fn at(&self) -> Stamp {
        match self {
            Item::Change(change) => change.at,
            Item::Holds { at, .. } | Item::Mark { at, .. } => *at,
        }
    }

    /// The order of items with the same stamp.
    fn rank(&self) -> u8 {
        let Item::Change(change) = self else { return 6 };
        match change.what {
            Changing::Down { .. } => 0,
            Changing::Up { .. } => 1,
            Changing::Lost { .. } => 2,
            Changing::Refresh => 3,
            Changing::Whole => 5,
            _ => 4,
        }
    }

    fn is_barrier(&self) -> bool {
        !matches!(self, Item::Change(_))
    }

    fn is_mark(&self, wanted: u64) -> bool {
        matches!(self, Item::Mark { edition, .. } if *edition == wanted)
    }
}

impl Exchange {
    /// `None` if there is one partition.
    pub(super) fn of(options: CheckOptions) -> Option<Box<Exchange>> {
        let place = options.place;
        if place.of <= 1 {
            return None;
        }
        let gathered = PartitionChecker::of_part(options, Part::Gathered(place));
        Some(Box::new(Exchange {
            place,
            sources: (0..place.of).map(|_| Source::default()).collect(),
            targets: (0..place.of).map(|_| Target::default()).collect(),
            gathered: Box::new(gathered),
            edition: 0,
            pending: VecDeque::new(),
            quiet_until: Stamp(0),
            reached: Stamp(0),
            away: BTreeMap::new(),
        }))
    }

    /// The rules of another edition are in force in this partition.
    pub(super) fn rules(&mut self, set: &RuleSet, world: &World, at: Stamp) {
        self.edition = edition_of(set);
        self.pending.push_back(set.clone());
        for (number, target) in (0..).zip(&mut self.targets) {
            let (wanted, judges) = Interest::of(set, number, self.place);
            let new = wanted.new_beside(&target.wanted);
            for relation in &new {
                let holds = world.tuples_of(relation).into_iter();
                let holds = holds.filter(|(_, tuple)| wanted.has(tuple));
                let item = |(node, tuple)| Item::Holds { at, node, tuple };
                target.draft.extend(holds.map(item));
            }
            target.draft.push(Item::Mark { at, edition: self.edition, relations: new });
            (target.wanted, target.judges) = (wanted, judges);
        }
    }

    /// The first stage: selects what others need to know of a change.
    pub(super) fn note(&mut self, change: &Change, world: &World) {
        for (number, target) in (0..).zip(&mut self.targets) {
            let is_wanted = match &change.what {
                Changing::Add(_) | Changing::Remove(_) => {
                    target.draft.extend(target.wanted.of_change(change, world).map(Item::Change));
                    false
                }
                Changing::Lost { .. }
                | Changing::Missing { .. }
                | Changing::Joining
                | Changing::Present => target.judges || number == self.place.partition,
                // Every partition is told these by the nodes themselves.
                _ => number == self.place.partition,
            };
            if is_wanted {
                target.draft.push(Item::Change(change.clone()));
            }
        }
    }

    /// The messages that are due after the entry of this number, which arrived at `now`; what this
    /// partition tells itself is taken at once.
    pub(super) fn flush(&mut self, entry: u64, frontier: Stamp, now: u64) -> Vec<(u32, Vec<u8>)> {
        let from = self.place.partition;
        let own = &mut self.sources[from as usize];
        own.extend(self.targets[from as usize].draft.drain(..));
        own.frontier = own.frontier.max(frontier);
        let mut messages = Vec::new();
        for (to, target) in (0..).zip(&mut self.targets) {
            if to == from || !target.is_due(frontier, now) {
                continue;
            }
            let items = std::mem::take(&mut target.draft);
            let parts = items.len().div_ceil(ITEMS_MAX).max(1);
            for part in 0..parts {
                let reached = if part + 1 == parts { frontier } else { target.told };
                let items = items.iter().skip(part * ITEMS_MAX).take(ITEMS_MAX).map(Item::save);
                let count = number((entry << 16) + part as u64);
                let message = [number(from.into()), count, stamp(reached), list(items)];
                messages.push((to, to_bytes(&list(message))));
            }
            (target.told, target.said) = (frontier, now);
        }
        messages
    }

    /// Takes a message of another partition.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Read<()> {
        let mut fields = Fields::of(from_bytes(bytes)?)?;
        let (from, message) = (fields.number()?, fields.number()?);
        let (frontier, items) = (fields.stamp()?, fields.each(Item::load)?);
        let place = usize::try_from(from).map_err(bad)?;
        let source = self.sources.get_mut(place).ok_or_else(|| bad("no partition sent it"))?;
        if message > source.last {
            source.last = message;
            source.frontier = source.frontier.max(frontier);
            source.extend(items);
        }
        Ok(())
    }

    /// The second stage: hands on what is complete, under the rules of its time.
    pub(super) fn advance(&mut self, notices: &mut Vec<Notice>) {
        self.hand_on(notices);
        while let Some(edition) = self.next_edition() {
            self.take_over(edition);
            self.hand_on(notices);
        }
    }

    fn hand_on(&mut self, notices: &mut Vec<Notice>) {
        let reached = self.complete();
        if self.quiet_until > Stamp(0) && reached >= self.quiet_until {
            let at = std::mem::take(&mut self.quiet_until);
            self.hand_on_to(at, PartitionChecker::follow);
            self.gathered.begin(at, notices);
        }
        if self.quiet_until > Stamp(0) || reached <= self.reached {
            return;
        }
        self.hand_on_to(reached, |gathered, change| gathered.change(change, notices));
        self.reached = reached;
        self.gathered.pass(reached, notices);
    }

    fn hand_on_to(&mut self, reached: Stamp, mut take: impl FnMut(&mut PartitionChecker, Change)) {
        while let Some((place, _)) = self.first().filter(|(_, at)| *at < reached) {
            // Marks and what belongs to them hold up what is complete, so this is none of them.
            let Some(Item::Change(change)) = self.sources[place].pop() else { return };
            for change in self.as_seen(place, change) {
                take(&mut self.gathered, change);
            }
        }
    }

    /// Below which stamp everything is there.
    fn complete(&self) -> Stamp {
        let own = self.place.partition as usize;
        let waits = self.targets[own].judges || !self.is_judged();
        let of = |source: &Source| match waits {
            true => source.complete(source.frontier),
            false => source.complete(self.sources[own].frontier),
        };
        self.sources.iter().map(of).min().unwrap_or_default()
    }

    /// The place and the stamp of the next item.
    fn first(&self) -> Option<(usize, Stamp)> {
        let head = |(place, source): (usize, &Source)| {
            let item = source.queue.front()?;
            Some((item.at(), item.rank(), place))
        };
        let (at, _, place) = self.sources.iter().enumerate().filter_map(head).min()?;
        Some((place, at))
    }

    /// The edition of the rules that comes next, if all partitions have come to it and some of them
    /// just now.
    fn next_edition(&self) -> Option<u64> {
        let own = &self.sources[self.place.partition as usize];
        let mark = own.queue.iter().filter(|_| own.barriers > 0).find_map(|item| match item {
            Item::Mark { edition, .. } => Some(*edition),
            _ => None,
        });
        let next = mark.unwrap_or(own.edition);
        let has_come = |source: &Source| source.edition == next || source.has_mark(next);
        let is_new = self.sources.iter().any(|source| source.has_mark(next));
        (is_new && self.sources.iter().all(has_come)).then_some(next)
    }

    /// Whether the present rules are judged.
    fn is_judged(&self) -> bool {
        self.sources.iter().all(|source| source.edition == self.edition)
    }

    /// Follows every partition up to its mark, and puts the rules in force.
    fn take_over(&mut self, next: u64) {
        let mut last = self.reached.max(self.quiet_until);
        for place in 0..self.sources.len() {
            let mut held = BTreeSet::new();
            while self.sources[place].has_mark(next) {
                let Some(item) = self.sources[place].pop() else { break };
                last = last.max(item.at());
                match item {
                    Item::Change(change) => {
                        let changes = self.as_seen(place, change);
                        changes.into_iter().for_each(|change| self.gathered.follow(change));
                    }
                    Item::Holds { at, node, tuple } => {
                        held.insert((node, tuple.relation.to_string(), tuple.key.clone()));
                        self.gathered.follow(Change { at, node, what: Changing::Add(tuple) });
                    }
                    Item::Mark { at, edition, relations } => {
                        self.drop_unless(place, &relations, &std::mem::take(&mut held), at);
                        self.sources[place].edition = edition;
                    }
                }
            }
        }
        self.quiet_until = Stamp(last.0 + 1);
        while self.pending.front().is_some_and(|_| self.gathered_edition() != next) {
            if let Some(set) = self.pending.pop_front() {
                // The checker of this partition tells of the rules.
                self.gathered.put_set_in_force(&set, &mut Vec::new());
            }
        }
    }

    fn gathered_edition(&self) -> u64 {
        edition_of(&self.gathered.set)
    }

    /// Drops the tuples of relations that a partition sends anew and that are no longer among them.
    fn drop_unless(
        &mut self,
        place: usize,
        relations: &[String],
        held: &BTreeSet<(NodeId, String, Value)>,
        at: Stamp,
    ) {
        let is_theirs = |key: &Value| partition_of(hash_of(key), self.place.of) as usize == place;
        let old = relations.iter().flat_map(|name| self.gathered.world.tuples_of(name));
        let gone: Vec<(NodeId, Tuple)> = old
            .filter(|(node, tuple)| {
                let cell = (*node, tuple.relation.to_string(), tuple.key.clone());
                is_theirs(&tuple.key) && !held.contains(&cell)
            })
            .collect();
        for (node, tuple) in gone {
            self.gathered.follow(Change { at, node, what: Changing::Remove(tuple) });
        }
    }

    /// A change from the point of view of all keys: nothing is known of a node as long as nothing is
    /// known of it in some partition.
    fn as_seen(&mut self, place: usize, change: Change) -> Vec<Change> {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let (at, node) = (change.at, change.node);
        match change.what {
            Changing::Missing { .. } | Changing::Joining => {
                self.away.entry(node).or_default().insert(place);
                vec![change]
            }
            Changing::Present => {
                let away = self.away.entry(node).or_default();
                away.remove(&place);
                let is_back = away.is_empty();
                self.away.retain(|_, places| !places.is_empty());
                if is_back { vec![change] } else { Vec::new() }
            }
            Changing::Up { .. } => {
                let others = self.away.get_mut(&node).map(|places| {
                    places.remove(&place);
                    !places.is_empty()
                });
                let hidden = Change { at, node, what: Changing::Joining };
                match others {
                    Some(true) => vec![change, hidden],
                    _ => vec![change],
                }
            }
            _ => vec![change],
        }
    }

    /// How the rules about all keys do that are judged here.
    pub(super) fn statuses(&self, set: &RuleSet, heard: &Assembler) -> Vec<(String, RuleStatus)> {
        let selected = Part::Gathered(self.place).select(set);
        let behind = self.behind();
        let mut known: BTreeMap<String, RuleStatus> = self.gathered.own_rules(heard).collect();
        let status = |(name, text): (&str, String)| {
            let status = known.remove(name).filter(|_| self.is_judged());
            let mut status = status.unwrap_or(RuleStatus {
                counts: RuleCounts::default(),
                firing: 0,
                disabled: false,
                last: Verdict::Unknown,
                unknown: Some("not all partitions have come to this rule yet".to_owned()),
                is_over: false,
                sampled: None,
                text,
            });
            if let Some(behind) = behind.as_ref().filter(|_| status.firing == 0) {
                (status.unknown, status.is_over) = (Some(behind.clone()), false);
            }
            (name.to_owned(), status)
        };
        selected.texts().map(status).collect()
    }

    /// The partition for which the others have waited for too long, in words.
    fn behind(&self) -> Option<String> {
        if !self.targets[self.place.partition as usize].judges {
            return None;
        }
        let (place, source) = self.sources.iter().enumerate().min_by_key(|(_, s)| s.frontier)?;
        let own = self.sources[self.place.partition as usize].frontier.micros();
        let behind = own.saturating_sub(source.frontier.micros());
        (behind > SILENT_MAX).then(|| match source.frontier {
            Stamp(0) => format!("partition {place} has not sent its share of the keys yet"),
            _ => format!("partition {place} is {} s behind the others", behind / 1_000_000),
        })
    }
}
