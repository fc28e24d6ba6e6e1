//! Two-phase commit, after Gray and Lamport's TLA+ module `TwoPhase` ("Consensus on Transaction
//! Commit", 2006), which is also the two-phase commit of Stateright's examples.
//!
//! Resource managers prepare or, before they have, abort on their own. The transaction manager
//! collects the reports of prepared managers and commits once all are prepared; until then it may
//! abort at any time. In no case may one manager commit while another aborts.
//!
//! Spontaneous actions of a node are timers here, which fire whenever the strategy decides. One
//! step differs from the module: the transaction manager commits when the last report arrives, not
//! some time after it.
//!
//! States are small and flat, because this system also measures exhaustive search.

use everhold::System;
use everhold::prelude::*;

/// The known bugs of the transaction manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It commits when all resource managers but one are prepared.
    CommitsEarly,
    /// It forgets that it has aborted: when the last report arrives, it commits.
    ForgetsAbort,
}

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Resource manager to transaction manager: I can commit, and no longer abort on my own.
    Prepared,
    /// Transaction manager to all: commit.
    Commit,
    /// Transaction manager to all: abort.
    Abort,
}

/// The phase of a manager of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// Undecided; a resource manager may still abort on its own.
    Working,
    /// A resource manager that leaves the decision to the transaction manager.
    Prepared,
    /// Decided: the transaction commits.
    Committed,
    /// Decided: the transaction aborts.
    Aborted,
}

/// The delay of every spontaneous action. The strategy decides which clock is faster.
const SOON: Duration = Duration::from_millis(100);

/// A participant of the transaction, which may abort until it has prepared.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ResourceManager {
    tm: NodeId,
    phase: Phase,
}

impl ResourceManager {
    fn decide(&mut self, cx: &mut Cx<Msg>, outcome: Phase) {
        if matches!(self.phase, Phase::Working | Phase::Prepared) {
            self.phase = outcome;
            cx.cancel_timer("act");
        }
    }
}

impl Node for ResourceManager {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("act", SOON);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        // As in the module, a manager that aborts sends no message: the transaction manager notices
        // that a report is missing.
        if cx.flip("abort") {
            self.phase = Phase::Aborted;
        } else {
            self.phase = Phase::Prepared;
            cx.send(self.tm, Msg::Prepared);
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Commit => self.decide(cx, Phase::Committed),
            Msg::Abort => self.decide(cx, Phase::Aborted),
            Msg::Prepared => cx.unexpected(msg),
        }
    }
}

/// Decides the outcome for all participants.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TransactionManager {
    bug: Bug,
    /// The resource managers are the nodes below this number.
    managers: u32,
    /// One bit for each resource manager that has reported.
    prepared: u32,
    phase: Phase,
}

impl TransactionManager {
    fn may_commit(&self) -> bool {
        let needed = self.managers - u32::from(self.bug == Bug::CommitsEarly);
        let undecided = match self.bug {
            Bug::ForgetsAbort => self.phase != Phase::Committed,
            Bug::None | Bug::CommitsEarly => self.phase == Phase::Working,
        };
        undecided && self.prepared.count_ones() >= needed
    }

    fn decide(&mut self, cx: &mut Cx<Msg>, phase: Phase, order: Msg) {
        self.phase = phase;
        for manager in 0..self.managers {
            cx.send(NodeId(manager), order);
        }
    }
}

impl Node for TransactionManager {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("lose patience", SOON);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.decide(cx, Phase::Aborted, Msg::Abort);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Prepared => {
                self.prepared |= 1 << from.0;
                if self.may_commit() {
                    cx.cancel_timer("lose patience");
                    self.decide(cx, Phase::Committed, Msg::Commit);
                }
            }
            Msg::Commit | Msg::Abort => cx.unexpected(msg),
        }
    }
}

/// The specification.
pub const CONSISTENT: &str = "no mixed outcome";

/// One transaction over `managers` resource managers (at most 32).
pub fn system(
    managers: usize,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    assert!((1..=32).contains(&managers), "the managers' reports are the bits of a u32");
    move |system| {
        let tm = NodeId(managers as u32);
        system.nodes("rm", managers, |_| ResourceManager { tm, phase: Phase::Working });
        let decides =
            TransactionManager { bug, managers: tm.0, prepared: 0, phase: Phase::Working };
        assert_eq!(system.node("tm", decides), tm);
        system.always(CONSISTENT, consistent);
        system.sometimes("all commit", |s| all_are(s, Phase::Committed));
        system.sometimes("all abort", |s| all_are(s, Phase::Aborted));
    }
}

fn consistent(s: &View<'_, Msg>) -> Result<(), String> {
    let first = |phase| s.all::<ResourceManager>().find(|(_, rm)| rm.phase == phase);
    match (first(Phase::Committed), first(Phase::Aborted)) {
        (Some((committed, _)), Some((aborted, _))) => {
            Err(format!("{committed} committed and {aborted} aborted"))
        }
        _ => Ok(()),
    }
}

fn all_are(s: &View<'_, Msg>, phase: Phase) -> bool {
    s.all::<ResourceManager>().all(|(_, rm)| rm.phase == phase)
}
