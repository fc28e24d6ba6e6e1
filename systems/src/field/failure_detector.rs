//! A failure detector, as in the samples of P# and Coyote.
//!
//! It pings its nodes in rounds: up to two attempts, each ended by a timer, until all have answered;
//! nodes that answered neither are taken to have failed. When all have answered, it cancels the timer
//! and rests until the next round. A timer that is cancelled may just have fired; it says which.
//!
//! The bug: the detector goes on as soon as it has asked for the cancellation, so that the old timer's
//! message ends its rest at once. A node that is slow then has more and more pings to answer: the
//! sample asserts that it never owes more than three answers. The description names the symptom and
//! the stale message; that the detector does not wait for the answer to its cancellation is our
//! reading of it. An answer carries the number of its round, so that a correct detector knows late
//! ones.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use everhold::prelude::*;
use everhold::{Network, System};

/// The number of nodes that are watched.
const NODES: usize = 2;
/// The number of rounds, which bounds an execution.
const ROUNDS: u32 = 8;
/// The number of attempts in a round.
const ATTEMPTS: u32 = 2;
/// The number of answers that a node may owe.
const OWED_MAX: i32 = 3;

/// The known bugs of the detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It takes the message of a timer that it had cancelled for that of the present one, and a late
    /// answer for a present one.
    StaleTimeout,
}

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Msg {
    /// Detector to node: are you there?
    Ping(u32),
    /// Node to detector: I am.
    Pong(u32),
    /// Detector to timer: fire some time.
    Start(u32),
    /// Detector to timer: do not.
    Cancel(u32),
    /// Timer to detector: time is over.
    Timeout(u32),
    /// Timer to detector: it is cancelled, or it had fired before.
    Cancelled(u32),
}

/// The notifications that the specification receives.
#[derive(Clone, Copy, Debug)]
pub enum Heard {
    /// A ping was sent to a node.
    Pinged(NodeId),
    /// A node answered.
    Ponged(NodeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Doing {
    Pinging,
    Cancelling,
    Resting,
}

/// The system under test.
#[derive(Clone, Debug, Serialize)]
pub struct Detector {
    bug: Bug,
    timer: NodeId,
    doing: Doing,
    alive: BTreeSet<NodeId>,
    answered: BTreeSet<NodeId>,
    attempt: u32,
    /// The round.
    pub round: u32,
    /// The number of timers so far.
    timers: u32,
}

impl Detector {
    fn ping(&mut self, cx: &mut Cx<Msg>) {
        self.doing = Doing::Pinging;
        for node in self.alive.difference(&self.answered) {
            cx.notify(Heard::Pinged(*node));
            cx.send(*node, Msg::Ping(self.round));
        }
        self.start_timer(cx);
    }

    fn start_timer(&mut self, cx: &mut Cx<Msg>) {
        self.timers += 1;
        cx.send(self.timer, Msg::Start(self.timers));
    }

    fn rest(&mut self, cx: &mut Cx<Msg>) {
        self.doing = Doing::Resting;
        self.attempt = 0;
        self.answered.clear();
        self.round += 1;
        self.start_timer(cx);
    }

    fn pong(&mut self, cx: &mut Cx<Msg>, from: NodeId, round: u32) {
        let is_present = round == self.round || self.bug == Bug::StaleTimeout;
        if self.doing != Doing::Pinging || !is_present {
            return;
        }
        self.answered.insert(from);
        if self.answered.is_superset(&self.alive) {
            cx.send(self.timer, Msg::Cancel(self.timers));
            match self.bug {
                Bug::None => self.doing = Doing::Cancelling,
                Bug::StaleTimeout => self.rest(cx),
            }
        }
    }

    fn timeout(&mut self, cx: &mut Cx<Msg>, timer: u32) {
        if timer != self.timers && self.bug == Bug::None {
            return;
        }
        match self.doing {
            Doing::Cancelling => {}
            Doing::Resting if self.round < ROUNDS => self.ping(cx),
            Doing::Resting => {}
            Doing::Pinging => {
                self.attempt += 1;
                if self.attempt < ATTEMPTS {
                    return self.ping(cx);
                }
                self.alive = self.alive.intersection(&self.answered).copied().collect();
                self.rest(cx);
            }
        }
    }
}

impl Node for Detector {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.ping(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Pong(round) => self.pong(cx, from, round),
            Msg::Timeout(timer) => self.timeout(cx, timer),
            Msg::Cancelled(timer) if timer == self.timers && self.doing == Doing::Cancelling => {
                self.rest(cx);
            }
            Msg::Cancelled(_) => {}
            other => cx.unexpected(other),
        }
    }
}

/// A modelled timer: it fires at once or not, and may fire when it is cancelled.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Clock {
    running: Option<u32>,
}

impl Node for Clock {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Start(timer) if cx.flip("fires at once") => cx.send(from, Msg::Timeout(timer)),
            Msg::Start(timer) => {
                self.running = Some(timer);
                let fire = Timer::from("fire").with(timer.into());
                cx.set_timer(fire, Duration::from_millis(100));
            }
            Msg::Cancel(timer) => {
                let had_fired = self.running != Some(timer) || cx.flip("had just fired");
                if self.running == Some(timer) {
                    self.running = None;
                    if had_fired {
                        cx.send(from, Msg::Timeout(timer));
                    }
                }
                cx.send(from, Msg::Cancelled(timer));
            }
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, fired: Timer) {
        if let Some(timer) = self.running.take_if(|running| u64::from(*running) == fired.id) {
            cx.send(NodeId(0), Msg::Timeout(timer));
        }
    }
}

/// A node that is watched.
#[derive(Clone, Debug, Serialize)]
pub struct Watched;

impl Node for Watched {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Ping(round) => {
                cx.notify(Heard::Ponged(cx.id()));
                cx.send(from, Msg::Pong(round));
            }
            other => cx.unexpected(other),
        }
    }
}

/// Safety: a node owes at most three answers.
#[derive(Clone, Default, Serialize)]
struct FewPings {
    owed: BTreeMap<NodeId, i32>,
}

impl Monitor for FewPings {
    type Event = Heard;

    fn observe(&mut self, event: &Heard) {
        match event {
            Heard::Ponged(node) => *self.owed.entry(*node).or_default() -= 1,
            Heard::Pinged(node) => {
                let owed = self.owed.entry(*node).or_default();
                *owed += 1;
                assert!(*owed <= OWED_MAX, "{node} owes {owed} answers");
            }
        }
    }
}

/// The specification.
pub const FEW_PINGS: &str = "a node owes at most three answers";

/// A detector, its timer and two nodes.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        // Pings that overtake each other would break the bound without any bug.
        system.network(Network::Fifo);
        let alive = (2..2 + NODES as u32).map(NodeId).collect();
        let detector = system.node(
            "detector",
            Detector {
                bug,
                timer: NodeId(1),
                doing: Doing::Pinging,
                alive,
                answered: BTreeSet::new(),
                attempt: 0,
                round: 1,
                timers: 0,
            },
        );
        system.node("clock", Clock::default());
        system.nodes("watched", NODES, |_| Watched);
        system.monitor(FEW_PINGS, FewPings::default());
        system.sometimes("all rounds are over", move |s| {
            s.get::<Detector>(detector).is_some_and(|detector| detector.round == ROUNDS)
        });
    }
}
