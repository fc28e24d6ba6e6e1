//! A counter, as an example of a service that users write for the platform.

use everhold::prelude::*;
use everhold::{Network, System};

use super::{Bug, Host, Manager, MsgOf, Replica, Role, Service};

/// The number of increments of the client.
const INCREMENTS: u64 = 2;
/// The number of primaries that fail.
const FAILURES: u32 = 2;

/// A counter.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counter {
    /// Its value.
    pub value: u64,
}

/// The request to add one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Increment;

impl Service for Counter {
    type Request = Increment;
    type Operation = u64;
    type State = u64;

    fn request(&mut self, host: &mut Host<Self>, _: Increment) {
        host.replicate(self.value + 1);
    }
    fn apply(&mut self, value: &u64) {
        self.value = *value;
    }
    fn copy(&self) -> u64 {
        self.value
    }
    fn restore(&mut self, value: u64) {
        self.value = value;
    }
}

type Msg = MsgOf<Counter>;

/// A client that increments, and waits for each answer.
#[derive(Clone, Debug, Serialize)]
struct Client {
    manager: NodeId,
    acknowledged: u64,
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(self.manager, Msg::Call(0, Increment));
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Served = msg else { return cx.unexpected(msg) };
        self.acknowledged += 1;
        if self.acknowledged < INCREMENTS {
            cx.send(self.manager, Msg::Call(0, Increment));
        }
    }
}

/// The specification of the user: unless the platform admits that data was lost, no active secondary
/// counts less than what was acknowledged.
pub const KEPT: &str = "acknowledged increments are kept";

/// A counter with a primary and a secondary, and two failures of primaries.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.network(Network::Fifo);
        let (manager, replicas) = (NodeId(0), vec![NodeId(1), NodeId(2)]);
        let platform = Manager::new(bug, vec![(Counter::default(), replicas)], FAILURES);
        system.node("manager", platform);
        for role in [Role::Primary, Role::IdleSecondary] {
            system.node("replica", Replica::new(manager, role, Counter::default()));
        }
        let client = system.node("client", Client { manager, acknowledged: 0 });
        system.always(KEPT, move |s| {
            let acknowledged = s.get::<Client>(client).map_or(0, |client| client.acknowledged);
            let lost = s.get::<Manager<Counter>>(manager).is_some_and(|m| m.losses > 0);
            let mut replicas = s.all::<Replica<Counter>>().map(|(_, replica)| replica);
            let is_behind = |replica: &Replica<Counter>| {
                replica.role == Role::ActiveSecondary && replica.service.value < acknowledged
            };
            lost || !replicas.any(is_behind)
        });
        system.sometimes("all increments are acknowledged", move |s| {
            s.get::<Client>(client).is_some_and(|client| client.acknowledged == INCREMENTS)
        });
    }
}
