//! Who decides what happens next. Each strategy is one file; none of them executes anything.

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

pub use exhaustive::Progress;

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
/// It is internal: what it may ask, and in which order it is asked, changes with the explorer. A search is
/// chosen with [`Search`].
pub(crate) trait Strategy {
    /// A new execution begins.
    fn begin(&mut self, run: &Run);

    /// Picks one of the moves, which are never none, or a fault. `None` ends the execution.
    ///
    /// `about` tells more of a move than most strategies want to know.
    fn pick(&mut self, moves: &Moves, about: &dyn About) -> Option<u32>;

    /// Nothing can happen, but a node may still crash and come back, or a connection break. The pick of such a fault, or
    /// `None` to leave it at that.
    fn at_quiet(&mut self, moves: &Moves, about: &dyn About) -> Option<u32> {
        let _ = (moves, about);
        None
    }

    /// Answers a node's [`choose`](everhold_node::Cx::choose). `None` means the first possibility.
    fn choose(&mut self, node: NodeId, label: &str, domain: u32) -> Option<u32>;

    /// Answers a node's [`choose_weighted`](everhold_node::Cx::choose_weighted). `None` means the first
    /// possible option. By default, an answer to `choose` is a ticket of the lottery.
    fn choose_weighted(&mut self, node: NodeId, label: &str, weights: Weights<'_>) -> Option<u32> {
        let ticket = self.choose(node, label, weights.total())?;
        Some(weights.option_with(ticket))
    }

    /// An event begins to use its node's disk, and these faults may strike it there: which of them
    /// does, and at which operation. How many operations there will be is not known.
    fn upset(&mut self, node: NodeId, faults: &[DiskFault]) -> Option<Upset> {
        let _ = (node, faults);
        None
    }

    /// The event for which [`upset`](Strategy::upset) was asked had this many operations, up to the
    /// one at which a fault struck, if one did.
    fn disk_used(&mut self, operations: u32, faults: &[DiskFault], struck: bool) {
        let _ = (operations, faults, struck);
    }

    /// Whether [`Moves::fresh`] and [`Moves::at_node`] are wanted; they cost a little.
    fn tracks_nodes(&self) -> bool {
        false
    }

    /// For the replay of a real execution, asked before each pick: what its clocks say next.
    fn follow(&mut self) -> Option<Followed> {
        None
    }

    /// Whether the strategy repeats an execution, its fair tail included.
    fn is_replay(&self) -> bool {
        false
    }

    /// Asked after `pick` gave `None`: go on with the fair tail instead of ending?
    fn wants_tail(&mut self) -> bool {
        false
    }

    /// For an exhaustive search: the step that was picked is done, and these moves are
    /// possible now. False ends the execution.
    fn after(&mut self, step: &Done, moves: &Moves) -> bool {
        let _ = (step, moves);
        true
    }

    /// For a search that goes back: how many leading choices the next execution shares with the
    /// last, or `None` if there is no next.
    fn shared_prefix(&mut self) -> Option<usize> {
        Some(0)
    }

    /// For a search that goes back: the execution goes on after its first `choices` choices.
    fn rewind(&mut self, choices: usize) {
        let _ = choices;
    }

    /// For a search that can end: how far it came.
    fn progress(&self) -> Option<Progress> {
        None
    }
}

/// The number under which an answer to [`Strategy::upset`] is logged; zero is none.
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

/// What the clocks of a real execution say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// A node's clock shows at least this, in nanoseconds.
    Clock(NodeId, u64),
    /// This timer of a node fires next, late or not.
    Timer(NodeId, String),
}

/// What a replay needs to recognise moves by their names.
pub(crate) trait About {
    /// The sort of message that a delivery brings; empty for other moves.
    fn kind(&self, offered: &Move) -> &'static str;
    /// The text of the timer that would fire next at a node.
    fn timer(&self, node: NodeId) -> Option<String>;
    /// The other end of the connection of whose end a move tells.
    fn peer(&self, offered: &Move) -> Option<NodeId>;
    /// Whether a message of this sort is under way between two nodes, deliverable or not.
    fn is_under_way(&self, from: NodeId, to: NodeId, kind: &str) -> bool;
    /// How many messages a node has sent.
    fn sent(&self, node: NodeId) -> u32;
    /// The pick of a fault, if it can be injected now.
    fn fault(&self, fault: &Fault) -> Option<u32>;
}

/// What a strategy may know before an execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// Seeds the strategy's decisions.
    pub(crate) seed: u64,
    /// The number of steps over which faults and changes of priority are spread, at least one: as
    /// many as the longest of the earlier executions had, or fewer.
    pub(crate) steps: u32,
    /// The most faults that may be injected.
    pub(crate) faults: u32,
    /// Choices of an earlier execution that is worth going back to.
    pub(crate) parent: Option<Arc<[u32]>>,
}

/// What a step did, for strategies that watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// It told a monitor, so its order among such steps matters.
    pub(crate) notified: bool,
    /// The hash of the whole state after it.
    pub(crate) fingerprint: u64,
    /// How many steps the execution has by now.
    pub(crate) depth: u32,
}

/// How to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// All of the randomised ones, weighted by how much each finds that is new; random keeps a
    /// fifth. The default.
    Portfolio,
    /// Uniform choice among what can happen; timers one time in eight.
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
        /// What is left out because it is equivalent.
        reduction: Reduction,
    },
}

/// What an exhaustive search leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A strategy of this sort; a portfolio is made of several and has none of its own.
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
