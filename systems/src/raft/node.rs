//! A peer: the crate's state machine and the environment that it expects.

use everhold::prelude::*;
use raft::prelude::{Config, Entry, Message, RawNode, Ready};
use raft::{Error, StateRole};
use serde::Serializer;
use serde::ser::SerializeStruct;
use slog::{Discard, Logger, o};

use super::Bug;
use super::spec::Heard;
use super::store::{LogEntry, Store, payload};
use super::wire::{Call, Msg, complete, is_answer, shorten};

/// The name of the boot counter on the disk.
const INCARNATION: &str = "incarnation";

/// The role of a peer in its own view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Role {
    /// It follows a leader, or waits for one.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It won an election.
    Leader,
}

/// A peer with its environment.
pub struct RaftNode {
    bug: Bug,
    number: usize,
    peers: usize,
    incarnation: u64,
    raw: RawNode<Store>,
    /// The term of every call of this incarnation, indexed by the call's number.
    calls: Vec<u64>,
    /// The call that is being answered.
    answering: Option<Call>,
    /// The applied commands, with their indices.
    applied: Vec<(u64, u64)>,
    /// The last term in which it was observed to lead.
    led: u64,
    /// The number of ticks without a message after which a follower asks for votes.
    election_ticks: usize,
    /// Clients that wait for their commands to be applied.
    writers: Vec<(u64, Ticket)>,
}

impl std::fmt::Debug for RaftNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RaftNode").field("number", &self.number).finish_non_exhaustive()
    }
}

impl RaftNode {
    pub(super) const TICK: Duration = Duration::from_millis(100);

    /// A peer under exploration. All peers have the same timeout; the strategy decides whose tick
    /// comes first, so elections race nevertheless.
    pub(super) fn explored(number: usize, peers: usize, bug: Bug) -> RaftNode {
        RaftNode::new(number, peers, bug, 2)
    }

    pub(super) fn new(number: usize, peers: usize, bug: Bug, election_ticks: usize) -> RaftNode {
        RaftNode {
            bug,
            number,
            peers,
            incarnation: 0,
            raw: start(number, election_ticks, Store::empty(peers)),
            calls: Vec::new(),
            answering: None,
            applied: Vec::new(),
            led: 0,
            election_ticks,
            writers: Vec::new(),
        }
    }

    /// Its role in its own view.
    #[must_use]
    pub fn role(&self) -> Role {
        match self.raw.raft.state {
            StateRole::Follower => Role::Follower,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        }
    }

    /// Its present term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.raw.raft.term
    }

    /// Its log, oldest entry first.
    pub fn log(&self) -> impl ExactSizeIterator<Item = LogEntry> + '_ {
        self.raw.store().log()
    }

    /// The indices and commands that it applied, in the order of application.
    #[must_use]
    pub fn applied(&self) -> &[(u64, u64)] {
        &self.applied
    }

    /// Passes a message to the crate.
    fn step(&mut self, message: Message) {
        match self.raw.step(message) {
            // A proposal that arrives while no leader is known is dropped.
            Ok(()) | Err(Error::ProposalDropped) => {}
            Err(error) => panic!("the crate refuses a message: {error}"),
        }
    }

    /// Handles an answer, which may belong to a call of an earlier incarnation.
    fn answered(&mut self, call: Call, mut message: Message) {
        if call.incarnation != self.incarnation && self.bug != Bug::WrongIncarnation {
            return;
        }
        let Some(term) = self.calls.get(call.number as usize) else { return };
        complete(&mut message, *term);
        self.step(message);
    }

    /// Carries out the crate's requests until there are no more.
    fn work(&mut self, cx: &mut Cx<Msg>) {
        while self.raw.has_ready() {
            let mut ready = self.raw.ready();
            self.persist(cx, &ready);
            self.send(cx, ready.take_messages());
            self.send(cx, ready.take_persisted_messages());
            self.apply_appended(cx, ready.entries());
            self.commit(cx, &ready.take_committed_entries());
            let mut light = self.raw.advance(ready);
            if let Some(commit) = light.commit_index() {
                self.raw.mut_store().set_commit(cx.disk(), commit);
                self.sync(cx);
            }
            self.send(cx, light.take_messages());
            self.commit(cx, &light.take_committed_entries());
            self.raw.advance_apply();
        }
        self.answering = None;
        self.tell_leadership(cx);
    }

    fn persist(&mut self, cx: &mut Cx<Msg>, ready: &Ready) {
        let store = self.raw.mut_store();
        store.append(cx.disk(), ready.entries());
        if let Some(hard) = ready.hs() {
            store.set_hard(cx.disk(), hard.clone());
        }
        self.sync(cx);
    }

    fn sync(&mut self, cx: &mut Cx<Msg>) {
        if self.bug != Bug::AnswersBeforeSync {
            cx.disk().sync();
        }
    }

    fn send(&mut self, cx: &mut Cx<Msg>, messages: Vec<Message>) {
        for mut message in messages {
            let to = NodeId(message.to as u32 - 1);
            let msg = if is_answer(&message) {
                shorten(&mut message);
                let call = self.answering.expect("the crate answers what it is asked");
                Msg::Answer(call, Box::new(message))
            } else {
                Msg::Request(self.call(message.term), Box::new(message))
            };
            cx.send(to, msg);
        }
    }

    fn call(&mut self, term: u64) -> Call {
        self.calls.push(term);
        Call { incarnation: self.incarnation, number: self.calls.len() as u64 - 1 }
    }

    fn apply_appended(&mut self, cx: &mut Cx<Msg>, entries: &[Entry]) {
        if self.bug == Bug::AppliesBeforeCommit {
            self.apply(cx, entries);
        }
    }

    fn commit(&mut self, cx: &mut Cx<Msg>, entries: &[Entry]) {
        if self.role() == Role::Leader {
            for entry in entries {
                let (index, term) = (entry.index, entry.term);
                cx.notify(Heard::Committed { index, term, leader: self.term() });
            }
        }
        if self.bug != Bug::AppliesBeforeCommit {
            self.apply(cx, entries);
        }
    }

    fn apply(&mut self, cx: &mut Cx<Msg>, entries: &[Entry]) {
        for entry in entries {
            let LogEntry { term, command } = LogEntry::of(entry);
            let Some(command) = command else { continue };
            self.applied.push((entry.index, command));
            self.answer_writers(cx, entry.index, command);
            cx.notify(Heard::Applied { node: cx.id(), index: entry.index, term, command });
        }
    }

    fn answer_writers(&mut self, cx: &mut Cx<Msg>, index: u64, command: u64) {
        self.writers.retain(|(waiting, ticket)| {
            let done = *waiting == command;
            if done {
                cx.answer(*ticket, Msg::Written(index));
            }
            !done
        });
    }

    fn tell_leadership(&mut self, cx: &mut Cx<Msg>) {
        if self.role() == Role::Leader && self.led < self.term() {
            self.led = self.term();
            let log = self.log().map(|entry| entry.term).collect();
            cx.notify(Heard::Leads { node: cx.id(), term: self.led, log });
        }
    }
}

