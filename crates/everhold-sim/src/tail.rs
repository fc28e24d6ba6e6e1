//! The fair end of an execution, in which progress is judged.
//!
//! There are no more faults, messages that were held back are released, and virtual time passes for
//! all nodes alike. Every message under way arrives after an exponentially distributed time whose
//! mean is a small share of the shortest timer, so everything that a tick caused, however much, is
//! over long before the next tick of that node. Timers fire in the order of their deadlines, so
//! periods keep their proportion and a random timeout is as random as its node drew it. Messages
//! that go to and fro for ever take time as well: no timer waits for them to end.
//!
//! The passage of time depends only on the steps that are taken, not on what picked them, so a
//! replay sees the same clocks.

use everhold_node::{Message, NodeId};

use crate::env::{Env, State};
use crate::moves::What;
use crate::rng::Rng;

/// The ratio of the shortest timer to the mean time of a message under way.
const LATENCY_SHARE: f64 = 64.0;
/// The mean time of a message under way in a system that never set a timer, in nanoseconds.
const LATENCY_WITHOUT_TIMERS: f64 = 1e6;
/// While messages arrive, the clocks advance only once this many mean times have passed. In between
/// they stand still, so that states recur although messages take random times.
const LATENCIES_A_TICK: f64 = 16.0;
/// The smallest number of periods of the longest timer, and of rounds through the same state, after
/// which progress is taken to be owed for ever. A correct system whose luck turns in one of six is
/// still unlucky after these with a probability of 1e-10.
const PERIODS_MIN: u32 = 128;
/// The same number for each node: among many nodes luck turns more rarely.
const PERIODS_A_NODE: u32 = 8;

/// The number of periods, or rounds, after which progress is taken to be owed for ever.
pub(crate) fn periods(nodes: usize) -> u32 {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    PERIODS_MIN.max(PERIODS_A_NODE.saturating_mul(nodes))
}

/// The time of a fair tail.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) rng: Rng,
    /// Virtual time since the tail began, in nanoseconds.
    pub(crate) time: f64,
    /// Time that the clocks do not show yet.
    pending: f64,
    /// The longest timer that was set or pending in the tail, in nanoseconds.
    pub(crate) longest: u64,
}

impl Tail {
    pub(crate) fn new<M: Message>(rng: Rng, state: &State<M>) -> Tail {
        let nodes = state.nodes.iter();
        let waits = nodes.flat_map(|node| node.timers.iter().map(|t| node.wait(t.deadline)));
        Tail { rng, time: 0.0, pending: 0.0, longest: waits.max().unwrap_or(0) }
    }

    /// Whether every timer had its turn this many times since this time.
    pub(crate) fn is_long(&self, since: f64, latency: f64, periods: u32) -> bool {
        self.time - since >= f64::from(periods) * (self.longest as f64).max(2.0 * latency)
    }

    /// The pick of the next step.
    pub(crate) fn pick<M: Message>(&mut self, state: &State<M>) -> u32 {
        let (ready, idle) = (state.moves.ready(), state.moves.idle());
        if idle == 0 {
            return self.rng.below(ready);
        }
        let wait = |pick: u32| wait_of(state, ready + pick);
        let next = (0..idle).map(wait).min().unwrap_or(0);
        if ready > 0 && next as f64 > self.pending {
            return self.rng.below(ready);
        }
        // Timers whose time has come, and messages as well: either may be first.
        let due = (0..idle).filter(|pick| wait(*pick) <= next.max(self.pending as u64));
        let chosen = self.rng.below(ready + due.clone().count() as u32);
        match chosen.checked_sub(ready) {
            Some(number) => ready + due.clone().nth(number as usize).expect("it was counted"),
            None => chosen,
        }
    }
}

/// The time for which an idle move has to wait, in nanoseconds; crashed nodes restart at once.
fn wait_of<M: Message>(state: &State<M>, pick: u32) -> u64 {
    let offered = state.moves.get(pick);
    match offered.what {
        What::Timer => state.next_wait(offered.node).unwrap_or(0),
        _ => 0,
    }
}

impl<M: Message> Env<M> {
    /// The mean time that a message is under way in the tail, in nanoseconds.
    pub(crate) fn latency(&self) -> f64 {
        match self.state.shortest_timer {
            0 => LATENCY_WITHOUT_TIMERS,
            shortest => shortest as f64 / LATENCY_SHARE,
        }
    }

    /// The time for which a timer without length waits, in nanoseconds. In the tail it is not zero:
    /// a node that sets such a timer again and again would stop the time of all others.
    pub(crate) fn at_once(&self) -> u64 {
        self.tail.as_ref().map_or(0, |_| (self.latency() as u64).max(1))
    }

    /// Whether the tail lasted for this many periods of the longest timer since this time in it.
    pub(crate) fn is_long_tail(&self, since: f64, periods: u32) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.is_long(since, self.latency(), periods))
    }

    /// Lets time pass in the tail, before something happens at a node.
    pub(crate) fn pass_time(&mut self, node: NodeId, what: What) {
        let (latency, ready) = (self.latency(), self.state.moves.ready());
        let wait = self.state.next_wait(node).filter(|_| what == What::Timer);
        let Some(tail) = &mut self.tail else { return };
        let on = match (wait, what) {
            (Some(wait), _) => {
                tail.time += (wait as f64 - tail.pending).max(0.0);
                tail.pending = (tail.pending - wait as f64).max(0.0);
                wait
            }
            (None, What::Deliver(_) | What::Poll(_)) => {
                tail.time += latency / f64::from(ready.max(1));
                tail.pending += latency / f64::from(ready.max(1));
                let on =
                    if tail.pending >= LATENCIES_A_TICK * latency { tail.pending } else { 0.0 };
                tail.pending -= on.floor();
                on as u64
            }
            _ => 0,
        };
        if on > 0 {
            self.state.nodes.iter_mut().for_each(|node| node.go_on(on));
        }
    }
}
