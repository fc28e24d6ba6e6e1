//! A model of Azure Service Fabric, the third case study of the P# paper (FAST 2016, section 5).
//!
//! The platform makes a user's [`Service`] reliable. It runs several replicas: one *primary*, which
//! serves requests and forwards the operations that change its state, and *secondaries*. When the
//! primary fails, a secondary is elected, and a new replica is launched: an *idle* secondary, which
//! receives a copy of the state and is then promoted to *active* secondary. Services call each other by
//! name. If no active secondary is left, an idle one is elected and told that data was lost.
//!
//! A service runs on the model unchanged: it sees a [`Host`] and never a replica. In reading order:
//! `replica` hosts a service, [`manager`] is the platform's failover manager, [`counter`] is a service
//! as users write them, and [`pipeline`] chains services in the manner of CScale.
//!
//! The model's own bug is the paper's. Deviations: failures are detected at once, and an operation is
//! acknowledged when all secondaries that have a copy have applied it.

pub mod counter;
pub mod manager;
pub mod pipeline;
mod replica;

use everhold::node::Message;
use everhold::prelude::*;

pub use manager::{Bug, Manager};
pub use replica::{PROMOTED, Replica};

/// The role of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Role {
    /// It serves requests.
    Primary,
    /// It has no copy of the state yet.
    IdleSecondary,
    /// It has a copy and follows the primary.
    ActiveSecondary,
}

/// A service as a user writes it.
pub trait Service: Clone + Serialize + 'static {
    /// A request of a client or of another service.
    type Request: Message;
    /// A change of the state.
    type Operation: Message;
    /// A copy of the state.
    type State: Message;

    /// Serves a request; only called on a primary.
    fn request(&mut self, host: &mut Host<Self>, request: Self::Request);
    /// Changes the state, on every replica.
    fn apply(&mut self, operation: &Self::Operation);
    /// A copy of the state for a new secondary.
    fn copy(&self) -> Self::State;
    /// Becomes a copy.
    fn restore(&mut self, state: Self::State);
    /// The replica was elected although it has no copy of the state.
    fn data_lost(&mut self) {}
}

/// The number of a service, by which others call it.
pub type Name = usize;

/// The means of a service while it serves a request.
#[derive(Debug)]
pub struct Host<S: Service> {
    operations: Vec<S::Operation>,
    calls: Vec<(Name, S::Request)>,
}

impl<S: Service> Host<S> {
    /// Changes the state here and on all secondaries.
    pub fn replicate(&mut self, operation: S::Operation) {
        self.operations.push(operation);
    }

    /// Calls another service.
    pub fn call(&mut self, service: Name, request: S::Request) {
        self.calls.push((service, request));
    }
}

/// The messages of the platform, for a service with these requests, operations and states.
#[derive(Clone, Debug, Serialize)]
pub enum Msg<R, O, C> {
    /// To the manager: pass this request on to the primary of a service.
    Call(Name, R),
    /// Manager to primary: serve this request of the sender.
    Request(NodeId, R),
    /// Primary to client: the request was served, and its operations are on all replicas.
    Served,
    /// Primary to secondary: the operation with this number.
    Operation(u64, O),
    /// Secondary to primary: operations up to this one are applied.
    Applied(u64),
    /// Manager to primary: send a copy of your state to this replica, in this term.
    Build(NodeId, u32),
    /// Primary to secondary: the state after the operation with this number, in this term.
    Copy(u32, u64, C),
    /// Secondary to manager: I have a copy.
    Copied,
    /// Manager to replica: this is your role now; data was lost if the flag is set.
    Become(Role, bool),
    /// The environment to a replica: fail.
    Fail,
}

/// The messages of a service.
pub type MsgOf<S> = Msg<<S as Service>::Request, <S as Service>::Operation, <S as Service>::State>;
