//! Recorded executions: values, events, clocks, traces, cuts and file formats.
//!
//! - [`id`]: who took part.
//! - [`value`]: what a variable can hold.
//! - [`event`]: one step of one node, and messages.
//! - [`trace`]: a recorded execution and how to record one.
//! - [`order`]: happens-before, vector clocks rebuilt from messages.
//! - [`cut`]: consistent and quiet cuts without walking the lattice.
//! - [`format`](mod@format): trace files, and what can be wrong with them.
//! - `import`: logs of other tools (feature `import`).
//! - [`export`]: traces for other tools and for people.
//! - [`text`]: numbers as text for people.
//! - [`wire`]: what a probe tells a checker while the system runs.

pub mod cut;
pub mod event;
pub mod export;
mod flights;
pub mod format;
pub mod id;
#[cfg(feature = "import")]
pub mod import;
pub mod order;
#[doc(hidden)]
pub mod tap;
pub mod text;
pub mod trace;
pub mod value;
pub mod wire;

pub use cut::{Cuts, Slice};
pub use event::{Event, EventId, EventKind, Mark, MarkKind, MessageId, Observation, Send, Time};
pub use flights::Flights;
pub use id::NodeId;
pub use order::{Delivery, Order, Undelivered};
pub use trace::{Execution, LocalStates, NodeInfo, TraceBuilder, notes};
pub use value::Value;
