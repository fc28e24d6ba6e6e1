//! Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010), over nodes.
//!
//! The node with the highest priority among those that have a move takes one; at `depth - 1` random
//! steps the running node falls to the bottom. A bug of depth d is met with probability at least 1
//! / (n k^(d-1)) for n nodes and k steps.
//!
//! Where we differ: a node's messages and its timers are two threads with priorities of their own,
//! and a timer thread that ran goes to the bottom, because a periodic timer on top would never let
//! another thread run. Among a node's messages, the oldest comes first in half of the executions,
//! and a random one in the others: the network is not ordered.

use everhold_node::NodeId;

use crate::moves::{Move, Moves};
use crate::rng::Rng;
use crate::strategy::{FaultPoints, Run, Scheduler};

/// Priorities over nodes, with a few changes.
#[derive(Debug)]
pub(crate) struct Pct {
    depth: u32,
    rng: Rng,
    faults: FaultPoints,
    /// The priority of each thread; zero if it is not drawn yet.
    priorities: Vec<u64>,
    /// Threads that may have a move, by priority, highest last. Threads without one stay until
    /// they are met; a thread is listed once.
    queue: std::collections::BinaryHeap<(u64, u32)>,
    listed: Vec<bool>,
    /// The steps at which priorities change; the next one is last.
    changes: Vec<u32>,
    step: u32,
    /// Counts down, so that each demotion is below all before.
    bottom: u64,
    oldest_first: bool,
}

/// Priorities drawn at the beginning lie above those of demoted threads.
const DRAWN: u64 = 1 << 40;

impl Pct {
    /// A strategy for bugs that need up to `depth` ordering constraints.
    #[must_use]
    pub(crate) fn new(depth: u32) -> Self {
        Pct {
            depth: depth.max(1),
            rng: Rng::new(0),
            faults: FaultPoints::default(),
            priorities: Vec::new(),
            queue: std::collections::BinaryHeap::new(),
            listed: Vec::new(),
            changes: Vec::new(),
            step: 0,
            bottom: DRAWN,
            oldest_first: true,
        }
    }

    fn list(&mut self, thread: u32) {
        let at = thread as usize;
        if self.priorities.len() <= at {
            self.priorities.resize(at + 1, 0);
            self.listed.resize(at + 1, false);
        }
        if self.priorities[at] == 0 {
            self.priorities[at] = DRAWN + (self.rng.next() >> 24);
        }
        if !self.listed[at] {
            self.listed[at] = true;
            self.queue.push((self.priorities[at], thread));
        }
    }

    fn demote(&mut self, thread: u32) {
        self.bottom -= 1;
        self.priorities[thread as usize] = self.bottom;
    }

    /// The pick of the highest thread that has a move, and the thread.
    fn highest(&mut self, moves: &Moves) -> Option<(u32, u32)> {
        while let Some(&(priority, thread)) = self.queue.peek() {
            let at = thread as usize;
            if self.priorities[at] != priority {
                self.queue.pop();
                self.queue.push((self.priorities[at], thread));
            } else if let Some(pick) = self.of_thread(moves, thread) {
                return Some((pick, thread));
            } else {
                self.queue.pop();
                self.listed[at] = false;
            }
        }
        None
    }

    fn of_thread(&mut self, moves: &Moves, thread: u32) -> Option<u32> {
        let mine = |(_, offered): &(u32, &Move)| thread_of(offered) == thread;
        let mut all = moves.at_node(NodeId(thread / 2)).filter(mine);
        let (slot, offered) = if self.oldest_first {
            all.min_by_key(|(_, offered)| (offered.born, offered.id))?
        } else {
            let first = all.next()?;
            let more = moves.at_node(NodeId(thread / 2)).filter(mine).count() as u32;
            let number = if more == 1 { 0 } else { self.rng.below(more) };
            moves.at_node(NodeId(thread / 2)).filter(mine).nth(number as usize).unwrap_or(first)
        };
        moves.pick_of(slot, offered.id)
    }
}

fn thread_of(offered: &Move) -> u32 {
    offered.node.0 * 2 + u32::from(offered.what.is_idle())
}

impl Scheduler for Pct {
    fn begin(&mut self, run: &Run) {
        self.rng = Rng::new(run.seed);
        self.faults.begin(run, &mut self.rng);
        self.priorities.clear();
        self.listed.clear();
        self.queue.clear();
        self.changes.clear();
        let (rng, steps) = (&mut self.rng, run.steps.max(1));
        self.changes.extend((1..self.depth).map(|_| rng.below(steps) + 1));
        self.changes.sort_unstable_by(|a, b| b.cmp(a));
        self.step = 0;
        self.bottom = DRAWN;
        self.oldest_first = self.rng.one_in(2);
    }

    fn pick(&mut self, moves: &Moves) -> Option<u32> {
        self.step += 1;
        for (_, offered) in moves.fresh() {
            self.list(thread_of(offered));
        }
        if let Some(fault) = self.faults.due(moves, &mut self.rng) {
            return Some(fault);
        }
        let (mut pick, mut thread) = self.highest(moves)?;
        while self.changes.last().is_some_and(|at| *at <= self.step) {
            self.changes.pop();
            self.demote(thread);
            (pick, thread) = self.highest(moves)?;
        }
        if thread % 2 == 1 {
            self.demote(thread);
        }
        Some(pick)
    }

    fn chance(&mut self) -> (&mut FaultPoints, &mut Rng) {
        (&mut self.faults, &mut self.rng)
    }
}
