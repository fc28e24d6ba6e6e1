//! What happened: values, events, clocks, traces, cuts and file formats.
//!
//! - [`id`]: who took part.
//! - [`value`]: what a variable can hold.

pub mod id;
pub mod value;

pub use id::NodeId;
pub use value::Value;
