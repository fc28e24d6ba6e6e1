//! What a service shows of itself while it runs.
//!
//! A [`Probe`] belongs to one node: a process, or one of several in it. While nobody watches, an
//! observation is one load and a branch. When a checker is connected or a recording runs, it is a
//! stamp and a copy into a ring of the observing thread: no lock, no allocation, no system call.
//! A thread of the probe's own empties the rings every few milliseconds. A full ring drops, the
//! next batch says how many, and the application never waits.
//!
//! ```
//! use everhold_live::Probe;
//! use everhold_trace::NodeId;
//!
//! let probe = Probe::to_checkers(["127.0.0.1:7117".parse()?])
//!     .system("bank")
//!     .node(NodeId(1), "teller-1", "teller")
//!     .start();
//! let (balance, holds) = (probe.var("balance"), probe.var("holds"));
//!
//! probe.observe(balance, 250);
//! probe.add(holds, "lock 7", "exclusive");
//! probe.remove(holds, "lock 7", "exclusive");
//!
//! // Around the service's own messages:
//! let envelope = probe.send(Some(NodeId(2)), probe.var("Transfer"));
//! let bytes = envelope.to_bytes(); // travels with the message ...
//! # let other = Probe::off();
//! other.receive_bytes(&bytes)?; // ... and is read at the other end
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A probe that is watched from the middle of a run knows only what is observed from then on;
//! give it a [`refresh`](Builder::refresh) that observes everything once.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use everhold_trace::wire::{Clock, ClockJump, Name, Stamp, Tuple, What};
use everhold_trace::{EventKind, MessageId, NodeId, Value};
use serde::Serialize;

mod builder;
mod drain;
pub(crate) mod envelope;
mod link;
mod ring;
mod scalar;
mod timer;
mod trips;

pub use builder::Builder;
pub use envelope::{Envelope, EnvelopeError, HEADER, NOBODY, read_framed, write_framed};
pub use scalar::Scalar;

use ring::RingReader;
pub(crate) use timer::Timer;

/// A name known to a probe; made once with [`Probe::var`], then a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub(crate) u32);

/// A node's window to its checkers. Cheap to clone; when the last clone is dropped, what is left
/// in the rings is sent and the node says goodbye.
#[derive(Clone)]
pub struct Probe {
    shared: Arc<Shared>,
    _drain: Option<Arc<DrainGuard>>,
}

/// What observing threads and the draining thread share.
pub(crate) struct Shared {
    /// Tells probes of one process apart in thread-local storage.
    serial: u64,
    node: NodeId,
    pub(crate) watched: AtomicBool,
    /// Counts checkers that connected, so that whoever has a state shows all of it again.
    pub(crate) audience: AtomicU64,
    pub(crate) clock: Clock,
    /// The physical time; `None` if nobody will ever look. Then the clock only counts on from what
    /// others sent, which passes on their order.
    timer: Option<Arc<Timer>>,
    /// How far a stamp of another node was ahead of this node's time, at most, since this was last
    /// looked at: clocks are at least so wrong.
    pushed: AtomicU64,
    sent: AtomicU64,
    ring_words: usize,
    names: Mutex<Vec<Name>>,
    newcomers: Mutex<Vec<RingReader>>,
    pub(crate) dropped: AtomicU64,
}

/// Ends the draining thread with the last probe.
struct DrainGuard {
    stop: Mutex<Option<mpsc::Sender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        drop(lock(&self.stop).take());
        if let Some(thread) = lock(&self.thread).take() {
            // It ends within the time limits of its connections, panicked or not.
            let _ = thread.join();
        }
    }
}

/// A poisoned lock guards plain data here, which is whole after every statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(
        node: NodeId,
        first_message: u64,
        ring_words: usize,
        timer: Option<Arc<Timer>>,
    ) -> Shared {
        static SERIALS: AtomicU64 = AtomicU64::new(0);
        Shared {
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            node,
            watched: AtomicBool::new(false),
            audience: AtomicU64::new(0),
            clock: Clock::default(),
            timer,
            pushed: AtomicU64::new(0),
            sent: AtomicU64::new(first_message),
            ring_words,
            names: Mutex::default(),
            newcomers: Mutex::default(),
            dropped: AtomicU64::new(0),
        }
    }

    /// The physical time, once it is known.
    fn time(&self) -> Option<Stamp> {
        self.timer.as_ref().filter(|timer| timer.is_set()).map(|timer| timer.now())
    }

    /// A stamp of its own for one event that happens now.
    #[inline]
    fn stamp(&self) -> Stamp {
        match &self.timer {
            Some(timer) => self.clock.tick_at(timer.now()),
            None => self.clock.tick(),
        }
    }

    /// Everything after this is after that stamp of another node.
    fn merge(&self, at: Stamp) -> Result<(), ClockJump> {
        let Some(now) = self.time() else {
            // It has no time of its own, and cannot judge that of others.
            self.clock.advance_to(at);
            return Ok(());
        };
        self.clock.advance_to(now);
        let ahead = at.0.saturating_sub(now.0);
        self.pushed.fetch_max(ahead, Ordering::Relaxed);
        let is_synced = self.timer.as_ref().is_some_and(|timer| timer.is_synced());
        if is_synced && ahead > AHEAD_MAX.0 {
            return Err(ClockJump { ahead_micros: Stamp(ahead).micros() });
        }
        self.clock.merge(at)
    }
}

