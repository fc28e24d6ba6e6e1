//! The search for an order: the depth-first search of Wing and Gong (*Testing and verifying
//! concurrent objects*, 1993) with Lowe's memoisation (*Testing for linearizability*, 2017): a set
//! of operations that led to a state once need not be examined again.
//!
//! Unlike Lowe's, it keeps a hash of the set instead of the set, which is as safe as the hash of
//! the state next to it.

use std::collections::BTreeSet;

use everhold_node::fingerprint::{hash, mix};

use super::{ClientId, Model, OpId, Recorded};

/// An operation as the search sees it.
pub(super) struct Item<'a, M: Model> {
    pub(super) id: OpId,
    pub(super) client: ClientId,
    pub(super) op: &'a M::Op,
    pub(super) invoked: usize,
    pub(super) answer: Option<(usize, &'a M::Ret)>,
}

impl<'a, M: Model> Item<'a, M> {
    pub(super) fn new(id: OpId, from: &'a Recorded<M::Op, M::Ret>) -> Self {
        let answer = from.ret.as_ref().map(|ret| (from.returned, ret));
        Item { id, client: from.client, op: &from.op, invoked: from.invoked, answer }
    }

    pub(super) fn returned(&self) -> Option<usize> {
        self.answer.map(|(returned, _)| returned)
    }

    /// The time of the answer; later than everything if there was none.
    fn deadline(&self) -> usize {
        self.returned().unwrap_or(usize::MAX)
    }
}

/// The history as it was known at a time: later calls are left out, later answers are unknown.
pub(super) fn cut<'a, M: Model>(items: &[Item<'a, M>], until: usize) -> Vec<Item<'a, M>> {
    let known = items.iter().filter(|item| item.invoked <= until);
    let item = |item: &Item<'a, M>| Item {
        answer: item.answer.filter(|(returned, _)| *returned <= until),
        ..*item
    };
    known.map(item).collect()
}

/// Calls and answers in the order in which they happened.
pub(super) fn events<'a, M: Model>(items: &[Item<'a, M>]) -> Vec<(usize, Option<&'a M::Ret>)> {
    let calls = items.iter().enumerate().map(|(at, item)| (item.invoked, at, None));
    let answers = items
        .iter()
        .enumerate()
        .filter_map(|(at, item)| item.answer.map(|(returned, ret)| (returned, at, Some(ret))));
    let mut events: Vec<_> = calls.chain(answers).collect();
    events.sort_by_key(|(time, ..)| *time);
    events.into_iter().map(|(_, at, ret)| (at, ret)).collect()
}

/// The operations that must keep their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Those of which one was answered before the other was called.
    RealTime,
    /// Those of the same client.
    Program,
}

pub(super) enum Found {
    /// Positions of operations; every answered one is among them.
    Order(Vec<usize>),
    /// All configurations were visited.
    Nothing {
        /// The longest order found; only kept in program order.
        longest: Vec<usize>,
        /// An operation that could come next by its place, but whose answer does not fit.
        misfit: usize,
    },
    Bounded,
}

pub(super) fn search<M: Model>(
    model: &M,
    items: &[Item<'_, M>],
    order: Order,
    configurations_max: usize,
) -> Found {
    let mut search = Search {
        items,
        order,
        done: vec![false; items.len()],
        done_hash: 0,
        missing: items.iter().filter(|item| item.answer.is_some()).count(),
        visited: BTreeSet::new(),
        longest: Vec::new(),
    };
    search.run(model, configurations_max)
}

struct Search<'s, 'a, M: Model> {
    /// In order of invocation.
    items: &'s [Item<'a, M>],
    order: Order,
    done: Vec<bool>,
    /// The sum of the hashes of the done operations; a sum, so that a hash can be taken back.
    done_hash: u64,
    /// The number of answered operations that are not done.
    missing: usize,
    visited: BTreeSet<(u64, u64)>,
    longest: Vec<usize>,
}

/// A point on the path from the first state.
struct Frame<M> {
    state: M,
    state_hash: u64,
    /// The operations before this one are all done.
    first: usize,
    /// The operations that may come next; they are tried from the last to the first.
    ready: Vec<usize>,
    /// The operation that led here; none at the root.
    by: Option<usize>,
}

