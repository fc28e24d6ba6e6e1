//! A full record of one execution. Only replays are recorded, so searching pays nothing for it.

use std::fmt::Debug;

use everhold_node::{CrashModel, Message, NodeId, fingerprint};
use everhold_trace::Value;

use crate::env::Action;
use crate::execute::{Panic, quietly};
use crate::failure::{Cause, Failure};
use crate::fault::{Fault, MessageName};
use crate::moves::What;
use crate::report::text::count;
use crate::schedule::Choice;

/// The number of different problems with showing states and messages that are kept.
const PROBLEMS_MAX: usize = 8;

/// The problem that something was too large to be recorded.
const LEFT_OUT: &str = "states and messages of more than 1 MiB, or all larger ones after 32 MiB of \
    them, are left out of the picture, the trace and the page";
/// A state or a message of more bytes than this is left out of a record.
const ITEM_MAX: u64 = 1 << 20;
/// The bytes of states and messages that a record has room for. As values they take up to 32 times
/// as much memory.
const ITEMS_MAX: u64 = 32 << 20;
/// The bytes of a state or a message that is recorded even where there is no room left.
const ITEM_SMALL: u64 = 256;

/// The room that a record has left for states and messages: whatever an execution does, showing it
/// must not take all memory.
#[derive(Clone, Copy, Debug)]
pub struct Room(u64);

impl Default for Room {
    fn default() -> Self {
        Room(ITEMS_MAX)
    }
}

impl Room {
    /// Whether there is room for something of this many bytes, which it takes then.
    #[must_use]
    pub fn takes(&mut self, bytes: u64) -> bool {
        let fits = bytes <= ITEM_MAX && bytes <= self.0;
        self.0 -= if fits { bytes } else { 0 };
        fits || bytes <= ITEM_SMALL
    }
}

/// A message as a value, or null if there is no room for it.
pub fn payload<M: Message>(msg: &M, room: &mut Room) -> Value {
    if room.takes(fingerprint::size(msg)) { Value::of(msg) } else { Value::Null }
}

/// Everything that happened in one execution, in order.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// The nodes, including those that were added later.
    pub nodes: Vec<NodeRecord>,
    /// The state of every node of the setup before the first step.
    pub initial: Vec<Value>,
    /// The steps, in order; the start of all nodes is step 0.
    pub steps: Vec<StepRecord>,
    /// The failure, if the execution failed.
    pub failure: Option<Failure>,
    /// The choices, typed and labelled.
    pub choices: Vec<Choice>,
    /// The step at which the fair tail begins.
    pub tail_at: Option<usize>,
    /// The first and the last step of the round that the execution would repeat for ever.
    pub lasso: Option<(usize, usize)>,
    /// The monitors' states at the end.
    pub monitors: Vec<(String, Value)>,
    /// Parts that could not be recorded or made small, with the reasons.
    pub problems: Vec<String>,
    /// The first panic while a state or a message was shown: a failure if there is no other.
    pub(crate) unshown: Option<Failure>,
    /// For a finding in which a node with a disk crashes: the least permissive crash model under
    /// which its schedule fails.
    pub crash_model: Option<CrashModel>,
}

/// The name and the kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// The name, which is unique in the system, such as `storage-1`.
    pub name: String,
    /// The kind of the node.
    pub kind: String,
}

/// One step of an execution.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// The node at which it happened.
    pub node: NodeId,
    /// The event.
    pub event: EventRecord,
    /// The messages that the node sent during it.
    pub sends: Vec<SendRecord>,
    /// The notes, choices and notifications during it.
    pub notes: Vec<String>,
    /// The node's state after it.
    pub state: Value,
    /// The starts of the nodes that were added during it, in their order.
    pub spawned: Vec<SpawnRecord>,
}

/// The start of a node that another node added.
#[derive(Clone, Debug)]
pub struct SpawnRecord {
    /// The new node.
    pub node: NodeId,
    /// The messages that it sent at its start.
    pub sends: Vec<SendRecord>,
    /// The notes, choices and notifications at its start.
    pub notes: Vec<String>,
    /// Its state after its start.
    pub state: Value,
}

impl StepRecord {
    /// All messages that were sent during the step, including those of nodes that were added in it.
    pub fn all_sends(&self) -> impl Iterator<Item = &SendRecord> {
        self.sends.iter().chain(self.spawned.iter().flat_map(|spawned| &spawned.sends))
    }

    fn all_sends_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut SendRecord> {
        self.sends.iter_mut().chain(self.spawned.iter_mut().flat_map(|spawned| &mut spawned.sends))
    }

    fn spawn_of(&mut self, node: NodeId) -> Option<&mut SpawnRecord> {
        self.spawned.iter_mut().find(|spawned| spawned.node == node)
    }
}

/// The event of a step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventRecord {
    /// All nodes started.
    Start,
    /// A message arrived.
    Deliver {
        /// The message.
        message: MessageName,
        /// The sort of the message.
        kind: &'static str,
        /// The text of the message.
        text: String,
        /// The contents of the message.
        payload: Value,
    },
    /// A timer fired.
    Timer(String),
    /// A task continued.
    Poll(u32),
    /// A node restarted.
    Restart,
    /// The partition ended.
    Heal,
    /// A fault struck.
    Fault(Fault),
    /// The node was told that its connection to this peer ended.
    Disconnected(NodeId),
}

