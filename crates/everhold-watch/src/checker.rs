//! One partition's checker: a function of a checkpoint and a range of the log.
//!
//! It reads no clock and no file: time, membership and rules are in the entries. A checker
//! that starts with the same checkpoint and reads the entries after it gives the same notices with the
//! same identities, so one that dies is replaced by reading again.

use std::collections::BTreeMap;

use everhold_property::{Bound, Modality, State, Verdict};
use everhold_trace::wire::Stamp;
use everhold_trace::{Execution, NodeId, Value};

use crate::assemble::{Assembler, Change, Changing, ClockReading, Counts, Timing};
use crate::certainty::{Alarm, Suspicion};
use crate::dataflow::Flow;
use crate::dataflow::flow::Found;
use crate::entry::{Arrived, BadEntry, read_entry};
use crate::history::{Focus, History};
use crate::log::{Entry, Sequence};
use crate::notice::{Certainty, Notice, Violation, ViolationId};
use crate::rule::{self, BadRules, Firing, Judged, NotWatched, RuleSet, Watched};
use crate::world::{Touched, World};

mod excerpt;
mod exchange;
mod save;
mod silence;
mod standing;
mod suspect;

pub use exchange::Place;
use exchange::{Exchange, Part};
use suspect::LastChanges;

/// How a checker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// The waiting times for nodes that are silent or late.
    pub timing: Timing,
    /// The number of changes that are kept for the traces of violations.
    pub history: usize,
    /// Whether keyed rules over tuples of nodes are judged incrementally. Off is the slow twin:
    /// the same answers, for tests.
    pub incremental: bool,
    /// Which violations are alarms.
    pub alarm: Alarm,
    /// Which partition is judged.
    pub place: Place,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions {
            timing: Timing::default(),
            history: 4096,
            incremental: true,
            alarm: Alarm::default(),
            place: Place::default(),
        }
    }
}

/// Judges rules over the snapshots of one partition.
#[derive(Debug)]
pub struct PartitionChecker {
    options: CheckOptions,
    /// Which of the rules are judged here.
    part: Part,
    next: Sequence,
    /// With the checkers of other partitions, for rules about all keys.
    exchange: Option<Box<Exchange>>,
    /// Messages to be written to the logs of other partitions.
    outgoing: Vec<(u32, Vec<u8>)>,
    assembler: Assembler,
    world: World,
    set: RuleSet,
    rules: Vec<Watched>,
    flows: Vec<Flow>,
    history: History,
    /// Violations that are not certain yet, by rule and key.
    suspicions: BTreeMap<(String, Option<Value>), Vec<Suspicion>>,
    last_changes: LastChanges,
    /// The node that falls silent, or comes back from it, with the present change.
    silent: Option<NodeId>,
    /// Whether violations may wait for nodes that fell silent.
    waiting: bool,
    ticked: u64,
    bad_entries: u64,
    /// Kept between changes for its space.
    judged: Vec<Judged>,
    changes: Vec<Change>,
}

/// Something is noticed to be late at most so many microseconds after it is.
const PATIENCE: u64 = 5_000_000;

/// Time passes for rules in steps of this many microseconds.
const TICK: u64 = 5_000;

impl PartitionChecker {
    /// A checker before its first entry.
    #[must_use]
    pub fn new(options: CheckOptions) -> PartitionChecker {
        let mut checker = PartitionChecker::of_part(options, Part::of(options.place));
        checker.exchange = Exchange::of(options);
        checker
    }

