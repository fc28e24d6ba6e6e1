//! From what the nodes sent to one sequence of changes, in the order of their stamps.
//!
//! A change at stamp `t` is handed on once every live node has passed `t`, by a record or a
//! heartbeat: then the state after it is the snapshot at `t` (D3S, section 3.3). Who is live is
//! guessed from silence: a node that has not been heard for [`Timing::silence_max`] has crashed,
//! and leaves the snapshots after its last stamp. A node that speaks but does not pass `t` holds
//! everything up, for at most [`Timing::wait_max`]; then the snapshots go on without it, and what
//! depends on it is unknown.
//!
//! Time is the arrival time that the log recorded, so that the same entries give the same changes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use everhold_trace::wire::{Batch, Frame, Hello, Name, Record, Stamp, Tuple, What};
use everhold_trace::{EventKind, NodeId, Value};

use crate::entry::Origin;

mod clocks;
mod save;

pub use clocks::{ClockNews, ClockReading};

use clocks::Strays;

/// The waiting times for nodes that are silent or late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// D3S's `T_out`: a node silent for longer has crashed. Larger than the probes' heartbeat.
    pub silence_max: Duration,
    /// D3S's `T_buf`: how long a change waits for a node that speaks but stays behind. Larger than
    /// `silence_max`, so that a crash is noticed as one.
    pub wait_max: Duration,
    /// A stamp further ahead of its arrival than this comes from a clock that jumped; it is not
    /// believed, or it would hold up or pass by everyone else.
    pub ahead_max: Duration,
    /// A node whose stamps are less exact than this has no order with the others: nothing is known
    /// of it.
    pub clock_error_max: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            silence_max: Duration::from_millis(1_000),
            wait_max: Duration::from_millis(2_000),
            ahead_max: Duration::from_secs(1),
            clock_error_max: Duration::from_millis(500),
        }
    }
}

/// A node that was silent for so many times [`Timing::silence_max`] does not come back.
pub(crate) const AWAY_MAX: u32 = 10;

/// A change of the global state.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When: the state after it is the snapshot at this stamp.
    pub at: Stamp,
    /// The node whose state changes.
    pub node: NodeId,
    /// The change.
    pub what: Changing,
}

/// The kinds of change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Changing {
    /// The node came up, with nothing shown yet.
    Up {
        /// Its name.
        name: String,
        /// Its kind.
        kind: String,
    },
    /// The node is gone.
    Down {
        /// Whether it said so.
        clean: bool,
    },
    /// These variables have these values.
    Observe(Vec<(Name, Value)>),
    /// These are all the variables.
    State(Vec<(Name, Value)>),
    /// A tuple holds.
    Add(Tuple),
    /// A tuple no longer holds.
    Remove(Tuple),
    /// A message left for another node.
    Sent {
        /// For whom.
        to: NodeId,
        /// The sender's count.
        seq: u64,
    },
    /// A message arrived.
    Received {
        /// From whom.
        from: NodeId,
        /// The sender's count.
        seq: u64,
    },
    /// Records were lost: what the node showed so far may be out of date.
    Lost {
        /// The number of lost records, as far as it is known.
        records: u64,
    },
    /// The node begins to tell everything that it shows.
    Refresh,
    /// It has told everything since it began to.
    Whole,
    /// The node came up with news from before the snapshots: nothing is known of it until it has
    /// caught up with them.
    Joining,
    /// The node stays behind; nothing is known of it from here on.
    Missing {
        /// Why, in words.
        reason: String,
    },
    /// It caught up.
    Present,
}

/// The counts of irregularities in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records taken in.
    pub records: u64,
    /// Records that came after the snapshots had passed their stamps; they count from then on.
    pub late: u64,
    /// Records that the nodes dropped, and batches that never came.
    pub dropped: u64,
    /// Gaps in the numbers of batches.
    pub gaps: u64,
    /// Records whose stamps were not believed.
    pub ahead: u64,
    /// Nodes that fell silent.
    pub crashed: u64,
}

/// A record that waits for its turn.
#[derive(Clone, Debug)]
struct Waiting {
    at: Stamp,
    arrived: u64,
    what: Changing,
}

/// A life that ended, as far as is known.
#[derive(Clone, Debug)]
struct Ended {
    incarnation: u64,
    name: String,
    kind: String,
    next_batch: u64,
    /// Whether it said goodbye; otherwise it may only have been silent, and come back.
    clean: bool,
    /// When it was last heard of, if it ever showed anything; 0 if not.
    heard: u64,
}