/// A message as it was sent.
#[derive(Clone, Debug)]
pub struct SendRecord {
    /// The receiver.
    pub to: NodeId,
    /// The identity of the message.
    pub message: MessageName,
    /// The sort of the message.
    pub kind: &'static str,
    /// The text of the message.
    pub text: String,
    /// The contents of the message.
    pub payload: Value,
    /// Whether the network had nowhere to deliver it.
    pub lost: bool,
}

/// The number of messages that are kept of a step that sent without end.
const FLOOD_SHOWN: usize = 100;

impl RunRecord {
    /// Leaves out most messages of a step that sent without end: they are more of the same.
    pub(crate) fn cut_flood(&mut self, failure: Option<&Failure>) {
        let flood = failure.is_some_and(|failure| matches!(failure.cause, Cause::Flood(_)));
        let Some(step) = self.steps.last_mut().filter(|_| flood) else { return };
        let StepRecord { sends, notes, spawned, .. } = step;
        cut(sends, notes);
        spawned.iter_mut().for_each(|one| cut(&mut one.sends, &mut one.notes));
    }
}

fn cut(sends: &mut Vec<SendRecord>, notes: &mut Vec<String>) {
    notes.truncate(FLOOD_SHOWN);
    if sends.len() > FLOOD_SHOWN {
        let more = (sends.len() - FLOOD_SHOWN) as u64;
        notes.push(format!("left out: {}", count(more, "further message")));
        sends.truncate(FLOOD_SHOWN);
    }
}

/// Records an execution while a world runs.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) recording: RunRecord,
    arriving: Option<EventRecord>,
    room: Room,
}

impl Recorder {
    /// Notes a panic in the `Debug` or `Serialize` of a node, message or event; the execution
    /// continues.
    pub(crate) fn unshown(&mut self, what: &str, panic: Panic) {
        let problem = format!("{what} cannot be shown: {panic}");
        let RunRecord { problems, unshown, .. } = &mut self.recording;
        if !problems.contains(&problem) && problems.len() < PROBLEMS_MAX {
            problems.push(problem);
        }
        let message = format!("while {what} was shown: {}", panic.message);
        unshown.get_or_insert(Failure { cause: Cause::Panic(panic.place), message });
    }

    fn message<M: Message>(&mut self, msg: &M) -> (String, Value) {
        let bytes = match quietly(|| fingerprint::size(msg)) {
            Ok(bytes) => bytes,
            Err(panic) => {
                self.unshown("a message", panic);
                return (fingerprint::kind(msg).to_owned(), Value::Null);
            }
        };
        if !self.has_room(bytes) {
            let kind = fingerprint::kind(msg);
            return (format!("{kind}({bytes} bytes)"), Value::Null);
        }
        match quietly(|| (format!("{msg:?}"), Value::of(msg))) {
            Ok(shown) => shown,
            Err(panic) => {
                self.unshown("a message", panic);
                (fingerprint::kind(msg).to_owned(), Value::Null)
            }
        }
    }

    /// Whether there is room for a state or a message of this many bytes. Whatever is left out is
    /// told once.
    pub(crate) fn has_room(&mut self, bytes: u64) -> bool {
        let fits = self.room.takes(bytes);
        let told = &mut self.recording.problems;
        if !fits && !told.iter().any(|told| told == LEFT_OUT) {
            told.push(LEFT_OUT.to_owned());
        }
        fits
    }

    /// Opens the step in which all nodes start.
    pub(crate) fn start(&mut self) {
        self.open(NodeId(0), EventRecord::Start);
    }

    pub(crate) fn arriving<M: Message>(&mut self, from: NodeId, sequence: u32, msg: &M) {
        let (text, payload) = self.message(msg);
        let (message, kind) = (MessageName { from, sequence }, fingerprint::kind(msg));
        self.arriving = Some(EventRecord::Deliver { message, kind, text, payload });
    }

    pub(crate) fn begin<M>(&mut self, node: NodeId, action: &Action<M>, what: What) {
        let event = match action {
            Action::Deliver { .. } => self.arriving.take().expect("an arriving message is noted"),
            Action::Poll { task, .. } => EventRecord::Poll(task.0),
            Action::Timer { timer, .. } => EventRecord::Timer(timer.to_string()),
            Action::Restart(_) => EventRecord::Restart,
            Action::Healed => EventRecord::Heal,
            Action::Disconnected { peer, .. } => EventRecord::Disconnected(*peer),
            Action::Crash(_) | Action::Reset(..) | Action::Faulted => {
                unreachable!("{what:?} is not a fault")
            }
        };
        self.recording.choices.push(Choice::of_event(node, &event));
        self.open(node, event);
    }

    pub(crate) fn fault(&mut self, node: NodeId, fault: Fault) {
        self.recording.choices.push(Choice::Fault(fault));
        self.open(node, EventRecord::Fault(fault));
    }

