//! The loop of one node, which runs one event at a time, followed by its effects.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use everhold_node::{Handle, Message, NodeId, Process, Tag, TaskId};
use everhold_trace::wire::{Name, What};
use everhold_trace::{EventKind, MessageId, Value};

use super::codec::Codec;
use super::core::{CLIENTS, Core, Outgoing};
use super::net::{Input, Net};
use super::packet::Packet;
use super::store::Store;
use super::view::View;
use crate::probe::Envelope;

/// The time for which a loop waits when no timer is set.
const IDLE: Duration = Duration::from_secs(3_600);

pub(super) struct Loop<M: Message> {
    pub(super) core: Rc<RefCell<Core<M>>>,
    handle: Handle<M>,
    me: NodeId,
    codec: Codec<M>,
    net: Net,
    store: Option<Store>,
    slots: BTreeMap<NodeId, Slot<M>>,
    /// Messages between nodes of this loop.
    near: VecDeque<(NodeId, Arrived<M>)>,
    shown: Shown,
    view: Arc<View>,
}

struct Slot<M> {
    process: Box<dyn Process<M>>,
    /// Messages that its guard does not accept yet.
    waiting: VecDeque<Arrived<M>>,
}

struct Arrived<M> {
    envelope: Envelope,
    tag: Tag,
    msg: M,
}

/// The last observed state, so that only changes are sent.
#[derive(Default)]
struct Shown {
    fields: BTreeMap<String, Value>,
    audience: Option<u64>,
}

impl<M: Message> Loop<M> {
    pub(super) fn new(
        core: Core<M>,
        codec: Codec<M>,
        net: Net,
        store: Option<Store>,
        view: Arc<View>,
    ) -> Self {
        let me = core.me;
        let core = Rc::new(RefCell::new(core));
        let handle: Handle<M> = core.clone();
        let (slots, near) = (BTreeMap::new(), VecDeque::new());
        Loop { core, handle, me, codec, net, store, slots, near, shown: Shown::default(), view }
    }

