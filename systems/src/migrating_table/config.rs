//! The configuration service: the present phase of the migration, and who uses it.
//!
//! A push is complete when every operation that began in an earlier phase has ended or has adapted
//! itself. So clients are never more than one phase apart.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use serde::Serialize;

use super::stream::QueryStream;

/// The phases of a migration, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Phase {
    /// Only the old table is used.
    UseOldHideMetadata,
    /// The old table is used, unless the partition was switched.
    PreferOld,
    /// The new table is used for writes; rows that are not there yet are read from the old one.
    PreferNew,
    /// Only the new table is used; deletions still leave tombstones.
    UseNewWithTombstones,
    /// Only the new table is used.
    UseNewHideMetadata,
}

/// Wakes tasks that wait for a condition.
#[derive(Default)]
pub(super) struct Signal(RefCell<Vec<Waker>>);

impl Signal {
    pub(super) fn notify(&self) {
        for waker in self.0.take() {
            waker.wake();
        }
    }

    /// Waits until a condition is true; whoever changes it notifies.
    pub(super) fn until(&self, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            if condition() {
                return Poll::Ready(());
            }
            self.0.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
    }
}

/// An operation that uses the configuration.
struct Subscriber {
    /// A stream adapts itself; other operations keep the phase in which they began.
    stream: Option<Rc<QueryStream>>,
    applied: Phase,
}

/// A process's view of the configuration.
pub struct Configuration {
    current: Cell<Phase>,
    next: Cell<u32>,
    subscribers: RefCell<BTreeMap<u32, Subscriber>>,
    changed: Signal,
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configuration").field("current", &self.current).finish_non_exhaustive()
    }
}

impl Configuration {
    /// The configuration before a migration.
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Configuration {
            current: Cell::new(Phase::UseOldHideMetadata),
            next: Cell::new(0),
            subscribers: RefCell::default(),
            changed: Signal::default(),
        })
    }

    /// Subscribes an operation for as long as the result lives.
    pub(super) fn subscribe(self: &Rc<Self>, stream: Option<Rc<QueryStream>>) -> Subscription {
        let (number, phase) = (self.next.get(), self.current.get());
        self.next.set(number + 1);
        self.subscribers.borrow_mut().insert(number, Subscriber { stream, applied: phase });
        Subscription { config: Rc::clone(self), number, phase }
    }

    /// Waits until a phase has begun here.
    pub(super) async fn reached(&self, phase: Phase) {
        self.changed.until(|| self.current.get() >= phase).await;
    }

    /// Begins a phase.
    pub(super) fn set(&self, phase: Phase) {
        self.current.set(phase);
        self.changed.notify();
    }

    /// Waits until no operation uses an earlier phase any more.
    pub(super) async fn settled(&self, phase: Phase) {
        let earlier: Vec<u32> = self.subscribers.borrow().keys().copied().collect();
        for number in &earlier {
            let stream = self.subscribers.borrow().get(number).and_then(|s| s.stream.clone());
            if let Some(stream) = stream {
                stream.apply(phase).await;
                if let Some(subscriber) = self.subscribers.borrow_mut().get_mut(number) {
                    subscriber.applied = phase;
                }
            }
        }
        let uses =
            |number| self.subscribers.borrow().get(number).is_some_and(|s| s.applied < phase);
        self.changed.until(|| !earlier.iter().any(uses)).await;
    }
}

/// The use of the configuration by an operation; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Subscription {
    config: Rc<Configuration>,
    number: u32,
    /// The phase in which the operation began.
    pub(super) phase: Phase,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.config.subscribers.borrow_mut().remove(&self.number);
        self.config.changed.notify();
    }
}