#[derive(Clone, Debug)]
struct MemberState {
    origin: Origin,
    name: String,
    kind: String,
    /// The first stamp that may still come.
    passed: Stamp,
    /// When it was last heard of.
    heard: u64,
    /// When it last said that it has come further.
    moved: u64,
    /// The number of its next batch; 0 before the first.
    next_batch: u64,
    queue: VecDeque<Waiting>,
    /// Whether the snapshots go on without it.
    missing: bool,
    /// Whether it came up behind the snapshots, which wait for it.
    joining: bool,
    /// Whether its last stamps were not believed.
    ahead: bool,
    /// Whether it was given up in this life, so that its state is not known.
    returned: bool,
    /// The last reading of its clock.
    clock: Option<ClockReading>,
    /// By how many microseconds its stamps may be wrong, those that wait included.
    error: u64,
    /// Whether that is too much.
    vague: bool,
}

/// Puts what nodes sent into one sequence.
#[derive(Clone, Debug)]
pub struct Assembler {
    timing: Timing,
    members: BTreeMap<NodeId, MemberState>,
    /// Of each node, the newest life that was seen to end.
    ended: BTreeMap<NodeId, Ended>,
    /// Changes with stamps below this were handed on.
    frontier: Stamp,
    /// The last arrival.
    now: u64,
    /// Departures and the like that wait for their stamps.
    leaving: VecDeque<(Stamp, NodeId, Changing)>,
    counts: Counts,
    strays: Strays,
}

impl Assembler {
    /// Before anything arrived.
    #[must_use]
    pub fn new(timing: Timing) -> Assembler {
        Assembler {
            timing,
            members: BTreeMap::new(),
            ended: BTreeMap::new(),
            frontier: Stamp(0),
            now: 0,
            leaving: VecDeque::new(),
            counts: Counts::default(),
            strays: Strays::default(),
        }
    }

    /// The counts of irregularities so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// All changes with stamps below this one were handed on.
    #[must_use]
    pub fn frontier(&self) -> Stamp {
        self.frontier
    }

    /// The last arrival, in microseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Whether a node was given up in its present life, and came back.
    pub(crate) fn has_returned(&self, node: NodeId) -> bool {
        self.members.get(&node).is_some_and(|member| member.returned)
    }

    /// The names and kinds of the nodes that fell silent without a goodbye, as long as they may come back.
    pub(crate) fn silent(&self) -> impl Iterator<Item = (&str, &str)> {
        let longest = u64::from(AWAY_MAX) * micros_of(self.timing.silence_max);
        let limit = self.now.saturating_sub(longest);
        let silent = self.ended.iter().filter(move |(node, ended)| {
            !ended.clean && ended.heard >= limit.max(1) && !self.members.contains_key(node)
        });
        silent.map(|(_, ended)| (ended.name.as_str(), ended.kind.as_str()))
    }

    /// The names and kinds of the nodes that are heard of, but have not come further for long.
    pub(crate) fn behind(&self) -> impl Iterator<Item = (&str, &str)> {
        let limit = self.now.saturating_sub(micros_of(self.timing.wait_max));
        let behind = self.members.values().filter(move |m| m.passed > Stamp(0) && m.moved < limit);
        behind.map(|member| (member.name.as_str(), member.kind.as_str()))
    }

