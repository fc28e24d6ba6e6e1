//! Inside a deployed process: nodes on real sockets, probes, recordings, assertions.
//!
//! - [`probe`]: what a service shows of itself while it runs, at about ten nanoseconds a value.
//! - [`host`]: the same nodes that were explored, on sockets, with timers and disks.
//! - [`recording`]: what a probe sees, as a trace file of bounded size.
//! - [`assertion`]: properties that a node asserts over the whole system.
//!
//! Nothing here may harm the application: what cannot be sent is dropped and counted, what goes
//! wrong is reported through a [`Report`] and the service goes on.

pub mod assertion;
mod backoff;
pub mod host;
pub mod probe;
pub mod recording;
mod report;
mod time;

pub use assertion::{Assertion, Assertions};
/// Encrypted connections to checkers, from files; see `docs/security.md`.
pub use everhold_tls as tls;
pub use everhold_trace::NodeId;
pub use everhold_trace::wire::Stamp;
pub use host::{Client, Codec, Config, Host};
pub use probe::{Envelope, NOBODY, Probe, Var};
pub use recording::Recording;
pub use report::Report;

#[doc = include_str!("../../../docs/live.md")]
#[cfg(doctest)]
struct Documentation;

#[doc = include_str!("../../../docs/security.md")]
#[cfg(all(doctest, feature = "tls"))]
struct Security;