    /// Runs until it is told to stop, or the node leaves.
    pub(super) fn run(
        &mut self,
        process: Box<dyn Process<M>>,
        again: bool,
        inputs: &Receiver<Input>,
    ) {
        self.begin(self.me, process, again);
        while self.slots.contains_key(&self.me) {
            let next = self.core.borrow().next_timer();
            let now = Instant::now();
            let wait = next.map_or(IDLE, |(at, ..)| at.saturating_duration_since(now));
            match inputs.recv_timeout(wait) {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(input) => self.input(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.fire_timers();
        }
    }

    fn begin(&mut self, node: NodeId, mut process: Box<dyn Process<M>>, again: bool) {
        self.event(node, if again { EventKind::Restart } else { EventKind::Start });
        if again {
            process.restart(&self.handle, node);
        } else {
            process.start(&self.handle, node);
        }
        self.slots.insert(node, Slot { process, waiting: VecDeque::new() });
        self.finish(node);
        self.settle(node);
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Packet(packet) => self.packet(packet),
            Input::Client(client, queue) => self.net.add(client, queue),
            Input::Gone(client) => self.net.remove(client),
            // Without this, the state of a node without further events would never be sent.
            Input::Watched => {
                self.shown.audience = None;
                self.show();
            }
            Input::Stop => {}
        }
    }

    fn packet(&mut self, packet: Packet) {
        let Packet { envelope, to, tag, message } = packet;
        match (self.codec.decode)(&message) {
            Ok(msg) => {
                let arrived = Arrived { envelope, tag, msg };
                self.arrive(to, arrived);
                self.bring_near();
            }
            Err(reason) => {
                let (me, from) = (self.me, envelope.sender);
                let text =
                    format!("{me} drops a message from {from} that it cannot read: {reason}");
                self.core.borrow().report.tell(&text);
            }
        }
    }

    /// Takes a message, or keeps it until the node's guard accepts it.
    fn arrive(&mut self, to: NodeId, arrived: Arrived<M>) {
        let Some(slot) = self.slots.get_mut(&to) else { return };
        let from = arrived.envelope.sender;
        // All waiting messages have been refused so far. They do not delay an accepted message:
        // otherwise a reply could wait forever behind a request of its sender.
        if slot.process.is_guarded() && !slot.process.accepts(from, arrived.tag, &arrived.msg) {
            slot.waiting.push_back(arrived);
        } else {
            self.take(to, arrived);
            self.settle(to);
        }
    }

    fn take(&mut self, to: NodeId, arrived: Arrived<M>) {
        let Arrived { envelope, tag, msg } = arrived;
        let message = MessageId { sender: envelope.sender, seq: envelope.seq };
        {
            let mut core = self.core.borrow_mut();
            if let Err(error) = core.probe.merge(envelope.at) {
                core.report.tell(&format!("{}: {error}", envelope.sender));
            }
            core.channels.received(envelope.sender, envelope.seq);
        }
        self.event(to, EventKind::Deliver { message });
        self.note_outside(message.sender, &msg);
        let slot = self.slots.get_mut(&to).expect("it was just found");
        slot.process.message(&self.handle, to, envelope.sender, tag, msg);
        self.finish(to);
    }

    /// Records a message from a client, which a replay needs and no other recording contains.
    fn note_outside(&self, sender: NodeId, msg: &M) {
        let core = self.core.borrow();
        if sender.0 >= CLIENTS && core.probe.is_watched() {
            let mut bytes = Vec::new();
            (self.codec.encode)(msg, &mut bytes);
            let mut text = String::from("message ");
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
            core.probe.record(What::Note(text));
        }
    }

    /// Runs tasks and takes messages that the guard now accepts, until nothing changes.
    fn settle(&mut self, node: NodeId) {
        let mut tasks = Vec::new();
        while let Some(slot) = self.slots.get_mut(&node) {
            tasks.clear();
            slot.process.ready(&mut tasks);
            if let Some(task) = tasks.first() {
                self.poll(node, *task);
                continue;
            }
            let acceptable = first_acceptable(slot);
            match acceptable.and_then(|at| slot.waiting.remove(at)) {
                Some(arrived) => self.take(node, arrived),
                None => break,
            }
        }
    }

    fn poll(&mut self, node: NodeId, task: TaskId) {
        self.event(node, EventKind::Local { name: format!("task {}", task.0) });
        let slot = self.slots.get_mut(&node).expect("its task is ready");
        slot.process.poll(&self.handle, node, task);
        self.finish(node);
    }

    fn fire_timers(&mut self) {
        // Only the timers that are due now, not those that firing them sets.
        let now = Instant::now();
        loop {
            let next = self.core.borrow().next_timer();
            let Some((_, node, timer)) = next.filter(|(at, ..)| *at <= now) else { return };
            self.core.borrow_mut().timers.remove(&(node, timer));
            self.event(node, EventKind::Timer { name: timer.to_string() });
            if let Some(slot) = self.slots.get_mut(&node) {
                slot.process.timer(&self.handle, node, timer);
                self.finish(node);
                self.settle(node);
                self.bring_near();
            }
        }
    }

    fn event(&self, node: NodeId, kind: EventKind) {
        if node == self.me {
            self.core.borrow().probe.event(kind);
        }
    }

    /// Ends an event: synced writes are made durable, the state is shown, and then the messages
    /// leave. Their stamps are taken after that of the state, so that the receiver is ordered after
    /// the state that caused the message.
    fn finish(&mut self, node: NodeId) {
        let mut core = self.core.borrow_mut();
        if let (Some(store), Some(local)) = (&mut self.store, core.locals.get_mut(&self.me))
            && let Err(error) = store.commit(&mut local.disk)
        {
            // To continue would promise data that the disk does not hold.
            panic!("the disk of {} cannot be written ({error})", self.me);
        }
        let outbox = std::mem::take(&mut core.outbox);
        let spawned = std::mem::take(&mut core.spawned);
        let halted = std::mem::take(&mut core.halted);
        drop(core);
        if node == self.me {
            self.show();
        }
        outbox.into_iter().for_each(|outgoing| self.launch(outgoing));
        for (child, blueprint) in spawned {
            self.begin(child, blueprint.make(), false);
        }
        for gone in halted {
            self.slots.remove(&gone);
            self.core.borrow_mut().forget(gone);
        }
    }

    fn launch(&mut self, outgoing: Outgoing<M>) {
        let Outgoing { mut envelope, to, tag, msg } = outgoing;
        envelope.at = self.core.borrow().probe.now();
        if to == self.me || self.slots.contains_key(&to) {
            self.near.push_back((to, Arrived { envelope, tag, msg }));
        } else {
            let mut message = Vec::new();
            (self.codec.encode)(&msg, &mut message);
            self.net.send(&Packet { envelope, to, tag, message });
        }
    }

    fn bring_near(&mut self) {
        while let Some((to, arrived)) = self.near.pop_front() {
            self.arrive(to, arrived);
        }
    }

    /// Sends the changes of the node's state to its observers.
    fn show(&mut self) {
        let core = self.core.borrow();
        let (watched, wanted) = (core.probe.is_watched(), self.view.is_wanted());
        if !watched && !wanted {
            self.shown.audience = None;
            return;
        }
        let Some(slot) = self.slots.get(&self.me) else { return };
        let state = slot.process.observe();
        if wanted {
            self.view.publish(state.clone(), &core.channels);
        }
        if !watched {
            return;
        }
        let fields = match state {
            Value::Record(fields) => fields,
            Value::Null => return,
            other => BTreeMap::from([("state".to_owned(), other)]),
        };
        let audience = Some(core.probe.audience());
        let named = |(name, value): (&String, &Value)| (Name::from(name.as_str()), value.clone());
        if self.shown.audience != audience {
            core.probe.record(What::Refresh);
            core.probe.record(What::State(fields.iter().map(named).collect()));
            core.probe.record(What::Whole);
        } else {
            let is_new =
                |(name, value): &(&String, &Value)| self.shown.fields.get(*name) != Some(*value);
            let changed: Vec<_> = fields.iter().filter(is_new).map(named).collect();
            if !changed.is_empty() {
                core.probe.record(What::Observe(changed));
            }
        }
        self.shown = Shown { fields, audience };
    }
}

/// Returns the first waiting message that the guard accepts, in order of arrival; refused messages
/// stay.
fn first_acceptable<M>(slot: &Slot<M>) -> Option<usize> {
    slot.waiting.iter().position(|arrived| {
        slot.process.accepts(arrived.envelope.sender, arrived.tag, &arrived.msg)
    })
}