    pub(crate) fn clock(&mut self, node: NodeId, nanos: u64) {
        self.recording.choices.push(Choice::Clock { node, nanos });
    }

    pub(crate) fn tail(&mut self) {
        self.recording.tail_at.get_or_insert(self.recording.steps.len());
        self.recording.choices.push(Choice::Tail);
    }

    fn open(&mut self, node: NodeId, event: EventRecord) {
        let (sends, notes, spawned) = (Vec::new(), Vec::new(), Vec::new());
        let state = Value::Null;
        self.recording.steps.push(StepRecord { node, event, sends, notes, state, spawned });
    }

    /// Opens the record of a node that was added in the present step and is about to start.
    pub(crate) fn spawn(&mut self, node: NodeId, info: NodeRecord) {
        self.recording.nodes.push(info);
        let (sends, notes, state) = (Vec::new(), Vec::new(), Value::Null);
        if let Some(step) = self.recording.steps.last_mut() {
            step.spawned.push(SpawnRecord { node, sends, notes, state });
        }
    }

    /// Records the state of an added node after its start.
    pub(crate) fn spawned(&mut self, node: NodeId, state: Value) {
        let step = self.recording.steps.last_mut();
        if let Some(spawned) = step.and_then(|step| step.spawn_of(node)) {
            spawned.state = state;
        }
    }

    /// The last state of a node that is recorded before the step that is open.
    pub(crate) fn last_state(&self, node: NodeId) -> Value {
        let shown = |step: &'_ StepRecord| {
            let own = step.node == node && step.event != EventRecord::Start;
            let start = step.spawned.iter().find(|spawned| spawned.node == node);
            let start = start.map(|spawned| spawned.state.clone());
            start.or_else(|| own.then(|| step.state.clone()))
        };
        let last = self.recording.steps.iter().rev().skip(1).find_map(shown);
        let initial = || self.recording.initial.get(node.index()).cloned();
        last.or_else(initial).unwrap_or(Value::Null)
    }

    pub(crate) fn close(&mut self, state: Value) {
        if let Some(step) = self.recording.steps.last_mut() {
            step.state = state;
        }
    }

    pub(crate) fn sent<M: Message>(&mut self, from: NodeId, to: NodeId, sequence: u32, msg: &M) {
        let (text, payload) = self.message(msg);
        let (message, kind) = (MessageName { from, sequence }, fingerprint::kind(msg));
        let sent = SendRecord { to, message, kind, text, payload, lost: false };
        if let Some(step) = self.recording.steps.last_mut() {
            match step.spawn_of(from) {
                Some(spawned) => spawned.sends.push(sent),
                None => step.sends.push(sent),
            }
        }
    }

    /// Notes that a message that was just sent, or was in flight, will not arrive.
    pub(crate) fn lost(&mut self, from: NodeId, sequence: u32) {
        let message = MessageName { from, sequence };
        let steps = self.recording.steps.iter_mut().rev();
        let sends = steps.flat_map(|step| step.all_sends_mut().rev());
        if let Some(sent) = sends.into_iter().find(|sent| sent.message == message) {
            sent.lost = true;
        }
    }

    pub(crate) fn notified(&mut self, node: NodeId, event: &dyn Debug) {
        match quietly(|| format!("notifies {event:?}")) {
            Ok(text) => self.note(node, text),
            Err(panic) => self.unshown("an event for monitors", panic),
        }
    }

    pub(crate) fn chose(&mut self, node: NodeId, label: &'static str, domain: u32, value: u32) {
        let label = label.to_owned();
        let text = format!("{label}: {value} of {domain}");
        self.recording.choices.push(Choice::Choose { node, label, domain, value });
        self.note(node, text);
    }

    /// Records a choice that the notes describe in other words.
    pub(crate) fn chose_silently(&mut self, node: NodeId, label: String, domain: u32, value: u32) {
        self.recording.choices.push(Choice::Choose { node, label, domain, value });
    }

    /// Records a fault in the middle of the present event; its choice belongs where the event began
    /// to use its disk.
    pub(crate) fn upset(&mut self, at: usize, node: NodeId, place: String, nth: u32) {
        self.note(node, place.clone());
        self.recording.choices.insert(at, Choice::Upset { node, place, nth });
    }

    /// Records that a node crashed in the middle of the present event: a step of its own, but not a
    /// choice.
    pub(crate) fn fell(&mut self, node: NodeId, fault: Fault) {
        let is_its_own = |step: &StepRecord| step.node == node && step.event != EventRecord::Start;
        if self.recording.steps.last().is_some_and(is_its_own) {
            let state = self.last_state(node);
            self.close(state);
        }
        self.open(node, EventRecord::Fault(fault));
    }

    pub(crate) fn note(&mut self, node: NodeId, text: String) {
        if let Some(step) = self.recording.steps.last_mut() {
            match step.spawn_of(node) {
                Some(spawned) => spawned.notes.push(text),
                None => step.notes.push(text),
            }
        }
    }
}
