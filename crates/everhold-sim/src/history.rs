//! A linearizability checker for recorded histories: it decides whether some order of the
//! operations explains every answer, against a sequential reference model.
//!
//! - [`Model`]: the object as it would behave if operations came one after the other.
//! - [`History`]: the calls of each client and the times of the answers; [`History::check`] judges
//!   it.
//! - [`Linearizable`]: the same as a monitor, judged at every answer while a system runs.
//! - `search`: finds an order (Wing and Gong, with Lowe's memoisation).
//! - `frontier`: all states in which an object may be by now, kept from answer to answer.
//! - `explain`: the explanation that is given when there is no order.
//!
//! ```
//! use everhold_node::NodeId;
//! use everhold_sim::history::{History, Model};
//! use serde::Serialize;
//!
//! #[derive(Clone, Debug, Serialize)]
//! enum Op { Write(u32), Read }
//!
//! /// Holds one number; a write answers with what was there before.
//! #[derive(Clone, Default, Serialize)]
//! struct Register(u32);
//!
//! impl Model for Register {
//!     type Op = Op;
//!     type Ret = u32;
//!     fn apply(&mut self, op: &Op) -> u32 {
//!         match op {
//!             Op::Write(value) => std::mem::replace(&mut self.0, *value),
//!             Op::Read => self.0,
//!         }
//!     }
//! }
//!
//! let (alice, bob) = (NodeId(1), NodeId(2));
//! let mut history = History::new();
//! let write = history.invoke(alice, Op::Write(7));
//! let read = history.invoke(bob, Op::Read);
//! history.complete(read, 7); // The write has not been answered, but it took effect.
//! history.complete(write, 0);
//! history.check(&Register::default()).assert_holds();
//!
//! let stale = history.invoke(bob, Op::Read);
//! history.complete(stale, 0);
//! let found = history.check(&Register::default());
//! assert_eq!(found.violation().map(|violation| violation.misfit), Some(stale));
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use everhold_node::NodeId;
use serde::Serialize;

mod explain;
mod frontier;
mod monitor;
mod search;

pub use monitor::{Linearizable, Operation};

use explain::explain;
use frontier::{Frontier, Misfit};
use search::{Found, Item, Order};

/// An object as it would behave if operations came one after the other.
///
/// States are distinguished by a 64-bit hash of their serialised form
/// ([`fingerprint::hash`](everhold_node::fingerprint::hash)), so everything that decides an answer
/// must be serialised. Two different states with the same hash, which among a million states occur
/// with a probability below 1e-7, could hide an order and raise a false alarm.
pub trait Model: Clone + Serialize {
    /// An operation that a client requests.
    type Op: Clone + Debug + Serialize + 'static;
    /// The answer to an operation.
    type Ret: Clone + Debug + PartialEq + Serialize + 'static;

    /// Carries out `op`. The answer and the new state are functions of the old state and `op`.
    fn apply(&mut self, op: &Self::Op) -> Self::Ret;

    /// The independent part of the object that `op` touches, such as the key of a map: a number, or
    /// a hash of a name.
    ///
    /// A history is linearizable if the history of each part is, and short histories are far
    /// cheaper to check (Horn and Kroening, *Faster linearizability checking via
    /// P-compositionality*, 2015). This is only right if no answer in one part depends on
    /// operations in another.
    #[must_use]
    fn part(op: &Self::Op) -> u64 {
        let _ = op;
        0
    }

    /// The notification that `client` calls `op`, for [`Linearizable`].
    #[must_use]
    fn invoked(client: impl Into<ClientId>, op: Self::Op) -> Operation<Self> {
        Operation::Invoke { client: client.into(), op }
    }

    /// The notification that the operation which `client` called last is answered.
    #[must_use]
    fn returned(client: impl Into<ClientId>, ret: Self::Ret) -> Operation<Self> {
        Operation::Return { client: client.into(), ret }
    }
}

