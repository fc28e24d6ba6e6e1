//! The parts of Everhold inside a deployed process: nodes on real sockets, probes, recordings,
//! assertions.
//!
//! - [`probe`]: observations of a running service, at about ten nanoseconds per value.
//! - [`host`]: explored nodes on sockets, with timers and disks.
//! - [`recording`]: the records of probes, as trace files of bounded size.
//! - [`inserted`]: the calls that `everhold instrument` puts into copies of packages.
//! - [`assertion`]: properties over the whole system that a node asserts.
//!
//! Nothing here may harm the application: data that cannot be sent is dropped and counted, and
//! problems are reported through a [`Report`] while the service continues.

pub mod assertion;
mod backoff;
pub mod host;
pub mod inserted;
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
pub use probe::{Agent, Envelope, Feed, NOBODY, Probe, Var};
pub use recording::Recording;
pub use report::Report;

#[doc = include_str!("../../../docs/live.md")]
#[cfg(doctest)]
struct Documentation;

#[doc = include_str!("../../../docs/security.md")]
#[cfg(all(doctest, feature = "tls"))]
struct Security;
