//! Observations of a service while it runs.
//!
//! A [`Probe`] belongs to one node: a process, or one of several in it. While there is no observer,
//! an observation costs one load and a branch. When a checker is connected or a recording runs, it
//! costs a stamp and a copy into a ring buffer of the observing thread: no lock, no allocation, no
//! system call. A thread of the probe empties the rings every few milliseconds. If a ring is full,
//! records are dropped and the next batch contains their number; the application never waits.
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
//! If a checker connects in the middle of a run, it knows only later observations; set a
//! [`refresh`](Builder::refresh) that observes everything once.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use everhold_trace::tap::{self, Tap};
use everhold_trace::wire::{Clock, ClockJump, Name, Stamp, Tuple, What};
use everhold_trace::{EventKind, MessageId, NodeId, Value};
use serde::Serialize;

mod batches;
mod builder;
mod drain;
pub(crate) mod envelope;
mod feed;
mod link;
mod ring;
mod scalar;
mod timer;
mod trips;

pub use builder::Builder;
pub use envelope::{Envelope, EnvelopeError, HEADER, NOBODY, read_framed, write_framed};
pub use feed::{Agent, Feed};
pub use scalar::Scalar;

use ring::RingReader;
pub(crate) use timer::Timer;

/// A name known to a probe, as a number; made once with [`Probe::var`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub(crate) u32);

/// A node's connection to its checkers. Cheap to clone; when the last clone is dropped, the records
/// left in the rings are sent and the node ends the connection with a goodbye.
#[derive(Clone)]
pub struct Probe {
    shared: Arc<Shared>,
    _drain: Option<Arc<DrainGuard>>,
}

/// The state that observing threads and the draining thread share.
pub(crate) struct Shared {
    /// The number that distinguishes the probes of one process in thread-local storage.
    serial: u64,
    node: NodeId,
    pub(crate) watched: AtomicBool,
    /// The number of connections of checkers so far. When it increases, the owner of a state must
    /// show all of it again.
    pub(crate) audience: AtomicU64,
    pub(crate) clock: Clock,
    /// The physical time; `None` for a probe without observers. The clock then only advances beyond
    /// the stamps of others, which preserves their order.
    timer: Option<Arc<Timer>>,
    /// The largest lead of a received stamp over this node's time since the last evaluation: a
    /// lower bound on the error of the clocks.
    pushed: AtomicU64,
    sent: AtomicU64,
    ring_words: usize,
    names: Mutex<Vec<Name>>,
    newcomers: Mutex<Vec<RingReader>>,
    pub(crate) dropped: AtomicU64,
    /// A test in this process that gets everything at once.
    tap: Option<Tap>,
}

/// Ends the draining thread when the last probe is dropped.
struct DrainGuard {
    stop: Mutex<Option<mpsc::Sender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        drop(lock(&self.stop).take());
        if let Some(thread) = lock(&self.thread).take() {
            // The thread ends within the time limits of its connections, even if it panicked.
            let _ = thread.join();
        }
    }
}

