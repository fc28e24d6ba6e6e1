//! The view of a node for assertions: its state, and the message counts of its channels.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use everhold_trace::{NodeId, Value};
use serde::{Deserialize, Serialize};

use crate::probe::lock;

/// The channels of one node: the messages it sent and received, by the senders' own counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// The number of messages sent to each node.
    pub sent: BTreeMap<NodeId, u64>,
    /// The count of the last sent message, plus one.
    pub next: u64,
    /// The number of messages received from each node, and the count of the newest.
    pub received: BTreeMap<NodeId, (u64, u64)>,
}

impl Channels {
    /// Records a sent message.
    pub fn sent(&mut self, to: NodeId, seq: u64) {
        *self.sent.entry(to).or_default() += 1;
        self.next = self.next.max(seq + 1);
    }

    /// Records a received message.
    pub fn received(&mut self, from: NodeId, seq: u64) {
        let (count, newest) = self.received.entry(from).or_default();
        *count += 1;
        *newest = seq.max(*newest);
    }
}

/// The state that is published after every event, once it has been requested.
#[derive(Default)]
pub(crate) struct View {
    wanted: AtomicBool,
    shown: Mutex<Option<(Value, Channels)>>,
    then: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl View {
    pub(crate) fn want(self: &Arc<View>) {
        self.wanted.store(true, Ordering::Release);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Sets the function that runs after each event, on the node's thread.
    pub(crate) fn then(self: &Arc<View>, run: Arc<dyn Fn() + Send + Sync>) {
        *lock(&self.then) = Some(run);
        self.want();
    }

    pub(crate) fn publish(&self, state: Value, channels: &Channels) {
        *lock(&self.shown) = Some((state, channels.clone()));
        let then = lock(&self.then).clone();
        if let Some(then) = then {
            then();
        }
    }

    /// Returns the state between two events; `None` before the first event after the first request.
    pub(crate) fn look(&self) -> Option<(Value, Channels)> {
        lock(&self.shown).clone()
    }
}