/// A caller of operations, one at a time: a node, or one of its tasks.
///
/// ```
/// use everhold_node::NodeId;
/// use everhold_sim::history::ClientId;
/// assert_eq!(ClientId::from(NodeId(3)).to_string(), "n3");
/// assert_eq!(ClientId::from((NodeId(3), 1)).to_string(), "n3.1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ClientId {
    /// The node on which the client runs.
    pub node: NodeId,
    /// Distinguishes the clients of one node; zero if there is only one.
    pub task: u32,
}

impl From<NodeId> for ClientId {
    fn from(node: NodeId) -> Self {
        ClientId { node, task: 0 }
    }
}

impl From<(NodeId, u32)> for ClientId {
    fn from((node, task): (NodeId, u32)) -> Self {
        ClientId { node, task }
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            0 => write!(f, "{}", self.node),
            task => write!(f, "{}.{task}", self.node),
        }
    }
}

/// An operation of a [`History`], counted in order of invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub usize);

/// Operations with the order of their calls and answers.
///
/// An operation without an answer may have taken effect at any time since its call, or not at
/// all. A client that calls again without having been answered has given up on the earlier
/// operation, as after a crash or a timeout; that one may still take effect.
#[derive(Clone, Debug)]
pub struct History<Op, Ret> {
    operations: Vec<Recorded<Op, Ret>>,
    /// The number of calls and answers so far, which are numbered; the numbers are the times below.
    events: usize,
    configurations_max: usize,
}

/// One operation of a [`History`].
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded<Op, Ret> {
    /// The client that called it.
    pub client: ClientId,
    /// The operation.
    pub op: Op,
    /// The answer, if there was one.
    pub ret: Option<Ret>,
    invoked: usize,
    returned: usize,
}

impl<Op, Ret> Default for History<Op, Ret> {
    fn default() -> Self {
        History::new()
    }
}

impl<Op, Ret> History<Op, Ret> {
    /// A history without operations.
    #[must_use]
    pub fn new() -> Self {
        History { operations: Vec::new(), events: 0, configurations_max: 1_000_000 }
    }

    /// Gives up with [`Linearizability::Unknown`] after this many configurations: pairs of a set
    /// of operations and the state they lead to. A million unless changed.
    #[must_use]
    pub fn configurations_max(self, configurations_max: usize) -> Self {
        History { configurations_max, ..self }
    }

    /// Records that `client` calls `op`.
    pub fn invoke(&mut self, client: impl Into<ClientId>, op: Op) -> OpId {
        let (invoked, client) = (self.tick(), client.into());
        let recorded = Recorded { client, op, ret: None, invoked, returned: usize::MAX };
        self.operations.push(recorded);
        OpId(self.operations.len() - 1)
    }

    /// Records the answer to the operation.
    ///
    /// # Panics
    ///
    /// If it was answered before.
    pub fn complete(&mut self, id: OpId, ret: Ret) {
        let returned = self.tick();
        let operation = &mut self.operations[id.0];
        assert!(operation.ret.is_none(), "operation {} was answered twice", id.0);
        operation.ret = Some(ret);
        operation.returned = returned;
    }

    /// The record of an operation.
    #[must_use]
    pub fn get(&self, id: OpId) -> &Recorded<Op, Ret> {
        &self.operations[id.0]
    }

    /// The number of operations that were called.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if nothing was called.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn tick(&mut self) -> usize {
        self.events += 1;
        self.events
    }
}

/// Whether one order of the operations explains every answer.
#[must_use = "a violation is a value; look at it or call `assert_holds()`"]
#[derive(Clone, Debug, PartialEq)]
pub enum Linearizability<Ret> {
    /// Carrying out the operations in this order gives the answers that were given. Operations
    /// without an answer are left out if they need not have taken effect.
    Holds(Vec<OpId>),
    /// There is no such order.
    Violated(Violation<Ret>),
    /// The search was given up at a bound; whether there is an order is unknown.
    Unknown {
        /// The bound that was reached, see [`History::configurations_max`].
        configurations_max: usize,
    },
}

