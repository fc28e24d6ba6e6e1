//! A lock that is granted or refused at once; clients that are refused try again after a random
//! time.

use std::collections::BTreeSet;
use std::time::Duration;

use everhold::node::{Cx, Node, NodeId, Timer};
use everhold::{Faults, System};
use serde::Serialize;

const HOLD: Duration = Duration::from_millis(20);
/// The shortest time after which a client tries again, which is also the width of its random range,
/// in milliseconds.
const AGAIN: u64 = 40;

/// The messages.
#[derive(Clone, Debug, Serialize)]
pub enum Msg {
    /// I want the lock if it is free.
    Try,
    /// The lock is yours.
    Taken,
    /// Another client holds it.
    Busy,
    /// I release the lock.
    Release,
    /// You do not hold the lock any more.
    Released,
}

/// Holds the lock for the clients, each of which takes it once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Keeper {
    /// The bug: does not release the lock if somebody was refused in the meantime.
    bug: bool,
    holder: Option<NodeId>,
    refused: bool,
    /// Clients that had the lock; what they still ask for is old.
    served: BTreeSet<NodeId>,
}

impl Node for Keeper {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Try if self.served.contains(&from) => {}
            Msg::Try if self.holder.is_none_or(|holder| holder == from) => {
                self.holder = Some(from);
                cx.send(from, Msg::Taken);
            }
            Msg::Try => {
                self.refused = true;
                cx.send(from, Msg::Busy);
            }
            Msg::Release => {
                let first = self.served.insert(from);
                if first && !(self.bug && self.refused) {
                    (self.holder, self.refused) = (None, false);
                }
                cx.send(from, Msg::Released);
            }
            Msg::Taken | Msg::Busy | Msg::Released => cx.unexpected(msg),
        }
    }
}

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// It wants the lock.
    Trying,
    /// It has the lock.
    Holding,
    /// It has had the lock, and its release is not confirmed.
    Releasing,
    /// Its release is confirmed.
    Done,
}

/// Takes the lock once.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    keeper: NodeId,
    phase: Phase,
}

impl Client {
    fn ask(&self, cx: &mut Cx<Msg>) {
        let msg = if self.phase == Phase::Trying { Msg::Try } else { Msg::Release };
        cx.send(self.keeper, msg);
        let again = AGAIN + cx.random() % AGAIN;
        cx.set_timer("again", Duration::from_millis(again));
    }
}

impl Node for Client {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.ask(cx);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match (msg, self.phase) {
            (Msg::Taken, Phase::Trying) => {
                self.phase = Phase::Holding;
                cx.cancel_timer("again");
                cx.set_timer("hold", HOLD);
            }
            (Msg::Released, Phase::Releasing) => {
                self.phase = Phase::Done;
                cx.cancel_timer("again");
            }
            _ => {}
        }
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer.name == "hold" {
            self.phase = Phase::Releasing;
        }
        self.ask(cx);
    }
}

/// A keeper and its clients, on a network that loses a few messages.
pub fn system(nodes: u32, bug: bool) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync {
    move |system| {
        let keeper = system.node("keeper", Keeper { bug, ..Keeper::default() });
        for _ in 1..nodes {
            system.node("client", Client { keeper, phase: Phase::Trying });
        }
        system.faults(Faults::none().lose(3));
        system.eventually("all had it", |s| {
            s.all::<Client>().all(|(_, client)| client.phase == Phase::Done)
        });
    }
}
