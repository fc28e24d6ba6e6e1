//! Inside a deployed process: nodes on real sockets, probes, recordings, assertions.
//!
//! - [`probe`]: what a service shows of itself while it runs, at about ten nanoseconds a value.
//! - [`recording`]: the same as a trace file of bounded size.
//!
//! Nothing here may harm the application: what cannot be sent is dropped and counted, what goes
//! wrong is reported through a [`Report`] and the service goes on.

mod backoff;
pub mod probe;
pub mod recording;
mod report;
mod time;

pub use everhold_trace::NodeId;
pub use everhold_trace::wire::Stamp;
pub use probe::{Envelope, Probe, Var};
pub use recording::Recording;
pub use report::Report;
