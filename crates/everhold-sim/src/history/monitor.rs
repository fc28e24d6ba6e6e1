//! The checker as a monitor, which judges every answer while the system runs.

use std::collections::BTreeMap;
use std::fmt;

use everhold_node::Monitor;
use serde::Serialize;

use super::frontier::{Frontier, Misfit, Slot};
use crate::halt;

use super::{ClientId, History, Linearizability, Model, OpId};

/// A notification from a client to the monitor, made by [`Model::invoked`] and [`Model::returned`].
pub enum Operation<M: Model> {
    /// A client calls an operation, before it sends anything for it.
    Invoke {
        /// The client that calls.
        client: ClientId,
        /// The operation.
        op: M::Op,
    },
    /// The operation that the client called last is answered.
    Return {
        /// The client that is answered.
        client: ClientId,
        /// The answer.
        ret: M::Ret,
    },
}

impl<M: Model> fmt::Debug for Operation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Node ids in the form that pictures replace by names.
        let (client, words) = match self {
            Operation::Invoke { client, op } => (client, format!("calls {op:?}")),
            Operation::Return { client, ret } => (client, format!("gets {ret:?}")),
        };
        match client.task {
            0 => write!(f, "{:?} {words}", client.node),
            task => write!(f, "{:?}.{task} {words}", client.node),
        }
    }
}

/// A monitor that fails at the first answer which no order of the operations explains.
///
/// Clients notify it when they call an operation and when they have the answer. A client that
/// never gets one, because it crashed or gave up, simply calls the next operation; the earlier
/// one counts as open, and may take effect at any time. (A client that is gone may never call
/// again; nothing needs to be told then.)
///
/// The monitor keeps every state in which the object may be, so the cost of an answer depends on
/// the operations that are open, not on the length of the execution. Where there are more cases
/// than [`configurations_max`](Linearizable::configurations_max), the execution ends there and
/// counts as not judged ([`Report::undecided`](crate::Report::undecided)): neither right nor wrong.
///
/// ```
/// use everhold_node::{Monitor, NodeId};
/// use everhold_sim::history::{Linearizable, Model};
/// use serde::Serialize;
///
/// #[derive(Clone, Default, Serialize)]
/// struct Counter(u32);
///
/// impl Model for Counter {
///     type Op = ();
///     type Ret = u32;
///     fn apply(&mut self, _: &()) -> u32 {
///         self.0 += 1;
///         self.0
///     }
/// }
///
/// // In a test: `system.monitor("the counter is atomic", Linearizable::new(Counter::default()))`,
/// // and in the clients: `cx.notify(Counter::invoked(cx.id(), ()))`.
/// let mut monitor = Linearizable::new(Counter::default());
/// monitor.observe(&Counter::invoked(NodeId(1), ()));
/// monitor.observe(&Counter::invoked(NodeId(2), ()));
/// monitor.observe(&Counter::returned(NodeId(1), 2));
/// monitor.observe(&Counter::returned(NodeId(2), 1));
/// ```
#[derive(Clone, Serialize)]
#[serde(bound = "")]
pub struct Linearizable<M: Model> {
    parts: BTreeMap<u64, Part<M>>,
    /// The part for which each client waits, and the slot of its operation. The open operations
    /// imply it, so it is not serialised.
    #[serde(skip)]
    waiting: BTreeMap<ClientId, (u64, Slot)>,
    #[serde(skip)]
    initial: M,
    #[serde(skip)]
    configurations_max: usize,
}

/// One part of the object; see [`Model::part`].
#[derive(Clone, Serialize)]
#[serde(bound = "", transparent)]
struct Part<M: Model> {
    frontier: Frontier<M>,
    /// Only for explanations, and not part of the state: a system whose states recur comes back to
    /// the same frontier with a longer history.
    #[serde(skip)]
    past: Past<M>,
}

/// The events since the object was last known to be in one state.
#[derive(Clone)]
struct Past<M: Model> {
    from: M,
    history: History<M::Op, M::Ret>,
    last: BTreeMap<ClientId, OpId>,
}