/// Locks a mutex and ignores poisoning: the guarded data is plain and valid after every statement.
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
        let tap = tap::get();
        Shared {
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            node,
            watched: AtomicBool::new(tap.is_some()),
            tap,
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

    /// Returns the physical time, once it is known.
    fn time(&self) -> Option<Stamp> {
        self.timer.as_ref().filter(|timer| timer.is_set()).map(|timer| timer.now())
    }

    /// Returns a unique stamp for an event that happens now.
    #[inline]
    fn stamp(&self) -> Stamp {
        match &self.timer {
            Some(timer) => self.clock.tick_at(timer.now()),
            None => self.clock.tick(),
        }
    }

    /// Advances the clock beyond a stamp of another node, so that all later stamps follow it.
    fn merge(&self, at: Stamp) -> Result<(), ClockJump> {
        let Some(now) = self.time() else {
            // Without a time of its own, it cannot judge that of others.
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

/// The largest plausible lead of another node. Nodes that follow the clock of a checker differ by
/// less.
const AHEAD_MAX: Stamp = Stamp::from_micros(1_000_000);

impl Probe {
    /// Starts the settings of a probe that sends to these checkers; see [`Builder`] for the rest.
    pub fn to_checkers(addresses: impl IntoIterator<Item = SocketAddr>) -> Builder {
        Builder::new(addresses.into_iter().collect())
    }

    /// Returns a probe without observers. Messages are still stamped, so that the order of others
    /// is preserved; their sender is [`NOBODY`].
    #[must_use]
    pub fn off() -> Probe {
        Probe { shared: Arc::new(Shared::new(NOBODY, 0, 0, None)), _drain: None }
    }

    /// Returns whether there is an observer, which is worth asking before computing a value only to
    /// observe it.
    #[inline]
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.shared.watched.load(Ordering::Relaxed)
    }

    /// Returns the number of connections of checkers so far. When it increases, a new checker does
    /// not know the state yet.
    #[must_use]
    pub fn audience(&self) -> u64 {
        self.shared.audience.load(Ordering::Acquire)
    }

    /// Returns the number of records dropped so far, because a ring was full or a checker did not
    /// keep up.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Returns the number of a name. It takes a lock: call it once and keep the result.
    #[must_use]
    pub fn var(&self, name: &str) -> Var {
        let mut names = lock(&self.shared.names);
        let at = names.iter().position(|known| &**known == name).unwrap_or_else(|| {
            names.push(Name::from(name));
            names.len() - 1
        });
        Var(u32::try_from(at).expect("a program has fewer than 2^32 names"))
    }

    /// Observes that the variable has this value from now on.
    #[inline]
    pub fn observe<'a>(&self, var: Var, value: impl Into<Scalar<'a>>) {
        if self.is_watched() {
            ring::observe(&self.shared, var, value.into());
        }
    }

    /// Observes that the variable has this structured value from now on. It allocates when there is
    /// an observer. A value that cannot be serialised is dropped and counted.
    pub fn observe_value(&self, var: Var, value: &(impl Serialize + ?Sized)) {
        if self.is_watched() {
            match Value::try_of(value) {
                Ok(value) => self.record(What::Observe(vec![(self.name(var), value)])),
                Err(_) => ring::unfit(&self.shared),
            }
        }
    }

    /// Observes that the tuple `relation(key, value)` begins to hold. A key has one value: a new
    /// value replaces the old one.
    ///
    /// Key and value may be of any type that serialises: numbers, texts, booleans, [`NodeId`]s, and
    /// structures, whose parts rules can access (`n.locks[key].mode`). Structures allocate when
    /// there is an observer, and so do texts over 1,000 bytes. In `n.holds[key]`, a null value
    /// (`()`, `None`) cannot be distinguished from an absent tuple: use `true` if the key contains
    /// all the information. A value that cannot be serialised, or is nested deeper than
    /// [`DEPTH_MAX`](everhold_trace::wire::DEPTH_MAX), is dropped and counted.
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

    /// Observes that a tuple ceases to hold. If its key has another value by now, that value stays.
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

    /// Begins a step of the service; observations until the next step belong to it.
    #[inline]
    pub fn step(&self, label: Var) {
        if self.is_watched() {
            ring::step(&self.shared, label);
        }
    }

    /// Begins a step that lasts while the returned value lives: one event at its beginning, one at
    /// its end.
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

    /// Records the sending of a message; the returned envelope must travel with the message.
    #[must_use = "the envelope has to travel with the message"]
    pub fn send(&self, to: Option<NodeId>, label: Var) -> Envelope {
        let shared = &*self.shared;
        let seq = shared.sent.fetch_add(1, Ordering::Relaxed);
        if self.is_watched() {
            ring::send(shared, to, seq, label);
        }
        Envelope { at: self.now(), sender: shared.node, seq }
    }

    /// Records the arrival of a message: a step begins, and everything after it is ordered after
    /// the sending.
    ///
    /// # Errors
    ///
    /// If the sender's clock cannot be right: more than a second ahead of the clock of the checker
    /// that this node follows, or more than ten minutes ahead of its own. The step is recorded
    /// anyway, but its order relative to the sender is unreliable.
    pub fn receive(&self, envelope: Envelope) -> Result<(), EnvelopeError> {
        let shared = &*self.shared;
        let merged = self.merge(envelope.at);
        match envelope.sender {
            _ if !self.is_watched() => {}
            // The message is from a node without a probe, so it counts as input from outside.
            NOBODY => self.event(EventKind::Input { name: "message".to_owned() }),
            sender => ring::receive(shared, MessageId { sender, seq: envelope.seq }),
        }
        merged.map_err(EnvelopeError::ClockJump)
    }

    /// Returns a stamp after everything that was shown so far.
    pub(crate) fn now(&self) -> Stamp {
        match self.shared.time() {
            Some(now) => self.shared.clock.tick_at(now),
            None => self.shared.clock.tick(),
        }
    }

    /// Advances the clock beyond this stamp, so that all later stamps follow it.
    pub(crate) fn merge(&self, at: Stamp) -> Result<(), ClockJump> {
        self.shared.merge(at)
    }

    /// Reads an envelope from the front of a message and records its arrival; returns the rest.
    ///
    /// # Errors
    ///
    /// If there is no envelope, or as [`receive`](Probe::receive).
    pub fn receive_bytes<'a>(&self, message: &'a [u8]) -> Result<&'a [u8], EnvelopeError> {
        let (envelope, rest) = Envelope::from_bytes(message)?;
        self.receive(envelope)?;
        Ok(rest)
    }

    /// Records any other fact about the node. It allocates. Values that are nested deeper than
    /// [`DEPTH_MAX`](everhold_trace::wire::DEPTH_MAX) are dropped and counted.
    pub fn record(&self, what: What) {
        if self.is_watched() {
            ring::boxed(&self.shared, what);
        }
    }

    /// Begins a step of any kind.
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

/// A step with a beginning and an end; see [`Probe::scope`].
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
