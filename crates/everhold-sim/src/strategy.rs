//! Strategies, which decide what happens next. Each is one file; none of them executes anything.

mod delay;
mod exhaustive;
mod guided;
mod pct;
mod points;
mod pos;
mod random;
mod replay;
mod scheduler;
pub(crate) mod script;

use std::fmt;
use std::sync::Arc;

use everhold_node::disk::{DiskFault, Upset};
use everhold_node::{NodeId, Weights};

use crate::fault::Fault;
use crate::moves::{Move, Moves};

pub use exhaustive::ExhaustiveProgress;

pub(crate) use delay::Delay;
pub(crate) use exhaustive::Exhaustive;
pub(crate) use guided::Guided;
pub(crate) use pct::Pct;
pub(crate) use points::FaultPoints;
pub(crate) use pos::Pos;
pub(crate) use random::Random;
pub(crate) use replay::{RawReplay, Replay, Trail, same_timer};
pub(crate) use scheduler::Scheduler;

/// Decides what happens next; never executes anything itself.
///
/// It is internal: the questions that it is asked, and their order, change with the explorer. A
/// search is chosen with [`Search`].
pub(crate) trait Strategy {
    /// Begins a new execution.
    fn begin(&mut self, run: &Run);

    /// Picks one of the moves, of which there is at least one, or a fault. `None` ends the
    /// execution.
    ///
    /// `about` gives details of moves that most strategies do not need.
    fn pick(&mut self, moves: &Moves, about: &dyn About) -> Option<u32>;

    /// Picks a fault when nothing can happen, but a node may still crash and restart, or a
    /// connection break; `None` picks none.
    fn at_quiet(&mut self, moves: &Moves, about: &dyn About) -> Option<u32> {
        let _ = (moves, about);
        None
    }

    /// Answers a node's [`choose`](everhold_node::Cx::choose). `None` means the first possibility.
    fn choose(&mut self, node: NodeId, label: &str, domain: u32) -> Option<u32>;

    /// Answers a node's [`choose_weighted`](everhold_node::Cx::choose_weighted). `None` means the
    /// first possible option. By default, an answer to `choose` is used as a ticket of the lottery.
    fn choose_weighted(&mut self, node: NodeId, label: &str, weights: Weights<'_>) -> Option<u32> {
        let ticket = self.choose(node, label, weights.total())?;
        Some(weights.option_with(ticket))
    }

    /// Decides whether a fault strikes when an event begins to use its node's disk: one of these,
    /// and at which operation. The number of operations to come is unknown.
    fn upset(&mut self, node: NodeId, faults: &[DiskFault]) -> Option<Upset> {
        let _ = (node, faults);
        None
    }

    /// Tells the strategy that the event for which [`upset`](Strategy::upset) was asked had this
    /// many operations, up to the one at which a fault struck, if one did.
    fn disk_used(&mut self, operations: u32, faults: &[DiskFault], struck: bool) {
        let _ = (operations, faults, struck);
    }

    /// Whether the strategy needs [`Moves::fresh`] and [`Moves::at_node`]; they cost a little.
    fn tracks_nodes(&self) -> bool {
        false
    }

    /// The next fact about the clocks of a real execution; asked before each pick when one is
    /// replayed.
    fn follow(&mut self) -> Option<Followed> {
        None
    }

    /// Whether the strategy repeats an execution, its fair tail included.
    fn is_replay(&self) -> bool {
        false
    }

    /// Whether to continue with the fair tail instead of ending; asked after `pick` gave `None`.
    fn wants_tail(&mut self) -> bool {
        false
    }

    /// Tells an exhaustive search that the step that was picked is done, and that these moves are
    /// possible now. False ends the execution.
    fn after(&mut self, step: &Done, moves: &Moves) -> bool {
        let _ = (step, moves);
        true
    }

    /// For a search that goes back: the number of leading choices that the next execution shares
    /// with the last, or `None` if there is no next one.
    fn shared_prefix(&mut self) -> Option<usize> {
        Some(0)
    }

    /// For a search that goes back: the execution continues after its first `choices` choices.
    fn rewind(&mut self, choices: usize) {
        let _ = choices;
    }

    /// For a search that can end: its progress.
    fn progress(&self) -> Option<ExhaustiveProgress> {
        None
    }
}

/// The number under which an answer to [`Strategy::upset`] is logged; zero stands for none.
pub(crate) fn number_of(upset: Option<&Upset>, faults: &[DiskFault]) -> u32 {
    let Some(Upset::At(operation, fault)) = upset else { return 0 };
    let place = faults.iter().position(|offered| offered == fault).unwrap_or(0) as u32;
    1 + operation * faults.len() as u32 + place
}