impl<M: Model> fmt::Debug for Linearizable<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linearizable").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

/// The number of operations that are kept for explanations before a known state makes them
/// dispensable.
const PAST_MAX: usize = 32;

impl<M: Model> Linearizable<M> {
    /// Judges operations on an object that begins as `initial`.
    pub fn new(initial: M) -> Self {
        let (parts, waiting) = (BTreeMap::new(), BTreeMap::new());
        Linearizable { parts, waiting, initial, configurations_max: 100_000 }
    }

    /// Sets the largest number of cases (states, and open operations that took effect) to which one
    /// answer may lead. 100,000 by default; each operation that is never answered may double them.
    #[must_use]
    pub fn configurations_max(self, configurations_max: usize) -> Self {
        Linearizable { configurations_max, ..self }
    }

    fn invoke(&mut self, client: ClientId, op: &M::Op) {
        if let Some((part, slot)) = self.waiting.remove(&client) {
            self.part(part).frontier.give_up(slot);
        }
        let key = M::part(op);
        let slot = self.part(key).invoke(client, op);
        self.waiting.insert(client, (key, slot));
    }

    fn complete(&mut self, client: ClientId, ret: &M::Ret) {
        let waiting = self.waiting.remove(&client);
        let Some((key, slot)) = waiting else {
            panic!("{client} was answered {ret:?}, but did not say what it called");
        };
        self.part(key).complete(client, slot, ret);
    }

    fn part(&mut self, key: u64) -> &mut Part<M> {
        let new = || Part::new(&self.initial, self.configurations_max);
        self.parts.entry(key).or_insert_with(new)
    }
}

impl<M: Model + 'static> Monitor for Linearizable<M> {
    type Event = Operation<M>;

    fn observe(&mut self, event: &Operation<M>) {
        match event {
            Operation::Invoke { client, op } => self.invoke(*client, op),
            Operation::Return { client, ret } => self.complete(*client, ret),
        }
    }
}

impl<M: Model> Part<M> {
    fn new(initial: &M, configurations_max: usize) -> Self {
        let frontier = Frontier::new(initial.clone(), configurations_max);
        Part { frontier, past: Past::new(initial.clone()) }
    }

    fn invoke(&mut self, client: ClientId, op: &M::Op) -> Slot {
        let id = self.past.history.invoke(client, op.clone());
        self.past.last.insert(client, id);
        self.frontier.invoke(client, op.clone())
    }

    fn complete(&mut self, client: ClientId, slot: Slot, ret: &M::Ret) {
        self.past.history.complete(self.past.last[&client], ret.clone());
        match self.frontier.complete(slot, ret) {
            Ok(()) => self.forget(),
            Err(Misfit::NoOrder { possible }) => {
                panic!("{}", self.past.explanation(client, ret, &possible))
            }
            Err(Misfit::Bounded) => halt::undecided(format!(
                "unknown whether the answer {ret:?} to {client} fits: too many cases; raise \
                 `configurations_max`, or split the object with `Model::part`"
            )),
        }
    }

    fn forget(&mut self) {
        if self.past.history.len() < PAST_MAX {
            return;
        }
        if let Some(state) = self.frontier.settled() {
            self.past = Past::new(state.clone());
        }
    }
}

impl<M: Model> Past<M> {
    fn new(from: M) -> Self {
        Past { from, history: History::new(), last: BTreeMap::new() }
    }

    /// The explanation of a failure. The search begins again from the last known state, to have an
    /// order to show.
    fn explanation(&self, client: ClientId, ret: &M::Ret, possible: &[M::Ret]) -> String {
        match self.history.check(&self.from) {
            Linearizability::Violated(violation) => violation.explanation,
            Linearizability::Holds(_) | Linearizability::Unknown { .. } => {
                format!(
                    "no order explains that {client} got {ret:?}; the possible answers are {possible:?}"
                )
            }
        }
    }
}