/// Nodes that follow the clock of a checker differ by less; further ahead is a node that does not.
const AHEAD_MAX: Stamp = Stamp::from_micros(1_000_000);

impl Probe {
    /// A probe that sends to these checkers; see [`Builder`] for the rest.
    pub fn to_checkers(addresses: impl IntoIterator<Item = SocketAddr>) -> Builder {
        Builder::new(addresses.into_iter().collect())
    }

    /// A probe that nobody watches. Messages are still stamped, so that others' order is right; their
    /// sender is [`NOBODY`].
    #[must_use]
    pub fn off() -> Probe {
        Probe { shared: Arc::new(Shared::new(NOBODY, 0, 0, None)), _drain: None }
    }

    /// Whether anybody looks. Worth asking before computing what is only observed.
    #[inline]
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.shared.watched.load(Ordering::Relaxed)
    }

    /// How many checkers connected so far. When it grows, somebody knows nothing yet.
    #[must_use]
    pub fn audience(&self) -> u64 {
        self.shared.audience.load(Ordering::Acquire)
    }

    /// How many records were dropped so far, for want of room or of a checker that keeps up.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The number of a name. Takes a lock: ask once and keep it.
    #[must_use]
    pub fn var(&self, name: &str) -> Var {
        let mut names = lock(&self.shared.names);
        let at = names.iter().position(|known| &**known == name).unwrap_or_else(|| {
            names.push(Name::from(name));
            names.len() - 1
        });
        Var(u32::try_from(at).expect("a program has fewer than 2^32 names"))
    }

    /// The variable has this value from now on.
    #[inline]
    pub fn observe<'a>(&self, var: Var, value: impl Into<Scalar<'a>>) {
        if self.is_watched() {
            ring::observe(&self.shared, var, value.into());
        }
    }

    /// The variable has this structured value from now on. Allocates when watched. A value that does
    /// not serialise is dropped and counted.
    pub fn observe_value(&self, var: Var, value: &(impl Serialize + ?Sized)) {
        if self.is_watched() {
            match Value::try_of(value) {
                Ok(value) => self.record(What::Observe(vec![(self.name(var), value)])),
                Err(_) => ring::unfit(&self.shared),
            }
        }
    }

    /// A tuple begins to hold: `relation(key, value)`. A key has one value: it replaces another one.
    ///
    /// Key and value may be anything that serialises: numbers, texts, booleans, [`NodeId`]s, and
    /// structures, which rules take apart (`n.locks[key].mode`). Structures allocate when watched, and
    /// so do texts over 1,000 bytes. A value of null (`()`, `None`) cannot be told from no tuple in
    /// `n.holds[key]`: use `true` where the key says all. What does not serialise, or nests deeper
    /// than [`DEPTH_MAX`](everhold_trace::wire::DEPTH_MAX), is dropped and counted.
    ///
    /// ```
    /// # use everhold_live::Probe;
    /// #[derive(serde::Serialize)]
    /// struct Lease { mode: &'static str, until: u64 }
    ///
    /// let probe = Probe::off();
    /// let (holds, leases) = (probe.var("holds"), probe.var("leases"));
    /// probe.add(holds, "lock 7", true);
    /// probe.add(leases, ("shard", 3), Lease { mode: "shared", until: 90 });
    /// ```
    #[inline]
    pub fn add(&self, relation: Var, key: impl Serialize, value: impl Serialize) {
        if self.is_watched() {
            self.tuple(true, relation, &key, &value);
        }
    }

    /// A tuple ceases to hold. If its key has another value by now, that stays.
    #[inline]
    pub fn remove(&self, relation: Var, key: impl Serialize, value: impl Serialize) {
        if self.is_watched() {
            self.tuple(false, relation, &key, &value);
        }
    }

    #[inline]
    fn tuple(&self, holds: bool, relation: Var, key: &impl Serialize, value: &impl Serialize) {
        let shared = &*self.shared;
        let written = scalar::flat(key, |key| {
            scalar::flat(value, |value| ring::tuple(shared, holds, relation, key, value))
        });
        if !matches!(written, Ok(Ok(()))) {
            self.structured(holds, relation, key, value);
        }
    }

    #[cold]
    fn structured(&self, holds: bool, relation: Var, key: &impl Serialize, value: &impl Serialize) {
        match (Value::try_of(key), Value::try_of(value)) {
            (Ok(key), Ok(value)) => {
                let tuple = Tuple { relation: self.name(relation), key, value };
                self.record(if holds { What::Add(tuple) } else { What::Remove(tuple) });
            }
            _ => ring::unfit(&self.shared),
        }
    }

    /// A step of the service begins; observations up to the next step belong to it.
    #[inline]
    pub fn step(&self, label: Var) {
        if self.is_watched() {
            ring::step(&self.shared, label);
        }
    }

    /// A step while the returned value lives: one event at its beginning, one at its end.
    ///
    /// ```
    /// # use everhold_live::Probe;
    /// # let probe = Probe::off();
    /// fn acquire(probe: &Probe) {
    ///     let _scope = probe.scope(probe.var("acquire"));
    ///     // ... whatever is observed here belongs to `acquire`
    /// }
    /// # acquire(&probe);
    /// ```
    #[must_use = "the scope ends when this is dropped"]
    pub fn scope(&self, label: Var) -> Scope<'_> {
        self.step(label);
        Scope { probe: self, label }
    }

    /// A message leaves; what is returned travels with it.
    #[must_use = "the envelope has to travel with the message"]
    pub fn send(&self, to: Option<NodeId>, label: Var) -> Envelope {
        let shared = &*self.shared;
        let seq = shared.sent.fetch_add(1, Ordering::Relaxed);
        if self.is_watched() {
            ring::send(shared, to, seq, label);
        }
        Envelope { at: self.now(), sender: shared.node, seq }
    }

    /// A message arrives: a step begins, and everything after it here is after its sending.
    ///
    /// # Errors
    ///
    /// If the sender's clock cannot be right: more than a second ahead of the clock of the checker
    /// that this node follows, or more than ten minutes ahead of its own. The step is recorded all
    /// the same; only its place relative to the sender is not to be trusted.
    pub fn receive(&self, envelope: Envelope) -> Result<(), EnvelopeError> {
        let shared = &*self.shared;
        let merged = self.merge(envelope.at);
        match envelope.sender {
            _ if !self.is_watched() => {}
            // It is a message of no node that is shown: it comes from outside.
            NOBODY => self.event(EventKind::Input { name: "message".to_owned() }),
            sender => ring::receive(shared, MessageId { sender, seq: envelope.seq }),
        }
        merged.map_err(EnvelopeError::ClockJump)
    }

    /// A stamp after everything that was shown so far.
    pub(crate) fn now(&self) -> Stamp {
        match self.shared.time() {
            Some(now) => self.shared.clock.tick_at(now),
            None => self.shared.clock.tick(),
        }
    }

    /// Everything after this is after that stamp.
    pub(crate) fn merge(&self, at: Stamp) -> Result<(), ClockJump> {
        self.shared.merge(at)
    }

    /// Reads an envelope from the front of a message and receives it; returns the rest.
    ///
    /// # Errors
    ///
    /// If there is no envelope, or as [`receive`](Probe::receive).
    pub fn receive_bytes<'a>(&self, message: &'a [u8]) -> Result<&'a [u8], EnvelopeError> {
        let (envelope, rest) = Envelope::from_bytes(message)?;
        self.receive(envelope)?;
        Ok(rest)
    }

    /// Anything else that can be said about a node. Allocates. Values that nest deeper than
    /// [`DEPTH_MAX`](everhold_trace::wire::DEPTH_MAX) are dropped, and counted.
    pub fn record(&self, what: What) {
        if self.is_watched() {
            ring::boxed(&self.shared, what);
        }
    }

    /// A step of any kind begins.
    pub fn event(&self, kind: EventKind) {
        self.record(What::Event(kind));
    }

    fn name(&self, var: Var) -> Name {
        Name::clone(&lock(&self.shared.names)[var.0 as usize])
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("node", &self.shared.node)
            .field("watched", &self.is_watched())
            .finish_non_exhaustive()
    }
}

/// A step that lasts; see [`Probe::scope`].
#[derive(Debug)]
pub struct Scope<'a> {
    probe: &'a Probe,
    label: Var,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        if self.probe.is_watched() {
            ring::leave(&self.probe.shared, self.label);
        }
    }
}