/// The reason why no order explains a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation<Ret> {
    /// Explains every answer that came before the one that does not fit. Empty if the bound was
    /// reached before one was found.
    pub order: Vec<OpId>,
    /// The operation whose answer came first among those that leave no order.
    pub misfit: OpId,
    /// The answers it could have had. Empty if there were too many cases to list.
    pub possible: Vec<Ret>,
    /// An explanation for a person to read.
    pub explanation: String,
}

impl<Ret> fmt::Display for Violation<Ret> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explanation)
    }
}

impl<Ret> Linearizability<Ret> {
    /// True if an order was found.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self, Linearizability::Holds(_))
    }

    /// The violation, if the history is known to have no order.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation<Ret>> {
        match self {
            Linearizability::Violated(violation) => Some(violation),
            Linearizability::Holds(_) | Linearizability::Unknown { .. } => None,
        }
    }

    /// # Panics
    ///
    /// Unless an order was found; the message says why.
    #[track_caller]
    pub fn assert_holds(&self) {
        assert!(self.holds(), "{self}");
    }
}

impl<Ret> fmt::Display for Linearizability<Ret> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Linearizability::Holds(order) => {
                write!(f, "an order explains {} operations", order.len())
            }
            Linearizability::Violated(violation) => violation.fmt(f),
            Linearizability::Unknown { configurations_max } => write!(
                f,
                "unknown: no order among {configurations_max} configurations; raise \
                 `configurations_max`, or split the object with `Model::part`"
            ),
        }
    }
}

impl<Op: Clone, Ret> History<Op, Ret> {
    /// Looks for an order of the operations that explains the answers and in which an operation
    /// that was answered before another was called comes before it (*linearizability*).
    ///
    /// The cost is exponential in the number of operations that overlap, not in the length of the
    /// history.
    pub fn check<M: Model<Op = Op, Ret = Ret>>(&self, model: &M) -> Linearizability<Ret> {
        let (mut orders, mut unknown) = (Vec::new(), None);
        let mut violations = Vec::new();
        for items in self.parts::<M>().into_values() {
            match self.search(model, &items, Order::RealTime) {
                Found::Order(order) => orders.push(points(&items, &order)),
                Found::Nothing { .. } => violations.push(self.blame(model, &items)),
                Found::Bounded => unknown = Some(self.bounded()),
            }
        }
        violations.sort_by_key(|violation| self.get(violation.misfit).returned);
        match violations.into_iter().next() {
            Some(violation) => Linearizability::Violated(violation),
            None => unknown.unwrap_or_else(|| Linearizability::Holds(merge(orders))),
        }
    }

    /// Looks for an order that explains the answers and in which only the operations of each
    /// client keep their order (*sequential consistency*).
    ///
    /// Weaker than [`check`](History::check): clients that do not talk to each other cannot tell
    /// the difference. Always judges the object as a whole, since parts that are sequentially
    /// consistent need not be so together. The misfit is the first operation that could not go on
    /// after the longest order found.
    pub fn check_sequential<M: Model<Op = Op, Ret = Ret>>(
        &self,
        model: &M,
    ) -> Linearizability<Ret> {
        let items = self.items();
        match self.search(model, &items, Order::Program) {
            Found::Order(order) => Linearizability::Holds(ids(&items, &order)),
            Found::Bounded => self.bounded(),
            Found::Nothing { longest, misfit } => {
                let mut state = model.clone();
                longest.iter().for_each(|at| drop(state.apply(items[*at].op)));
                let possible = vec![state.apply(items[misfit].op)];
                Linearizability::Violated(violation(model, &items, Some(longest), misfit, possible))
            }
        }
    }

    fn bounded(&self) -> Linearizability<Ret> {
        Linearizability::Unknown { configurations_max: self.configurations_max }
    }

