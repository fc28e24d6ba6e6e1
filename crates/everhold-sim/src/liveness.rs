//! Going round for ever: a state that comes back while progress is owed.
//!
//! An execution that returns to a state it was in can repeat what it did in between for ever.
//! That is a violation only if the repetition is fair: whatever was possible at some point of the
//! round also happened in it. A round in which a node drew or chose is not counted, since other
//! answers were possible.

use std::collections::BTreeMap;

use everhold_node::fingerprint::{hash, mix};
use everhold_node::{Message, NodeId, Timer};

use crate::env::{State, node_id};
use crate::moves::{Move, What};
use crate::world::World;

/// Watches the fair tail for a round.
#[derive(Debug, Default)]
pub(crate) struct Lasso {
    /// Where each state was first seen since the last choice of a value.
    seen: BTreeMap<u64, usize>,
    /// What was possible before each step, and what happened in it.
    possible: Vec<Vec<u64>>,
    happened: Vec<u64>,
    first_step: usize,
}

impl Lasso {
    /// Looks at the present state; gives the steps between which the execution goes round.
    pub(crate) fn look<M: Message>(&mut self, world: &World<M>) -> Option<(usize, usize)> {
        let fingerprint = world.fingerprint();
        let env = world.env.borrow();
        let step = env.state.step as usize;
        if self.possible.is_empty() {
            self.first_step = step;
        } else {
            self.happened.push(env.state.last_move);
        }
        if env.chose {
            self.forget(step);
        }
        let here = self.possible.len();
        let round = match self.seen.get(&fingerprint) {
            Some(&before) if self.is_fair(before) => {
                Some((self.first_step + before, self.first_step + here))
            }
            Some(_) => None,
            None => {
                self.seen.insert(fingerprint, here);
                None
            }
        };
        self.possible.push(possible(&env.state));
        round
    }

    fn forget(&mut self, step: usize) {
        self.seen.clear();
        self.possible.clear();
        self.happened.clear();
        self.first_step = step;
    }

    fn is_fair(&self, from: usize) -> bool {
        let happened = &self.happened[from..];
        self.possible[from..].iter().flatten().all(|possible| happened.contains(possible))
    }
}

/// Everything that could happen, timers that are not next at their node included: they will be.
fn possible<M: Message>(state: &State<M>) -> Vec<u64> {
    let mut names: Vec<u64> = state.moves.iter().map(|offered| name(state, offered)).collect();
    for (index, node) in state.nodes.iter().enumerate() {
        names.extend(node.timers.iter().map(|armed| timer_name(node_id(index), armed.timer)));
    }
    names
}

fn timer_name(node: NodeId, timer: Timer) -> u64 {
    mix(mix(3, u64::from(node.0)), hash(&(timer.name, timer.id)))
}

/// What a move is, without the numbers that grow for ever: content, not identity.
pub(crate) fn name<M: Message>(state: &State<M>, offered: &Move) -> u64 {
    let node = u64::from(offered.node.0);
    match offered.what {
        What::Deliver(index) => {
            let flight = &state.flights[index as usize];
            mix(mix(1, node), mix(u64::from(flight.from.0), hash(&flight.msg)))
        }
        What::Poll(task) => mix(mix(2, node), u64::from(task.0)),
        What::Timer => {
            let next = state.next_timer(offered.node).expect("a timer that is offered is set");
            timer_name(offered.node, next)
        }
        What::Restart => mix(4, node),
        What::Heal => 5,
    }
}