impl<M: Model> Search<'_, '_, M> {
    fn run(&mut self, model: &M, configurations_max: usize) -> Found {
        let mut path = vec![self.frame(model.clone(), hash(model), 0, None)];
        while self.missing > 0 {
            if self.visited.len() >= configurations_max {
                return Found::Bounded;
            }
            let Some(frame) = path.last_mut() else { return self.nothing() };
            match frame.ready.pop() {
                Some(at) => {
                    if let Some((state, state_hash)) = self.try_next(frame, at) {
                        let first = frame.first;
                        self.mark(at, state_hash);
                        path.push(self.frame(state, state_hash, first, Some(at)));
                        self.keep_longest(&path);
                    }
                }
                None => self.back(&mut path),
            }
        }
        Found::Order(order_of(&path))
    }

    fn frame(&self, state: M, state_hash: u64, first: usize, by: Option<usize>) -> Frame<M> {
        let first = first + self.done[first..].iter().take_while(|done| **done).count();
        let mut ready = match self.order {
            Order::RealTime => self.ready_in_time(first),
            Order::Program => self.ready_in_program(first),
        };
        // Those that must be done soonest are tried first, those without an answer last.
        ready.sort_by_key(|at| std::cmp::Reverse(self.items[*at].deadline()));
        Frame { state, state_hash, first, ready, by }
    }

    /// Operations that were called before any answer to an operation that is not done.
    fn ready_in_time(&self, first: usize) -> Vec<usize> {
        let mut deadline = usize::MAX;
        let mut ready = Vec::new();
        for (at, item) in self.items.iter().enumerate().skip(first) {
            if item.invoked > deadline {
                break;
            }
            if !self.done[at] {
                deadline = deadline.min(item.deadline());
                ready.push(at);
            }
        }
        ready
    }

    /// Operations before which their client has no answered operation that is not done.
    fn ready_in_program(&self, first: usize) -> Vec<usize> {
        let mut busy = BTreeSet::new();
        let mut ready = Vec::new();
        for (at, item) in self.items.iter().enumerate().skip(first) {
            if self.done[at] || busy.contains(&item.client) {
                continue;
            }
            ready.push(at);
            if item.answer.is_some() {
                busy.insert(item.client);
            }
        }
        ready
    }

    /// The state after an operation, if its answer fits and the configuration was not visited
    /// before.
    fn try_next(&self, frame: &Frame<M>, at: usize) -> Option<(M, u64)> {
        let mut state = frame.state.clone();
        let ret = state.apply(self.items[at].op);
        let state_hash = hash(&state);
        match self.items[at].answer {
            Some((_, expected)) if *expected != ret => return None,
            // Without an answer and without effect: leaving it out is equivalent.
            None if state_hash == frame.state_hash => return None,
            _ => {}
        }
        let key = (self.done_hash.wrapping_add(mix(at as u64, 1)), state_hash);
        (!self.visited.contains(&key)).then_some((state, state_hash))
    }

    fn mark(&mut self, at: usize, state_hash: u64) {
        self.done[at] = true;
        self.done_hash = self.done_hash.wrapping_add(mix(at as u64, 1));
        self.missing -= usize::from(self.items[at].answer.is_some());
        self.visited.insert((self.done_hash, state_hash));
    }

    fn back(&mut self, path: &mut Vec<Frame<M>>) {
        let Some(at) = path.pop().and_then(|frame| frame.by) else { return };
        self.done[at] = false;
        self.done_hash = self.done_hash.wrapping_sub(mix(at as u64, 1));
        self.missing += usize::from(self.items[at].answer.is_some());
    }

    /// Keeps the longest path, in program order. In real time, the first answer that leaves no
    /// order says more, and bisection finds it.
    fn keep_longest(&mut self, path: &[Frame<M>]) {
        if self.order == Order::Program && path.len() > self.longest.len() + 1 {
            self.longest = order_of(path);
        }
    }

    fn nothing(&mut self) -> Found {
        let longest = std::mem::take(&mut self.longest);
        for at in &longest {
            self.done[*at] = true;
        }
        let ready = match self.order {
            Order::RealTime => self.ready_in_time(0),
            Order::Program => self.ready_in_program(0),
        };
        let stuck = ready.into_iter().filter(|at| self.items[*at].answer.is_some());
        let misfit = stuck.min_by_key(|at| self.items[*at].deadline());
        Found::Nothing { longest, misfit: misfit.expect("an order without misfit is complete") }
    }
}

fn order_of<M>(path: &[Frame<M>]) -> Vec<usize> {
    path.iter().filter_map(|frame| frame.by).collect()
}
