//! Everything around the nodes in one execution: network, timers, disks, clocks, monitors, faults.
//!
//! - `state`: the part that is copied when a search goes back to an earlier point.
//! - `network`: messages under way, guards and the order of streams.
//! - `streams`: connections, and the events that break them.
//! - `time`: timers, and tasks that are ready to continue.
//! - `faults`: the menu of faults, and the effect of each.
//! - `disk`: disks, and crashes in the middle of an event.
//! - `runtime`: the operations of the nodes' contexts.

mod disk;
mod faults;
mod network;
mod runtime;
mod state;
mod streams;
mod time;
mod weight;

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use everhold_node::fingerprint::mix;
use everhold_node::{Blueprint, Message, NodeId, Tag, TaskId, Timer};

use crate::execute::Undecided;
use crate::failure::Failure;
use crate::fault::{FaultKind, Faults};
use crate::halt::{self, EFFECTS_MAX, UNDER_WAY_BYTES_MAX, UNDER_WAY_MAX};
use crate::links::{Line, Links};
use crate::liveness;
use crate::moves::{DiskMenu, Move, What};
use crate::record::Recorder;
use crate::rng::Rng;
use crate::strategy::Strategy;
use crate::system::{Clocks, Network};
use crate::tail::Tail;

pub(crate) use disk::DISK_NOTE;
pub(crate) use state::{NodeState, State, Status};

/// Marks the second delivery of a duplicated message.
pub(crate) const DUPLICATE: u32 = 1 << 31;

/// The rules of a system, which do not change from execution to execution.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) network: Network,
    pub(crate) clocks: Clocks,
    pub(crate) faults: Faults,
    pub(crate) links: Links,
    /// The virtual time for which a message or a task may wait before timers wait for it.
    pub(crate) patience: Option<u64>,
    /// The channels of the links, in the form that executions use.
    pub(crate) lines: Vec<Line>,
    /// Whether some channel or mailbox can be full.
    pub(crate) bounded: bool,
}

impl Rules {
    /// Derives the fields that follow from the settings.
    fn resolve(&mut self) {
        self.lines = self.links.lines(self.network);
        self.bounded = self.links.is_bounded();
    }

    /// Sets the rules for links that concern a node of this kind.
    pub(crate) fn place(&self, kind: &str, node: &mut NodeState) {
        (node.sends, node.takes) = self.links.of_node(kind);
        node.room = self.links.room(kind);
    }

    /// Whether messages to a node may have to keep an order.
    pub(crate) fn is_ordered(&self, node: &NodeState) -> bool {
        let mut lines = self.lines.iter().enumerate();
        lines.any(|(at, line)| {
            let fits = at == 0 || (node.takes >> (at - 1)) & 1 == 1;
            fits && line.network != Network::Datagrams
        })
    }
}

/// The decision of the strategy, with everything needed to carry it out.
pub(crate) enum Action<M> {
    Deliver {
        to: NodeId,
        from: NodeId,
        tag: Tag,
        msg: M,
    },
    Poll {
        node: NodeId,
        task: TaskId,
    },
    Timer {
        node: NodeId,
        timer: Timer,
    },
    Restart(NodeId),
    /// The partition has ended; the environment has done that already.
    Healed,
    Crash(NodeId),
    /// The connection between two nodes breaks; how much of the stream still arrives is to be
    /// chosen.
    Reset(NodeId, NodeId),
    Disconnected {
        node: NodeId,
        peer: NodeId,
    },
    /// A fault that the environment has carried out already.
    Faulted,
}

