//! What happened: values, events, clocks, traces, cuts and file formats.
//!
//! - [`id`]: who took part.

pub mod id;

pub use id::NodeId;