    fn of_part(options: CheckOptions, part: Part) -> PartitionChecker {
        PartitionChecker {
            options,
            part,
            next: 1,
            exchange: None,
            outgoing: Vec::new(),
            assembler: Assembler::new(options.timing),
            world: World::default(),
            set: RuleSet::default(),
            rules: Vec::new(),
            flows: Vec::new(),
            history: History::new(options.history),
            suspicions: BTreeMap::new(),
            last_changes: LastChanges::default(),
            silent: None,
            waiting: false,
            ticked: 0,
            bad_entries: 0,
            judged: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Adds a check written in Rust. It sees the present snapshot first, then each change.
    pub fn add_flow(&mut self, mut flow: Flow) {
        flow.begin(&self.world);
        self.flows.push(flow);
    }

    /// A check written in Rust, by its name.
    #[must_use]
    pub fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.iter().find(|flow| flow.name() == name)
    }

    /// The number of the entry that comes next.
    #[must_use]
    pub fn next(&self) -> Sequence {
        self.next
    }

    /// Returns the counts of irregularities in the input.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.assembler.counts()
    }

    /// Entries that could not be read and were passed over.
    #[must_use]
    pub fn bad_entries(&self) -> u64 {
        self.bad_entries
    }

    /// The rules that are not judged here, and why.
    #[must_use]
    pub fn not_watched(&self) -> &[NotWatched] {
        self.set.not_watched()
    }

    /// Returns the last reading of a node's clock, and whether it disagrees with the others.
    #[must_use]
    pub fn clock(&self, node: NodeId) -> (Option<ClockReading>, bool) {
        self.assembler.clock_of(node)
    }

    /// Whether the watch's own clock disagrees with most nodes.
    #[must_use]
    pub fn own_clock_strays(&self) -> bool {
        self.assembler.watch_strays()
    }

