//! A distributed lock service like Boxwood's, which D³S checks (NSDI 2008, section 2.1).
//!
//! Clients take locks from a server, shared or exclusive, and keep them after their application has
//! finished: taking a cached lock again costs nothing until the server asks for it back. A client
//! holds its locks under a lease, which it renews; if it dies, the server waits until the lease is
//! certain to be over and gives the locks to others. Only the clients know who holds what, so the
//! consistency of the holders cannot be checked at any single node.

mod client;
mod server;

use std::time::Duration;

use everhold::prelude::*;
use everhold::{Network, System};

pub use client::Client;
pub use server::Server;

/// The claim that a lock has one exclusive holder, shared holders, or none. The explorer and
/// `watch` read it.
pub const RULES: &str = include_str!("lock/lock.prop");
/// The name of the claim.
pub const CONSISTENT: &str = "lock holders are consistent";

/// The lock server.
pub const SERVER: NodeId = NodeId(0);

/// The time for which a client may hold locks after it asked for a lease that was granted.
const LEASE: Duration = Duration::from_millis(600);
/// The interval at which it asks.
const RENEW: Duration = Duration::from_millis(100);
/// The additional time that the server waits, because clocks differ and a client may notice late.
const GRACE: Duration = Duration::from_millis(1_500);

/// The known bugs of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// The server treats a lock as free once it has asked for it back: a double grant.
    GrantsBeforeRelease,
}

/// A lock.
pub type Lock = u32;

/// The mode in which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Together with other holders.
    Shared,
    /// Exclusively.
    Exclusive,
}

impl Mode {
    fn conflicts_with(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    /// Whether a lock in this mode permits everything that `wanted` permits.
    fn covers(self, wanted: Mode) -> bool {
        self == Mode::Exclusive || wanted == Mode::Shared
    }
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Application to client: I want to use this lock.
    Want(Lock, Mode),
    /// Client to application: use it.
    Have(Lock),
    /// Application to client: I am done with it.
    Done(Lock),
    /// Client to server: give me this lock.
    Acquire(Lock, Mode),
    /// Server to client: it is yours.
    Grant(Lock, Mode),
    /// Server to client: others want it, give it back.
    Revoke(Lock),
    /// Client to server: I do not hold it any more.
    Release(Lock),
    /// Client to server: a request for a lease, with the client's time, which the answer repeats.
    Renew(u64),
    /// Server to client: the lease is granted.
    Renewed(u64),
}

/// A modelled application: it uses one lock for a while, again and again.
#[derive(Clone, Debug, Serialize)]
pub struct Application {
    client: NodeId,
    lock: Lock,
    left: u32,
    uses: u32,
}

impl Application {
    const WORK: Duration = Duration::from_millis(150);

    fn want(&self, cx: &mut Cx<Msg>) {
        let mode = if cx.flip("exclusive") { Mode::Exclusive } else { Mode::Shared };
        cx.send(self.client, Msg::Want(self.lock, mode));
    }
}

impl Node for Application {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.want(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Have(_) => {
                self.uses += 1;
                cx.set_timer("work", Application::WORK);
            }
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        cx.send(self.client, Msg::Done(self.lock));
        self.left -= 1;
        if self.left > 0 {
            self.want(cx);
        }
    }
}

/// The number of clients in the explored system.
const CLIENTS: u32 = 2;

/// A server, two clients of which one may die, and an application for each; one lock for all.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        assert_eq!(system.node("server", Server::new(bug)), SERVER);
        for _ in 0..CLIENTS {
            system.node("client", Client::default());
        }
        let mut last = SERVER;
        for client in 1..=CLIENTS {
            let client = NodeId(client);
            last = system.node("application", Application { client, lock: 7, left: 3, uses: 0 });
        }
        // Sessions are streams; leases depend on synchronised clocks.
        system.network(Network::Streams);
        system.clocks(Clocks::Shared);
        system.faults(Faults::none().stop(1).only(["client"]));
        system.property(RULES);
        system.sometimes("the last application used its lock twice", move |s| {
            s.get::<Application>(last).is_some_and(|application| application.uses >= 2)
        });
    }
}
