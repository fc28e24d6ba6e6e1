//! The search for endless rounds: states that recur while progress is owed.
//!
//! A state here is the whole state: nodes, disks, monitors, messages under way, and every timer
//! with the time for which it still has to wait. An execution that returns to a state can repeat
//! the steps in between for ever; these steps are a *round*. That is a violation only if the
//! repetition is fair: everything that was possible at some point of the round also happened in it.
//! A round in which a node drew, chose or looked at its clock is not counted, since it could
//! continue differently.

use std::collections::BTreeSet;

use everhold_node::fingerprint::{hash, mix};
use everhold_node::{Message, NodeId, Timer};

use crate::env::{State, node_id};
use crate::moves::{Move, What};
use crate::world::World;

/// States are compared where at most this many moves are possible, and where only timers are left.
const MOVES_MAX: u32 = 64;
/// A state that did not recur within this many steps is given up.
const ROUND_MAX: usize = 20_000;

/// Watches the fair tail for a round.
#[derive(Debug, Default)]
pub(crate) struct Lasso {
    /// States since a node last drew, chose or looked at its clock.
    seen: BTreeSet<u64>,
    anchor: Option<Anchor>,
    /// The number of times that a state recurred, fairly.
    pub(crate) rounds: u32,
    /// The shortest round, by the steps before and after it.
    pub(crate) shortest: Option<(usize, usize)>,
}

/// A state that occurred twice, whose next occurrence is awaited.
#[derive(Debug)]
struct Anchor {
    state: u64,
    step: usize,
    /// Nothing was under way, so a round also ended everything that it began.
    quiet: bool,
    possible: BTreeSet<u64>,
    happened: BTreeSet<u64>,
}

impl Lasso {
    /// Examines the present state.
    pub(crate) fn look<M: Message>(&mut self, world: &World<M>) {
        let env = world.env.borrow();
        let state = &env.state;
        let step = state.step as usize;
        if env.chose || env.timed.get() {
            self.seen.clear();
            self.anchor = None;
        }
        if let Some(anchor) = self.anchor.as_mut().filter(|anchor| !anchor.quiet) {
            anchor.happened.insert(state.last_move);
        }
        if state.moves.ready() == 0 || state.moves.len() <= MOVES_MAX {
            let fingerprint = mix(world.fingerprint_in(state), state.waits());
            self.compare(fingerprint, step, state);
        }
        if let Some(anchor) = self.anchor.as_mut().filter(|anchor| !anchor.quiet) {
            anchor.possible.extend(possible(state));
        }
    }

    fn compare<M: Message>(&mut self, fingerprint: u64, step: usize, state: &State<M>) {
        match &self.anchor {
            Some(anchor) if anchor.state == fingerprint && anchor.is_fair() => {
                let round = (anchor.step, step);
                self.rounds += 1;
                // The shortest round is the easiest to follow.
                let known = self.shortest.into_iter();
                self.shortest = known.chain([round]).min_by_key(|(from, to)| to - from);
            }
            Some(anchor) if step - anchor.step > ROUND_MAX => {
                self.seen.clear();
                self.anchor = None;
                return;
            }
            Some(_) => return,
            None if self.seen.insert(fingerprint) => return,
            None => {}
        }
        let guarded = state.nodes.iter().any(|node| node.tracked);
        self.anchor = Some(Anchor {
            state: fingerprint,
            step,
            quiet: state.moves.ready() == 0 && !guarded,
            possible: BTreeSet::new(),
            happened: BTreeSet::new(),
        });
    }
}

impl Anchor {
    fn is_fair(&self) -> bool {
        self.quiet || self.possible.is_subset(&self.happened)
    }
}

/// Everything that could happen, including timers that are not the next ones of their node: they
/// will be.
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

/// The name of a move without the numbers that grow for ever: it describes content, not identity.
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
        What::Disconnected(index) => {
            mix(mix(6, node), u64::from(state.flights[index as usize].from.0))
        }
    }
}
