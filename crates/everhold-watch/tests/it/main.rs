//! Tests of the crate as others use it.

mod checker;
mod dataflow;
mod engine;
mod feed;
mod log;
#[cfg(feature = "nats")]
mod nats;
mod sampling;