pub(crate) struct Env<M> {
    pub(crate) state: State<M>,
    pub(crate) rules: Rc<Rules>,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) log: Vec<u32>,
    pub(crate) seed: u64,
    pub(crate) failure: Option<Failure>,
    pub(crate) recorder: Option<Box<Recorder>>,
    /// Nodes that were added and have not started yet.
    pub(crate) spawned: VecDeque<(String, Blueprint<M>)>,
    pub(crate) halted: Vec<NodeId>,
    /// Tracked nodes with messages about which their guards were not asked yet.
    pub(crate) unchecked: Vec<NodeId>,
    /// The fair end of the execution, once it has begun.
    pub(crate) tail: Option<Tail>,
    pub(crate) hashing: bool,
    /// Whether what happens is named outside the fair tail as well.
    pub(crate) naming: bool,
    /// Whether a handler notified a monitor, drew a random number or chose: such a step affects
    /// more than its own node.
    pub(crate) touched_monitors: bool,
    pub(crate) chose: bool,
    /// Whether the present step is a message, a task or a fault, or sent something. Otherwise it is
    /// an idle tick.
    pub(crate) worked: bool,
    /// Whether a node looked at its clock.
    pub(crate) timed: Cell<bool>,
    pub(crate) in_monitor: Option<usize>,
    /// The number of effects of nodes in the present step.
    pub(crate) effects: u32,
    /// The bound of a checker that ended the execution.
    pub(crate) undecided: Option<Undecided>,
    /// The message that the present step delivers.
    pub(crate) delivered: Option<(NodeId, u32)>,
    /// Whether the schedule follows the clocks of a real execution.
    pub(crate) follows: bool,
    /// The number of messages that found no room.
    pub(crate) refused: u64,
    /// The rules for links that fitted a message, as bits.
    pub(crate) fitted: u64,
    /// Whether there were too many nodes to part them in every way.
    pub(crate) partly_split: bool,
    /// The present event, if it used its node's disk.
    pub(crate) at_disk: Option<disk::AtDisk>,
    /// The steps in which time passed, with the time after each; kept where timers have patience.
    pub(crate) passed: Vec<(u32, u64)>,
    scales: weight::Scales,
}

impl<M: Message> Env<M> {
    pub(crate) fn new(rules: Rules, strategy: Box<dyn Strategy>) -> Self {
        let mut env = Env {
            state: State::empty(),
            rules: Rc::new(rules.clone()),
            strategy,
            log: Vec::new(),
            seed: 0,
            failure: None,
            recorder: None,
            spawned: VecDeque::new(),
            halted: Vec::new(),
            unchecked: Vec::new(),
            tail: None,
            hashing: false,
            naming: false,
            touched_monitors: false,
            chose: false,
            worked: true,
            timed: Cell::new(false),
            in_monitor: None,
            effects: 0,
            undecided: None,
            delivered: None,
            follows: false,
            refused: 0,
            fitted: 0,
            partly_split: false,
            at_disk: None,
            passed: Vec::new(),
            scales: weight::Scales::default(),
        };
        env.set_rules(rules);
        env
    }

    /// Sets the rules that hold from here on.
    pub(crate) fn set_rules(&mut self, mut rules: Rules) {
        rules.resolve();
        self.state.left = rules.faults.clone();
        self.state.tied_clocks = rules.clocks.are_tied();
        self.state.ordered = rules.lines.iter().any(|line| line.network != Network::Datagrams);
        self.rules = Rc::new(rules);
    }

    /// Answers a choice that the setup makes at the beginning of an execution.
    pub(crate) fn choose_in_setup(&mut self, label: &'static str, domain: u32) -> u32 {
        let (node, label) = (NodeId(0), format!("setup: {label}"));
        let value = self.decide_in_setup(node, &label, domain);
        if let Some(recorder) = &mut self.recorder {
            recorder.note(node, format!("{label}: {value} of {domain}"));
            recorder.chose_silently(node, label, domain, value);
        }
        value
    }

    /// Forgets the last execution; buffers keep their memory.
    pub(crate) fn reset(&mut self, seed: u64, nodes: usize) {
        self.seed = seed;
        self.log.clear();
        self.failure = None;
        self.tail = None;
        self.spawned.clear();
        self.halted.clear();
        self.unchecked.clear();
        self.worked = true;
        self.in_monitor = None;
        self.effects = 0;
        self.undecided = None;
        self.at_disk = None;
        self.passed.clear();
        self.scales = weight::Scales::default();
        self.reset_state(nodes);
    }

    /// Resets the part that the search copies.
    pub(crate) fn reset_state(&mut self, nodes: usize) {
        let tracks_nodes = self.strategy.tracks_nodes();
        self.state.reset(nodes, tracks_nodes, &self.rules.faults);
    }

    /// Counts an effect of a node; ends the execution if a step has too many.
    #[inline]
    pub(crate) fn act(&mut self) {
        self.effects += 1;
        if self.effects > EFFECTS_MAX {
            halt::too_much(format!("did more than {EFFECTS_MAX} things in one step"));
        }
    }

