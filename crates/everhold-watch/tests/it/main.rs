//! Tests of the crate as others use it.

mod alerts;
#[cfg(all(feature = "nats", feature = "tls"))]
#[path = "../../../everhold-tls/tests/it/certificates.rs"]
mod certificates;
mod checker;
mod dataflow;
mod deaf;
mod engine;
mod feed;
mod gathered;
mod groups;
mod log;
#[cfg(feature = "nats")]
mod nats;
#[cfg(all(feature = "nats", feature = "tls"))]
mod nats_tls;
mod sampling;
mod standing;