    /// The number of records that wait to be put in order.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.members.values().map(|member| member.queue.len()).sum()
    }

    /// Lets time pass to `micros`. If nothing at all arrived for long, whoever takes in was away,
    /// not the nodes.
    pub fn advance(&mut self, micros: u64) {
        let silence = micros_of(self.timing.silence_max);
        let step = micros.saturating_sub(self.now);
        if self.now > 0 && step > silence / 2 {
            for member in self.members.values_mut() {
                member.heard += step;
                member.moved += step;
                member.queue.iter_mut().for_each(|waiting| waiting.arrived += step);
            }
        }
        self.now = self.now.max(micros);
    }

    /// Takes in a frame that arrived at the time last given to [`advance`](Self::advance).
    pub fn take(&mut self, origin: Origin, frame: Frame) {
        match frame {
            Frame::Hello(hello) => self.hello(origin, &hello),
            Frame::Batch(batch) => self.batch(origin, batch),
            Frame::Heartbeat { at } => self.heartbeat(origin, at),
            Frame::Bye { at } => self.bye(origin, at),
            // These are for the other direction.
            Frame::Clock { ahead, error } => self.clock(origin, ClockReading { ahead, error }),
            Frame::Greeting(_) | Frame::Ack { .. } | Frame::Refuse { .. } => {}
            Frame::Ping { .. } | Frame::Pong { .. } => {}
        }
    }

    fn hello(&mut self, origin: Origin, hello: &Hello) {
        if self.ended.get(&origin.node).is_some_and(|ended| origin.incarnation < ended.incarnation)
        {
            return;
        }
        match self.members.get_mut(&origin.node) {
            Some(member) if member.origin.incarnation >= origin.incarnation => {
                member.heard = self.now;
                return;
            }
            Some(_) => self.depart(origin.node, false),
            None => {}
        }
        let (name, kind) = (hello.name.clone(), hello.kind.clone());
        // The same life may have been given up before.
        let ended = self.ended.get(&origin.node);
        let same = ended.filter(|ended| ended.incarnation == origin.incarnation);
        let next_batch = same.map_or(0, |ended| ended.next_batch);
        let returned = same.is_some();
        let member = MemberState::new(origin, name, kind, self.now, next_batch, returned);
        self.members.insert(origin.node, member);
    }

    /// The member that speaks, unless it is an earlier life.
    fn speaker(&mut self, origin: Origin) -> Option<&mut MemberState> {
        let now = self.now;
        if !self.members.contains_key(&origin.node) {
            self.take_back(origin);
        }
        let member = self.members.get_mut(&origin.node)?;
        if member.origin != origin {
            return None;
        }
        member.heard = now;
        Some(member)
    }

    /// A node that was thought to have crashed speaks again: it was only silent.
    fn take_back(&mut self, origin: Origin) {
        let Some(ended) = self.ended.get(&origin.node) else { return };
        if ended.incarnation != origin.incarnation || ended.clean {
            return;
        }
        let (name, kind) = (ended.name.clone(), ended.kind.clone());
        let member = MemberState::new(origin, name, kind, self.now, ended.next_batch, true);
        self.members.insert(origin.node, member);
    }

    fn heartbeat(&mut self, origin: Origin, at: Stamp) {
        let limit = self.now + micros_of(self.timing.ahead_max);
        if at.micros() > limit {
            return self.jumped(origin, 0);
        }
        let (now, frontier) = (self.now, self.frontier);
        if let Some(member) = self.speaker(origin) {
            member.ahead = false;
            member.up(at, frontier, now);
            member.pass(at, now);
        }
    }

    fn bye(&mut self, origin: Origin, at: Stamp) {
        let Some(member) = self.speaker(origin) else { return };
        member.passed = member.passed.max(at);
        self.depart(origin.node, true);
    }

    fn batch(&mut self, origin: Origin, batch: Batch) {
        let now = self.now;
        let limit = now + micros_of(self.timing.ahead_max);
        let frontier = self.frontier;
        let Some(member) = self.speaker(origin) else { return };
        if batch.number != 0 && batch.number < member.next_batch {
            return; // Sent again after a reconnect; it was taken in before.
        }
        let expected = std::mem::replace(&mut member.next_batch, batch.number + 1);
        // Whoever joins in the middle has missed what came before; that is no loss of ours.
        let missed = if expected == 0 { 0 } else { batch.number - expected };
        if missed > 0 || batch.dropped > 0 {
            // Everything below what it passed was sent; from there on, nothing is known.
            let at = member.passed;
            let records = batch.dropped + missed;
            member.wait(at.max(frontier), now, Changing::Lost { records });
            self.counts.dropped += records;
            self.counts.gaps += u64::from(missed > 0);
        }
        if batch.records.iter().any(|record| record.at.micros() > limit) {
            return self.jumped(origin, batch.records.len() as u64);
        }
        self.records(origin.node, batch.records);
    }

    fn records(&mut self, node: NodeId, records: Vec<Record>) {
        let (now, frontier) = (self.now, self.frontier);
        let Some(member) = self.members.get_mut(&node) else { return };
        member.ahead = false;
        if let Some(first) = records.first() {
            member.up(first.at, frontier, now);
        }
        for record in records {
            self.counts.records += 1;
            member.pass(Stamp(record.at.0 + 1), now);
            let Some(what) = changing(record.what) else { continue };
            if record.at < frontier {
                self.counts.late += 1;
                member.join(frontier, now);
            }
            member.wait(record.at.max(frontier), now, what);
        }
    }

    /// A clock that cannot be right: nothing more is known of the node until it is.
    fn jumped(&mut self, origin: Origin, records: u64) {
        self.counts.ahead += records;
        let Some(member) = self.speaker(origin) else { return };
        member.ahead = true;
        if !member.missing {
            member.missing = true;
            let reason = "its clock is far ahead; set the nodes' clocks".to_owned();
            let at = member.passed;
            self.leaving.push_back((at, origin.node, Changing::Missing { reason }));
        }
        if records > 0 {
            let at = self.frontier;
            self.leaving.push_back((at, origin.node, Changing::Lost { records }));
        }
    }

    /// The member leaves after its last stamp.
    fn depart(&mut self, node: NodeId, clean: bool) {
        let Some(member) = self.members.remove(&node) else { return };
        let ended = Ended {
            incarnation: member.origin.incarnation,
            name: member.name.clone(),
            kind: member.kind.clone(),
            next_batch: member.next_batch,
            clean,
            heard: if member.passed == Stamp(0) { 0 } else { member.heard },
        };
        self.ended.insert(node, ended);
        if member.passed == Stamp(0) {
            return; // It never showed anything.
        }
        self.counts.crashed += u64::from(!clean);
        for waiting in member.queue {
            self.leaving.push_back((waiting.at, node, waiting.what));
        }
        self.leaving.push_back((member.passed, node, Changing::Down { clean }));
    }

    /// Hands on every change whose time has come, in order.
    pub fn release(&mut self, mut take: impl FnMut(Change)) {
        self.bury_the_silent();
        self.pass_by_the_slow();
        let reached = self.reached();
        self.leaving.make_contiguous().sort_by_key(|(at, node, _)| (*at, *node));
        self.merge(reached, &mut take);
        self.frontier = self.frontier.max(reached);
        self.welcome_back();
    }

    fn bury_the_silent(&mut self) {
        let limit = self.now.saturating_sub(micros_of(self.timing.silence_max));
        let silent: Vec<NodeId> =
            self.members.iter().filter(|(_, m)| m.heard < limit).map(|(node, _)| *node).collect();
        silent.into_iter().for_each(|node| self.depart(node, false));
    }

    /// Marks members as missing that keep changes waiting for too long.
    fn pass_by_the_slow(&mut self) {
        let limit = self.now.saturating_sub(micros_of(self.timing.wait_max));
        let overdue = self.members.values().filter_map(|member| {
            let front = member.queue.front()?;
            (front.arrived < limit).then_some(front.at)
        });
        let Some(overdue) = overdue.min() else { return };
        for (node, member) in &mut self.members {
            if member.passed <= overdue && member.passed > Stamp(0) && !member.missing {
                member.missing = true;
                let behind = overdue.micros().saturating_sub(member.passed.micros()) / 1_000;
                let reason = format!("it is {behind} ms behind the others");
                self.leaving.push_back((member.passed, *node, Changing::Missing { reason }));
            }
        }
    }

    /// The first stamp that some live member may still send.
    fn reached(&self) -> Stamp {
        let heard = self.members.values().filter(|m| !m.missing && m.passed > Stamp(0));
        let lowest = heard.map(|member| member.passed).min();
        let gone = || self.leaving.iter().map(|(at, ..)| Stamp(at.0 + 1)).max();
        lowest.or_else(gone).unwrap_or(self.frontier).max(self.frontier)
    }

    /// Merges the queues up to a stamp. Among equal stamps, departures come first, then nodes in
    /// order.
    fn merge(&mut self, reached: Stamp, take: &mut impl FnMut(Change)) {
        let mut nodes: Vec<NodeId> = self.members.keys().copied().collect();
        nodes.retain(|node| !self.members[node].queue.is_empty());
        loop {
            let head = |node: &NodeId| self.members[node].queue.front().map(|front| front.at);
            let next = nodes.iter().filter_map(|node| Some((head(node)?, *node))).min();
            let leaving = self.leaving.front().map(|(at, ..)| *at).filter(|at| *at < reached);
            let due = next.filter(|(at, _)| *at < reached);
            match (due, leaving) {
                (Some((at, _)), Some(first)) if first <= at => self.hand_on_leaving(take),
                (None, Some(_)) => self.hand_on_leaving(take),
                (Some((_, node)), _) => self.run(node, &nodes, reached, take),
                (None, None) => return,
            }
        }
    }

    /// Passes on the records of one node as long as they come before those of all others.
    fn run(
        &mut self,
        node: NodeId,
        nodes: &[NodeId],
        reached: Stamp,
        take: &mut impl FnMut(Change),
    ) {
        let head = |other: &NodeId| self.members[other].queue.front().map(|f| (f.at, *other));
        let others = nodes.iter().filter(|other| **other != node).filter_map(head).min();
        let leaving = self.leaving.front().map(|(at, ..)| *at);
        let Some(member) = self.members.get_mut(&node) else { return };
        while let Some(front) = member.queue.front() {
            let first = others.is_none_or(|other| (front.at, node) < other);
            if !first || front.at >= reached || leaving.is_some_and(|at| at <= front.at) {
                return;
            }
            if let Some(Waiting { at, what, .. }) = member.queue.pop_front() {
                take(Change { at, node, what });
            }
        }
    }

    fn hand_on_leaving(&mut self, take: &mut impl FnMut(Change)) {
        if let Some((at, node, what)) = self.leaving.pop_front() {
            take(Change { at, node, what });
        }
    }

    /// Members that were passed by and have caught up count again.
    fn welcome_back(&mut self) {
        let (frontier, now) = (self.frontier, self.now);
        for member in self.members.values_mut() {
            let away = member.missing || member.joining;
            let believed = !member.ahead && !member.vague;
            if away && believed && member.passed >= frontier {
                (member.missing, member.joining) = (false, false);
                member.wait(member.passed.max(frontier), now, Changing::Present);
            }
        }
    }
}

