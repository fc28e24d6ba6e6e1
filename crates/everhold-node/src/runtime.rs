//! The seam between nodes and whatever runs them.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

use everhold_trace::NodeId;
use serde::Serialize;

use crate::disk::Disk;
use crate::process::Blueprint;
use crate::timer::{Time, Timer};
use crate::weights::Weights;

/// How a node reaches its runtime between the events of an async program.
pub type Handle<M> = Rc<RefCell<dyn Runtime<M>>>;

/// Whatever runs nodes: a strategy, a virtual clock, or real sockets.
///
/// Every method names the node that asks. Answers that are not a function of the program
/// (`random`, `choose`) are what a runtime records in order to replay.
pub trait Runtime<M> {
    /// The time on this node's clock.
    fn now(&self, node: NodeId) -> Time;
    /// Hands a message to the network.
    fn send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M);
    /// The same unless the way there is full: then the message comes back. A runtime without
    /// bounded buffers takes every message.
    ///
    /// # Errors
    ///
    /// The message, if the send buffer has no room for it.
    fn try_send(&mut self, from: NodeId, to: NodeId, tag: Tag, msg: M) -> Result<(), M> {
        self.send(from, to, tag, msg);
        Ok(())
    }
    /// Sets a timer, or moves it if it is set already.
    fn set_timer(&mut self, node: NodeId, timer: Timer, after: Duration);
    /// Takes a timer back; false if it was not set.
    fn cancel_timer(&mut self, node: NodeId, timer: Timer) -> bool;
    /// The next number of the node's own seeded stream.
    fn random(&mut self, node: NodeId) -> u64;
    /// Picks a number below `domain`, which is at least one.
    fn choose(&mut self, node: NodeId, label: &'static str, domain: u32) -> u32;
    /// Picks an option whose weight is not zero; the larger its weight, the more often.
    fn choose_weighted(&mut self, node: NodeId, label: &'static str, weights: Weights<'_>) -> u32;
    /// How often the node came back after a crash. Of the number, the lower half has to differ
    /// from one life of the node to the next.
    fn incarnation(&self, node: NodeId) -> u64;
    /// The node's disk.
    fn disk(&mut self, node: NodeId) -> &mut Disk;
    /// Tells every monitor that listens to events of this type.
    fn notify(&mut self, node: NodeId, event: &dyn Any, shown: &dyn Debug);
    /// Adds a node to the system.
    fn spawn(&mut self, parent: NodeId, kind: &str, blueprint: Blueprint<M>) -> NodeId;
    /// Takes the node out of the system for good, after the present event.
    fn halt(&mut self, node: NodeId);
    /// Reports that a named assertion does not hold.
    fn fail(&mut self, node: NodeId, assertion: &str, message: String);
    /// True when the execution is recorded, so that building texts is worth it.
    fn is_recorded(&self) -> bool;
    /// Adds a line to the record of the present event.
    fn note(&mut self, node: NodeId, text: String);
}

/// Ties an answer to its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Tag {
    /// A message on its own.
    #[default]
    None,
    /// Asks for an answer with the same number. The upper half is the asking node's
    /// [incarnation](Runtime::incarnation), so that no two requests of a node are alike.
    Request(u64),
    /// Answers the request with this number.
    Reply(u64),
}

/// The right to answer one request later; see [`Cx::ticket`](crate::Cx::ticket).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Ticket {
    /// Who asked.
    pub to: NodeId,
    pub(crate) tag: Tag,
}