/// The effects of silent bugs, and the state through which they are detected.
#[cfg(feature = "live")]
impl RaftNode {
    /// The number of peers.
    pub(super) fn peers(&self) -> usize {
        self.peers
    }

    /// The peer that it considers to be the leader: a number from 1, or 0 for none.
    pub(super) fn leader(&self) -> u64 {
        self.raw.raft.leader_id
    }

    pub(super) fn believe_in(&mut self, leader: u64) {
        self.raw.raft.leader_id = leader;
    }

    /// The index up to which it knows entries to be committed.
    pub(super) fn committed(&self) -> u64 {
        self.raw.raft.raft_log.committed
    }

    /// The term of the last entry that it knows to be committed.
    pub(super) fn committed_term(&self) -> u64 {
        self.raw.raft.raft_log.term(self.committed()).unwrap_or(0)
    }

    /// The last entries of its log with their indices.
    pub(super) fn tail(&self, count: usize) -> impl Iterator<Item = (u64, LogEntry)> + '_ {
        self.raw.store().tail(count)
    }

    /// Appends entries to the log, bypassing the crate.
    pub(super) fn append_unled(&mut self, count: u64) {
        self.raw.mut_store().grow(count);
    }

    /// Damages an entry of the log, bypassing the crate.
    pub(super) fn damage(&mut self, index: u64) {
        self.raw.mut_store().damage(index);
    }
}

/// The crate's state machine over the data on disk. The crate draws its election timeouts from the
/// operating system's randomness; a range with a single value leaves nothing to draw.
fn start(number: usize, election_ticks: usize, store: Store) -> RawNode<Store> {
    let config = Config {
        id: number as u64 + 1,
        heartbeat_tick: 1,
        election_tick: election_ticks,
        min_election_tick: election_ticks,
        max_election_tick: election_ticks + 1,
        max_size_per_msg: u64::MAX,
        ..Config::default()
    };
    let silent = Logger::root(Discard, o!());
    RawNode::new(&config, store, &silent).expect("the configuration is valid")
}

impl Node for RaftNode {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("tick", RaftNode::TICK);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Propose(command) => {
                // Without a leader the proposal is dropped, which the driver ignores.
                let _ = self.raw.propose(Vec::new(), payload(command));
            }
            Msg::Request(call, message) => {
                self.answering = Some(call);
                self.step(*message);
            }
            Msg::Answer(call, message) => self.answered(call, *message),
            Msg::Write(command) => {
                self.writers.push((command, cx.ticket()));
                // Without a leader the proposal is dropped; the client asks again.
                let _ = self.raw.propose(Vec::new(), payload(command));
            }
            Msg::Read => cx.reply(Msg::Applied(self.applied.clone())),
            Msg::Written(_) | Msg::Applied(_) => cx.unexpected(msg),
        }
        self.work(cx);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        // In the correct environment there is nothing left to sync.
        cx.disk().sync();
        self.raw.tick();
        self.work(cx);
        cx.set_timer("tick", RaftNode::TICK);
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let booted = cx.disk().load(INCARNATION).expect("boot counters are written whole");
        self.incarnation = booted.unwrap_or(0) + 1;
        cx.disk().save(INCARNATION, &self.incarnation);
        cx.disk().sync();
        self.raw = start(self.number, self.election_ticks, Store::recover(self.peers, cx.disk()));
        self.work(cx);
        self.start(cx);
    }
}

/// The observed state of a peer.
impl Serialize for RaftNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raft = &self.raw.raft;
        let mut shown = serializer.serialize_struct("RaftNode", 7)?;
        shown.serialize_field("id", &raft.id)?;
        shown.serialize_field("role", &self.role())?;
        shown.serialize_field("term", &raft.term)?;
        shown.serialize_field("vote", &raft.vote)?;
        shown.serialize_field("commit", &raft.raft_log.committed)?;
        shown.serialize_field("applied", &self.applied)?;
        shown.serialize_field("log", &ShownLog(self))?;
        shown.end()
    }
}

/// The log as pairs of term and command.
struct ShownLog<'a>(&'a RaftNode);

impl Serialize for ShownLog<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.log().map(|entry| (entry.term, entry.command)))
    }
}