    /// Returns the numbers of keys and nodes of the snapshot, and of waiting records.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        let nodes = self.world.members().iter().filter(|member| member.up).count();
        (self.world.key_count(), nodes, self.assembler.waiting())
    }

    /// The last arrival, in microseconds since 1970, and the stamp up to which snapshots are judged.
    #[must_use]
    pub fn progress(&self) -> (u64, Stamp) {
        (self.assembler.now(), self.assembler.frontier())
    }

    /// The text of the rules in force.
    #[must_use]
    pub fn rules_text(&self) -> &str {
        self.set.text()
    }

    /// Whether rules could be put in force: they read well and fit what the nodes show.
    ///
    /// ```
    /// use everhold_watch::{BadRules, CheckOptions, PartitionChecker};
    ///
    /// let checker = PartitionChecker::new(CheckOptions::default());
    /// let rule = "always \"calm\": forall n in nodes: n.load < 9";
    /// let names: Vec<_> = checker.vet(rule, "calm.prop")?.names().map(str::to_owned).collect();
    /// assert_eq!(names, ["calm"]);
    /// let error = checker.vet("always \"calm\": forall n in", "calm.prop").unwrap_err();
    /// assert!(error.to_string().contains("calm.prop:1"));
    /// # Ok::<(), BadRules>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the rules are wrong; the message shows the places.
    pub fn vet(&self, text: &str, file: &str) -> Result<RuleSet, BadRules> {
        let set = RuleSet::parse(text, file)?;
        set.fits(&self.world, file)?;
        Ok(set)
    }

    /// Takes the next entry.
    pub fn apply(&mut self, entry: &Entry, notices: &mut Vec<Notice>) {
        self.next = entry.sequence + 1;
        if let Err(BadEntry { .. }) = self.take(entry, notices) {
            self.bad_entries += 1;
        }
    }

    fn take(&mut self, entry: &Entry, notices: &mut Vec<Notice>) -> Result<(), BadEntry> {
        let arrival = read_entry(&entry.bytes)?;
        self.assembler.advance(arrival.micros);
        self.arrived(arrival.what, notices)?;
        self.share(entry.sequence, notices);
        Ok(())
    }

    fn arrived(&mut self, what: Arrived, notices: &mut Vec<Notice>) -> Result<(), BadEntry> {
        match what {
            Arrived::Frames(frames) => {
                for (origin, frame) in frames {
                    self.assembler.take(origin, frame);
                }
                self.release(notices);
            }
            Arrived::Rules(text) => self.put_in_force(&text, notices),
            Arrived::Disable(name) => self.disable(&name, notices),
            Arrived::Shared(message) => {
                if let Some(exchange) = &mut self.exchange {
                    exchange.receive(&message).map_err(|error| BadEntry::new(error.0))?;
                }
            }
        }
        Ok(())
    }

    fn disable(&mut self, name: &str, notices: &mut Vec<Notice>) {
        for rule in self.rules.iter_mut().filter(|rule| rule.name == name) {
            rule.disabled = true;
            notices.push(Notice::Disabled { rule: name.to_owned() });
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.gathered.disable(name, notices);
        }
    }

    /// Exchanges what rules about all keys need with the other partitions, and judges those of them
    /// that are judged here.
    fn share(&mut self, entry: Sequence, notices: &mut Vec<Notice>) {
        let Some(exchange) = &mut self.exchange else { return };
        let (now, frontier) = (self.assembler.now(), self.assembler.frontier());
        self.outgoing.extend(exchange.flush(entry, frontier, now));
        // Both judge the stamps of the same clocks.
        std::mem::swap(&mut self.assembler, &mut exchange.gathered.assembler);
        exchange.advance(notices);
        std::mem::swap(&mut self.assembler, &mut exchange.gathered.assembler);
    }

    /// Takes the messages to be written to the logs of other partitions, in this order. A checker that
    /// reads its log again writes them again; they count once.
    pub fn take_outgoing(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.outgoing)
    }

    /// Rules from the log. They were vetted before they were written; one that does not read
    /// any more leaves the old ones in force.
    fn put_in_force(&mut self, text: &str, notices: &mut Vec<Notice>) {
        match RuleSet::parse(text, "rules") {
            Ok(set) => self.put_set_in_force(&set, notices),
            Err(error) => {
                let names = self.set.names().map(str::to_owned).collect();
                let not_watched = self.set.not_watched().to_vec();
                notices.push(Notice::Rules {
                    names,
                    not_watched,
                    refused: vec![error.to_string()],
                });
            }
        }
    }

    fn put_set_in_force(&mut self, set: &RuleSet, notices: &mut Vec<Notice>) {
        let selected = self.part.select(set);
        self.world.map_relations(&selected.whole_fields());
        self.world.group_tuples(&selected.groupings(), self.part.place());
        let old = std::mem::take(&mut self.rules);
        self.rules = rule::adopt(&selected, old, self.options.incremental);
        self.set_horizon();
        let names = set.names().map(str::to_owned).collect();
        let not_watched = set.not_watched().to_vec();
        self.set = set.clone();
        let rules = &self.rules;
        let stays = |name: &str| rules.iter().any(|rule| rule.name == name);
        self.suspicions.retain(|(name, _), _| stays(name));
        if let Some(exchange) = &mut self.exchange {
            exchange.rules(set, &self.world, self.assembler.frontier());
        }
        notices.push(Notice::Rules { names, not_watched, refused: Vec::new() });
    }

    fn release(&mut self, notices: &mut Vec<Notice>) {
        let mut changes = std::mem::take(&mut self.changes);
        self.assembler.release(|change| changes.push(change));
        for change in changes.drain(..) {
            self.change(change, notices);
        }
        self.changes = changes;
        self.tell_clocks(notices);
        let frontier = self.assembler.frontier();
        self.pass(frontier, notices);
        for place in 0..self.flows.len() {
            let mut found = Vec::new();
            self.flows[place].until(frontier, &mut found);
            self.tell_found(place, found, notices);
        }
    }

    fn change(&mut self, change: Change, notices: &mut Vec<Notice>) {
        self.settle(change.at, notices);
        if let Some(exchange) = &mut self.exchange {
            exchange.note(&change, &self.world);
        }
        // Of nodes, the checker tells that the nodes speak to.
        if !matches!(self.part, Part::Gathered(_)) {
            self.tell(&change, notices);
        }
        for place in 0..self.flows.len() {
            let mut found = Vec::new();
            self.flows[place].change(&change, &mut found);
            self.tell_found(place, found, notices);
        }
        let concern = self.last_changes.note(&change, &self.world);
        let touched = self.world.apply(&change);
        let (at, node) = (change.at, change.node);
        if change.what == Changing::Whole && touched != Touched::Nothing {
            self.remember_left_out(at, change.node);
        }
        self.silent = self.falls_silent(&change);
        self.end_old_life(&change, notices);
        self.history.push(change, self.world.mapped());
        let mut judged = std::mem::take(&mut self.judged);
        let regrouped = self.world.take_regrouped();
        for place in 0..self.rules.len() {
            if self.rules[place].disabled {
                continue;
            }
            let rule = &mut self.rules[place];
            rule.touch(&self.world, touched, at, &mut judged);
            for slot in &regrouped {
                let group = Touched::Cell { node, slot: *slot, mapped: false };
                rule.touch(&self.world, group, at, &mut judged);
            }
            for one in judged.drain(..) {
                let by = concern.is_with(&self.rules[place].reads).then_some(node);
                self.verdict(place, one, (at, by), notices);
            }
        }
        self.judged = judged;
        self.silent = None;
        self.tidy(touched);
        regrouped.into_iter().for_each(|slot| self.tidy_slot(slot));
    }

    /// Follows a change without judging it.
    fn follow(&mut self, change: Change) {
        self.last_changes.note(&change, &self.world);
        let touched = self.world.apply(&change);
        if change.what == Changing::Whole && touched != Touched::Nothing {
            self.remember_left_out(change.at, change.node);
        }
        self.history.push(change, self.world.mapped());
        self.tidy(touched);
        self.world.take_regrouped().into_iter().for_each(|slot| self.tidy_slot(slot));
    }

    /// Judges all rules on what was followed without judging it.
    fn begin(&mut self, at: Stamp, notices: &mut Vec<Notice>) {
        let mut judged = std::mem::take(&mut self.judged);
        for place in 0..self.rules.len() {
            if self.rules[place].disabled {
                continue;
            }
            self.rules[place].touch(&self.world, Touched::Members(NodeId(0)), at, &mut judged);
            for one in judged.drain(..) {
                self.verdict(place, one, (at, None), notices);
            }
        }
        self.judged = judged;
    }

    /// All changes before this stamp are there.
    fn pass(&mut self, reached: Stamp, notices: &mut Vec<Notice>) {
        if reached.micros() >= self.ticked + TICK {
            self.ticked = reached.micros();
            self.tick(reached, notices);
        }
        self.decide(reached, notices);
    }

    /// A node has sent its whole state: what it left out also disappears from the states in traces.
    fn remember_left_out(&mut self, at: Stamp, node: NodeId) {
        for tuple in self.world.take_left_out() {
            let change = Change { at, node, what: Changing::Remove(tuple) };
            self.history.push(change, self.world.mapped());
        }
        let values = self.world.variables(node);
        let change = Change { at, node, what: Changing::State(values) };
        self.history.push(change, self.world.mapped());
    }

    /// Frees keys of which nothing is said any more.
    fn tidy(&mut self, touched: Touched) {
        match touched {
            Touched::Cell { slot, .. } => self.tidy_slot(slot),
            Touched::Members(_) | Touched::Knowledge(_) => {
                (0..self.world.slot_count()).for_each(|s| self.tidy_slot(s));
            }
            _ => {}
        }
    }

    fn tidy_slot(&mut self, slot: usize) {
        if !self.world.is_used(slot) || !self.world.is_idle(slot) {
            return;
        }
        let key = &self.world.slot(slot).key;
        if self.rules.iter().all(|rule| !rule.needs(slot, key)) {
            self.rules.iter_mut().for_each(|rule| rule.forget(slot));
            self.world.release(slot);
        }
    }

    /// Judges the rules that are judged at some moments only, if such a moment is over.
    fn settle(&mut self, now: Stamp, notices: &mut Vec<Notice>) {
        let mut judged = std::mem::take(&mut self.judged);
        for place in 0..self.rules.len() {
            if self.rules[place].disabled {
                continue;
            }
            let Some(at) = self.rules[place].settle(&self.world, now, &mut judged) else {
                continue;
            };
            for one in std::mem::take(&mut judged) {
                self.verdict(place, one, (at, None), notices);
                one.slot.into_iter().for_each(|slot| self.tidy_slot(slot));
            }
        }
        self.judged = judged;
    }

    fn tick(&mut self, at: Stamp, notices: &mut Vec<Notice>) {
        self.settle(at, notices);
        self.stop_waiting(at, notices);
        let mut judged = std::mem::take(&mut self.judged);
        for place in 0..self.rules.len() {
            if !self.rules[place].disabled {
                self.rules[place].tick(&self.world, at, &mut judged);
                for one in judged.drain(..) {
                    self.verdict(place, one, (at, None), notices);
                }
            }
        }
        self.judged = judged;
    }

    /// Begins or ends a violation. `by` is the node whose change, if it concerns the rule, is judged.
    fn verdict(
        &mut self,
        place: usize,
        judged: Judged,
        (at, by): (Stamp, Option<NodeId>),
        notices: &mut Vec<Notice>,
    ) {
        let rule = &self.rules[place];
        let idle = rule.firing.is_empty() && self.suspicions.is_empty();
        if judged.verdict != Verdict::Violated && idle {
            return;
        }
        let key = judged.slot.map(|slot| self.world.slot(slot).key.clone());
        if !self.suspicions.is_empty() {
            let verdict = self.as_it_stands(place, judged, at);
            self.suspect(place, &key, verdict, (at, by));
        }
        let rule = &self.rules[place];
        match (judged.verdict, rule.firing.get(&key).copied()) {
            (Verdict::Violated, None) => self.fire(place, judged, at, notices),
            (Verdict::Violated, Some(Firing { id, waits: Some(_), .. })) => {
                if self.is_suspected(place, &key, id) {
                    return self.fire(place, judged, at, notices);
                }
                let firing = self.rules[place].firing.get_mut(&key);
                firing.into_iter().for_each(|firing| firing.waits = None);
            }
            (Verdict::Holds, Some(firing)) => match self.waits_for(firing, at) {
                Some(waits) => {
                    self.waiting = true;
                    self.rules[place].firing.insert(key, Firing { waits: Some(waits), ..firing });
                }
                None => self.resolve(place, key, at, notices),
            },
            _ => {}
        }
    }

    /// A verdict, or that the rule holds from now on, if what was late has just come.
    fn as_it_stands(&self, place: usize, judged: Judged, at: Stamp) -> Verdict {
        let rule = &self.rules[place];
        let is_deadline = judged.verdict == Verdict::Violated && rule.has_deadline();
        let has_come = |(_, is_owed): (Stamp, bool)| !is_owed;
        match is_deadline && rule.lateness(judged.slot, at).is_some_and(has_come) {
            true => Verdict::Holds,
            false => judged.verdict,
        }
    }

    fn fire(&mut self, place: usize, judged: Judged, at: Stamp, notices: &mut Vec<Notice>) {
        let key = judged.slot.map(|slot| self.world.slot(slot).key.clone());
        let late = self.rules[place].lateness(judged.slot, at);
        let (reason, witness) = self.rules[place].explain(&self.world, judged.slot);
        let rule = &mut self.rules[place];
        let id = ViolationId::new(&rule.name, key.as_ref(), at);
        rule.firing.insert(key.clone(), Firing { id, since: at, waits: None });
        let shown = witness.bindings.iter().chain(&witness.values);
        let mut violation = Violation {
            id,
            rule: rule.name.clone(),
            text: rule.text(),
            key,
            at,
            reason,
            witness: shown.map(|item| (item.text.clone(), item.shown.clone())).collect(),
            trace: Execution::default(),
            certainty: Certainty::Definite,
        };
        violation.trace = self.trace(&violation, place, judged.slot);
        let begun = self.begun(place, judged.slot, &witness);
        let violation = Box::new(violation);
        let suspicion = match late.filter(|_| self.rules[place].has_deadline()) {
            Some((due, is_owed)) => {
                let nodes = begun.into_iter().map(|(node, _)| node);
                Suspicion::late(violation, nodes, due, (!is_owed).then_some(at))
            }
            None => Suspicion::new(violation, begun),
        };
        self.weigh(place, suspicion, at, notices);
    }

    /// Keeps changes for as long as the most patient rule waits, so that the trace of an overdue
    /// obligation shows its beginning.
    fn set_horizon(&mut self) {
        let micros = self.rules.iter().filter_map(|rule| match rule.property.modality {
            Modality::LeadsTo { within }
            | Modality::Eventually { within }
            | Modality::Finally { within } => match within? {
                Bound::Nanos(nanos) => Some(nanos / 1_000 + PATIENCE),
                Bound::Steps(_) => None,
            },
            Modality::Always | Modality::Sometimes => None,
        });
        self.history.reach_back(micros.max().unwrap_or(0));
    }

    /// Tells what a check in Rust found.
    fn tell_found(&self, place: usize, found: Vec<Found>, notices: &mut Vec<Notice>) {
        let rule = self.flows[place].name().to_owned();
        for found in found {
            notices.push(match found {
                Found::Begins { finding, at } => {
                    let key = Some(finding.key);
                    let mut violation = Violation {
                        id: ViolationId::new(&rule, key.as_ref(), at),
                        rule: rule.clone(),
                        text: String::new(),
                        key,
                        at,
                        reason: finding.reason,
                        witness: Vec::new(),
                        trace: Execution::default(),
                        certainty: Certainty::Definite,
                    };
                    let (mapped, by_key) = (self.world.mapped(), self.relations_by_key());
                    let focus = Focus { key: None, mapped, by_key: &by_key, is_late: false };
                    violation.trace = self.history.trace(&violation, &focus);
                    Notice::Fired(Box::new(violation))
                }
                Found::Ends { key, since, at } => {
                    let key = Some(key);
                    let id = ViolationId::new(&rule, key.as_ref(), since);
                    Notice::Resolved { id, rule: rule.clone(), key, since, at }
                }
            });
        }
    }

    /// Tells of nodes that come, go, or are not known.
    fn tell(&self, change: &Change, notices: &mut Vec<Notice>) {
        let (node, at) = (change.node, change.at);
        let incomplete =
            |reason: String| Notice::Incomplete { node, name: self.name_of(node), reason, at };
        let membership = |name: String, what| Notice::Membership { node, name, what, at };
        match &change.what {
            Changing::Up { name, .. } => notices.push(membership(name.clone(), "up")),
            Changing::Down { clean } => {
                let what = if *clean { "gone" } else { "down" };
                notices.push(membership(self.name_of(node), what));
            }
            Changing::Lost { records: 0 } => {
                notices.push(incomplete("it was silent for too long and came back".to_owned()));
            }
            Changing::Lost { records } => {
                notices.push(incomplete(format!("{records} or more of its records were lost")));
            }
            Changing::Missing { reason } => notices.push(incomplete(reason.clone())),
            _ => {}
        }
    }

    fn name_of(&self, node: NodeId) -> String {
        let found = self.world.members().iter().find(|member| member.id == node);
        found.map_or_else(|| node.to_string(), |member| member.name.clone())
    }
}
