//! What happened: values, events, clocks, traces, cuts and file formats.
//!
//! - [`id`]: who took part.
//! - [`value`]: what a variable can hold.
//! - [`event`]: one step of one node, and messages.
//! - [`trace`]: a recorded execution and how to record one.
//! - [`format`](mod@format): trace files, and what can be wrong with them.

pub mod event;
pub mod format;
pub mod id;
pub mod trace;
pub mod value;

pub use event::{Event, EventId, EventKind, Mark, MarkKind, MessageId, Observation, Send, Time};
pub use id::NodeId;
pub use trace::{Execution, LocalStates, NodeInfo, TraceBuilder, notes};
pub use value::Value;