    fn search<M>(&self, model: &M, items: &[Item<'_, M>], order: Order) -> Found
    where
        M: Model<Op = Op, Ret = Ret>,
    {
        search::search(model, items, order, self.configurations_max)
    }

    fn items<M: Model<Op = Op, Ret = Ret>>(&self) -> Vec<Item<'_, M>> {
        let item = |(at, operation)| Item::new(OpId(at), operation);
        self.operations.iter().enumerate().map(item).collect()
    }

    fn parts<M: Model<Op = Op, Ret = Ret>>(&self) -> BTreeMap<u64, Vec<Item<'_, M>>> {
        let mut parts: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for item in self.items::<M>() {
            parts.entry(M::part(item.op)).or_default().push(item);
        }
        parts
    }

    /// Finds the first answer that leaves no order. Every prefix of a linearizable history is
    /// linearizable, so halving finds it.
    fn blame<M>(&self, model: &M, items: &[Item<'_, M>]) -> Violation<Ret>
    where
        M: Model<Op = Op, Ret = Ret>,
    {
        let mut answers: Vec<usize> = items.iter().filter_map(Item::returned).collect();
        answers.sort_unstable();
        let fits = |until: usize| {
            let found = self.search(model, &search::cut(items, until), Order::RealTime);
            !matches!(found, Found::Nothing { .. })
        };
        // The last answer is known not to fit.
        let first = answers[..answers.len() - 1].partition_point(|until| fits(*until));
        let before = search::cut(items, answers[first] - 1);
        let order = match self.search(model, &before, Order::RealTime) {
            Found::Order(order) => Some(order),
            Found::Nothing { .. } | Found::Bounded => None,
        };
        let until = search::cut(items, answers[first]);
        let misfit = until.iter().position(|item| item.returned() == Some(answers[first]));
        let misfit = misfit.expect("an answer belongs to an operation");
        violation(model, &until, order, misfit, self.possible(model, &until))
    }

    /// The possible answers of the operation that was answered last.
    fn possible<M>(&self, model: &M, items: &[Item<'_, M>]) -> Vec<Ret>
    where
        M: Model<Op = Op, Ret = Ret>,
    {
        let mut frontier = Frontier::new(model.clone(), self.configurations_max);
        let mut slots = BTreeMap::new();
        for (at, answered) in search::events(items) {
            let item = &items[at];
            match answered {
                None => {
                    let slot = frontier.invoke(item.client, item.op.clone());
                    slots.insert(at, slot);
                    if item.answer.is_none() {
                        frontier.give_up(slot);
                    }
                }
                Some(ret) => match frontier.complete(slots[&at], ret) {
                    Ok(()) => {}
                    Err(Misfit::NoOrder { possible }) => return possible,
                    Err(Misfit::Bounded) => return Vec::new(),
                },
            }
        }
        Vec::new()
    }
}

fn ids<M: Model>(items: &[Item<'_, M>], order: &[usize]) -> Vec<OpId> {
    order.iter().map(|at| items[*at].id).collect()
}

fn violation<M: Model>(
    model: &M,
    items: &[Item<'_, M>],
    order: Option<Vec<usize>>,
    misfit: usize,
    possible: Vec<M::Ret>,
) -> Violation<M::Ret> {
    let explanation = explain(model, items, order.as_deref(), misfit, &possible);
    let order = ids(items, &order.unwrap_or_default());
    Violation { order, misfit: items[misfit].id, possible, explanation }
}

/// Gives each operation of an order a time at which it took effect: as early as the order lets it.
fn points<M: Model>(items: &[Item<'_, M>], order: &[usize]) -> Vec<(usize, OpId)> {
    let mut now = 0;
    let point = |at: &usize| {
        now = now.max(items[*at].invoked);
        (now, items[*at].id)
    };
    order.iter().map(point).collect()
}

/// Merges the orders of the parts into one (linearizability is a local property: Herlihy and Wing,
/// 1990, theorem 1). The sort is stable, so operations of one part keep their order.
fn merge(orders: Vec<Vec<(usize, OpId)>>) -> Vec<OpId> {
    let mut all: Vec<(usize, OpId)> = orders.into_iter().flatten().collect();
    all.sort_by_key(|(point, _)| *point);
    all.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests;