    /// Ends the execution if more messages are under way than memory should hold.
    #[inline]
    fn bound_under_way(&self) {
        let under_way = self.state.flights.len() - self.state.free.len();
        let fit = UNDER_WAY_BYTES_MAX / size_of::<M>().max(1);
        if under_way > UNDER_WAY_MAX.min(fit) {
            halt::too_much(format!("sent when {under_way} messages were under way already"));
        }
    }

    /// Whether something happened that concerns nodes other than the one at which it happened.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !(self.unchecked.is_empty() && self.spawned.is_empty() && self.halted.is_empty())
    }

    /// Whether the last step was a timer that sent, notified and chose nothing.
    #[inline]
    pub(crate) fn was_idle_tick(&self) -> bool {
        !(self.worked || self.touched_monitors || self.chose)
    }

    /// Starts the fair end of the execution: there are no more faults, partitions heal, and
    /// messages that were held back are released.
    pub(crate) fn begin_tail(&mut self) {
        self.state.left = Faults::none();
        self.state.may_fail = true;
        self.state.moves.faults.set([0; FaultKind::ALL.len()]);
        self.state.moves.faults.set_disk(DiskMenu::default());
        self.heal();
        self.release();
        self.tail = Some(Tail::new(Rng::new(mix(self.seed, 0xFA12)), &self.state));
        if let Some(recorder) = &mut self.recorder {
            recorder.tail();
        }
    }

    /// Lets the strategy, or the fair tail, decide, and carries out what needs no node.
    pub(crate) fn pick(&mut self) -> Option<(Action<M>, NodeId)> {
        if self.follows {
            while self.follow() {}
        }
        if self.state.moves.is_empty() && self.state.held > 0 {
            self.release();
        }
        if let Some(patience) = self.rules.patience {
            self.restrain_timers(patience);
        }
        if self.state.may_fail {
            self.offer_faults();
        }
        let pick =
            if self.state.moves.is_empty() { self.decide_at_quiet()? } else { self.decide()? };
        debug_assert!(pick < self.state.moves.picks(), "a pick is one of the moves");
        self.log.push(pick);
        self.state.moves.forget_fresh();
        self.touched_monitors = false;
        self.chose = false;
        self.timed.set(false);
        self.worked = true;
        self.effects = 0;
        self.delivered = None;
        self.state.step += 1;
        let moves = self.state.moves.len();
        if pick < moves { Some(self.take(pick)) } else { Some(self.inject(pick - moves)) }
    }

    fn decide_at_quiet(&mut self) -> Option<u32> {
        if self.state.moves.faults.is_empty() {
            return None;
        }
        self.strategy.at_quiet(&self.state.moves, &self.state)
    }

    fn decide(&mut self) -> Option<u32> {
        let moves = &self.state.moves;
        match &mut self.tail {
            Some(tail) if !self.strategy.is_replay() => Some(tail.pick(&self.state)),
            Some(tail) => {
                let again = self.strategy.pick(moves, &self.state);
                Some(again.unwrap_or_else(|| tail.pick(&self.state)))
            }
            None => self.strategy.pick(moves, &self.state),
        }
    }

    fn take(&mut self, pick: u32) -> (Action<M>, NodeId) {
        let offered = *self.state.moves.get(pick);
        let Move { what, node, id, .. } = offered;
        if self.naming || (self.tail.is_some() && self.hashing) {
            self.state.last_move = liveness::name(&self.state, &offered);
        }
        if self.tail.is_some() {
            self.pass_time(node, what);
        }
        let history = &mut self.state.nodes[node.index()].history;
        *history = mix(*history, id);
        let action = match what {
            What::Deliver(flight) => self.take_flight(flight),
            What::Poll(task) => self.take_poll(node, task),
            What::Timer => {
                self.worked = false;
                self.take_timer(node)
            }
            What::Disconnected(flight) => self.take_notice(flight),
            What::Restart => Action::Restart(node),
            What::Heal => {
                self.heal();
                Action::Healed
            }
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(node, &action, what);
        }
        (action, node)
    }

    pub(crate) fn fail_with(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}

/// The id of the node with this index.
///
/// # Panics
///
/// If there are more nodes than ids.
#[must_use]
pub fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index).expect("a system has fewer than 2^32 nodes"))
}
