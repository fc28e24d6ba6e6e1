//! Chained services in the manner of CScale, which ran on the paper's model.
//!
//! A stage keeps a window of numbers; when the window is full, it passes their sum on to the next stage.
//! The paper reports a `NullReferenceException` and says no more. The bug here is what its text allows: a
//! stage uses its window, which is there from the start or comes with a copy of the state, although it
//! was elected before its copy arrived.

use everhold::prelude::*;
use everhold::{Network, System};

use super::{Host, Manager, MsgOf, Name, Replica, Role, Service};

/// The known bugs of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It has no window if it is elected before its copy of the state arrives.
    NeedsItsCopy,
}

/// The number of stages.
const STAGES: usize = 2;
/// The numbers of a window.
const WINDOW: usize = 2;
/// The numbers that are fed to the first stage.
const NUMBERS: u64 = 4;
/// The number of primaries that fail.
const FAILURES: u32 = 2;

/// A stage.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    bug: Bug,
    next: Option<Name>,
    window: Option<Vec<u64>>,
    /// The last sum of a full window.
    pub sum: u64,
}

/// A change of a stage.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Change {
    /// A number enters the window.
    Enter(u64),
    /// The full window had this sum, and begins again.
    Emit(u64),
}

impl Service for Stage {
    type Request = u64;
    type Operation = Change;
    type State = (Option<Vec<u64>>, u64);

    fn request(&mut self, host: &mut Host<Self>, number: u64) {
        let window = self.window.as_ref().expect("a stage has its window");
        if window.len() + 1 < WINDOW {
            return host.replicate(Change::Enter(number));
        }
        let sum = window.iter().sum::<u64>() + number;
        host.replicate(Change::Emit(sum));
        if let Some(next) = self.next {
            host.call(next, sum);
        }
    }
    fn apply(&mut self, change: &Change) {
        let window = self.window.get_or_insert_default();
        match change {
            Change::Enter(number) => window.push(*number),
            Change::Emit(sum) => {
                window.clear();
                self.sum = *sum;
            }
        }
    }
    fn copy(&self) -> Self::State {
        (self.window.clone(), self.sum)
    }
    fn restore(&mut self, (window, sum): Self::State) {
        (self.window, self.sum) = (window, sum);
    }
    fn data_lost(&mut self) {
        if self.bug == Bug::None {
            self.window = Some(Vec::new());
        }
    }
}

type Msg = MsgOf<Stage>;

/// Feeds the first stage.
#[derive(Clone, Debug, Serialize)]
struct Feed {
    manager: NodeId,
}

impl Node for Feed {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        for number in 1..=NUMBERS {
            cx.send(self.manager, Msg::Call(0, number));
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        if !matches!(msg, Msg::Served) {
            cx.unexpected(msg);
        }
    }
}

/// Two stages, each with a primary and a secondary, and two failures of primaries.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.network(Network::Fifo);
        let manager = NodeId(0);
        let stage = |at: usize, window| {
            let next = Some(at + 1).filter(|next| *next < STAGES);
            Stage { bug, next, window, sum: 0 }
        };
        let members = |at: usize| vec![NodeId(1 + 2 * at as u32), NodeId(2 + 2 * at as u32)];
        let services = (0..STAGES).map(|at| (stage(at, None), members(at))).collect();
        system.node("manager", Manager::new(super::Bug::None, services, FAILURES));
        for at in 0..STAGES {
            let first = stage(at, Some(Vec::new()));
            system.node("replica", Replica::new(manager, Role::Primary, first));
            system.node("replica", Replica::new(manager, Role::IdleSecondary, stage(at, None)));
        }
        system.node("feed", Feed { manager });
        system.sometimes("the last stage has a sum", |s| {
            s.all::<Replica<Stage>>().any(|(_, r)| r.service.next.is_none() && r.service.sum > 0)
        });
    }
}