impl MemberState {
    fn new(
        origin: Origin,
        name: String,
        kind: String,
        heard: u64,
        next_batch: u64,
        returned: bool,
    ) -> MemberState {
        MemberState {
            origin,
            name,
            kind,
            passed: Stamp(0),
            heard,
            moved: heard,
            next_batch,
            queue: VecDeque::new(),
            missing: false,
            joining: false,
            ahead: false,
            returned,
            clock: None,
            error: 0,
            vague: false,
        }
    }

    /// Its record is older than the snapshots. Shown one after the other at their time, such
    /// records would be states that never were together: they are hidden until the last of them.
    fn join(&mut self, frontier: Stamp, now: u64) {
        if !self.missing && !self.joining {
            self.joining = true;
            self.wait(frontier, now, Changing::Joining);
        }
    }

    /// Puts a change into the queue, which is sorted by stamp.
    fn wait(&mut self, at: Stamp, arrived: u64, what: Changing) {
        let place = match self.queue.back() {
            Some(last) if last.at > at => self.queue.partition_point(|other| other.at <= at),
            _ => self.queue.len(),
        };
        self.queue.insert(place, Waiting { at, arrived, what });
    }

    /// It will send no stamp below this one.
    fn pass(&mut self, at: Stamp, now: u64) {
        if at > self.passed {
            (self.passed, self.moved) = (at, now);
        }
    }

    /// The first sign of life puts the node into the snapshots.
    fn up(&mut self, at: Stamp, frontier: Stamp, now: u64) {
        if self.passed == Stamp(0) {
            self.passed = at;
            let (name, kind) = (self.name.clone(), self.kind.clone());
            self.wait(at.max(frontier), now, Changing::Up { name, kind });
            if self.returned {
                self.wait(at.max(frontier), now, Changing::Lost { records: 0 });
            }
        }
    }
}

/// The change of the state that a record contains, if it contains one.
fn changing(what: What) -> Option<Changing> {
    Some(match what {
        What::Observe(values) => Changing::Observe(values),
        What::State(values) => Changing::State(values),
        What::Add(tuple) => Changing::Add(tuple),
        What::Remove(tuple) => Changing::Remove(tuple),
        What::Refresh => Changing::Refresh,
        What::Whole => Changing::Whole,
        What::Send { to: Some(to), seq, .. } => Changing::Sent { to, seq },
        What::Event(EventKind::Deliver { message }) => {
            Changing::Received { from: message.sender, seq: message.seq }
        }
        What::Send { to: None, .. } | What::Event(_) | What::Note(_) => return None,
    })
}

fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