/// The answer with this number.
pub(crate) fn upset_of(number: u32, faults: &[DiskFault]) -> Option<Upset> {
    let number = number.checked_sub(1)?;
    let count = faults.len() as u32;
    Some(Upset::At(number / count, faults[(number % count) as usize]))
}

/// A fact about the clocks of a real execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// A node's clock shows at least this, in nanoseconds.
    Clock(NodeId, u64),
    /// This timer of a node fires next, late or not.
    Timer(NodeId, String),
}

/// The details by which a replay recognises moves.
pub(crate) trait About {
    /// The sort of message that a delivery brings; empty for other moves.
    fn kind(&self, offered: &Move) -> &'static str;
    /// The text of the timer that would fire next at a node.
    fn timer(&self, node: NodeId) -> Option<String>;
    /// The other end of the connection whose end a move announces.
    fn peer(&self, offered: &Move) -> Option<NodeId>;
    /// Whether a message of this sort is under way between two nodes, deliverable or not.
    fn is_under_way(&self, from: NodeId, to: NodeId, kind: &str) -> bool;
    /// The number of messages that a node has sent.
    fn sent(&self, node: NodeId) -> u32;
    /// The pick of a fault, if it can be injected now.
    fn fault(&self, fault: &Fault) -> Option<u32>;
}

/// The information that a strategy may have before an execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The seed of the strategy's decisions.
    pub(crate) seed: u64,
    /// The number of steps over which faults and changes of priority are spread, at least one: as
    /// many as the longest of the earlier executions had, or fewer.
    pub(crate) steps: u32,
    /// The largest number of faults that may be injected.
    pub(crate) faults: u32,
    /// Choices of an earlier execution to which it is worth going back.
    pub(crate) parent: Option<Arc<[u32]>>,
}

/// The effect of a step, for strategies that watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Whether it notified a monitor, so that its order among such steps matters.
    pub(crate) notified: bool,
    /// The hash of the whole state after it.
    pub(crate) fingerprint: u64,
    /// The number of steps of the execution so far.
    pub(crate) depth: u32,
}

/// The way of searching.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// All randomised strategies, weighted by the number of new orders that each finds; random
    /// keeps a fifth. The default.
    Portfolio,
    /// Uniform choice among the possible moves; timers one time in eight.
    Random,
    /// Priorities over nodes with `depth - 1` changes (Burckhardt et al., ASPLOS 2010).
    Pct {
        /// The number of ordering constraints a bug may need.
        depth: u32,
    },
    /// Priorities over messages, drawn again where two race (Yuan et al., CAV 2018).
    Pos,
    /// One node runs as long as it can; `delays` times the next one is preferred.
    Delay {
        /// The number of deviations.
        delays: u32,
    },
    /// Goes back into executions that showed something new and continues differently.
    Guided,
    /// Every execution within the bounds.
    Exhaustive {
        /// The equivalent executions that are left out.
        reduction: Reduction,
    },
}

/// The part that an exhaustive search leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduction {
    /// `Orders` where that is sound, otherwise `States`.
    Auto,
    /// Nothing: every order of steps.
    None,
    /// Continuations of states seen before.
    States,
    /// Orders of independent steps: those at different nodes. Keeps every state of every single
    /// node and every final state, but not every combination of states, so a property over
    /// several nodes can be missed; with such properties `Auto` does not use it.
    Orders,
}

impl Reduction {
    /// Resolves `Auto`.
    pub(crate) fn sound(self, orders_are_sound: bool) -> Reduction {
        match self {
            Reduction::Auto if orders_are_sound => Reduction::Orders,
            Reduction::Auto => Reduction::States,
            told => told,
        }
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Search::Portfolio => f.write_str("portfolio"),
            Search::Random => f.write_str("random"),
            Search::Pct { depth } => write!(f, "pct-{depth}"),
            Search::Pos => f.write_str("pos"),
            Search::Delay { delays } => write!(f, "delay-{delays}"),
            Search::Guided => f.write_str("guided"),
            Search::Exhaustive { .. } => f.write_str("exhaustive"),
        }
    }
}

impl Search {
    /// A strategy of this sort; a portfolio consists of several and has none of its own.
    pub(crate) fn strategy(&self) -> Box<dyn Strategy> {
        match self {
            Search::Portfolio => unreachable!("a portfolio is taken apart before it runs"),
            Search::Random => Box::new(Random::default()),
            Search::Pct { depth } => Box::new(Pct::new(*depth)),
            Search::Pos => Box::new(Pos::default()),
            Search::Delay { delays } => Box::new(Delay::new(*delays)),
            Search::Guided => Box::new(Guided::default()),
            Search::Exhaustive { reduction } => Box::new(Exhaustive::new(*reduction)),
        }
    }
}
