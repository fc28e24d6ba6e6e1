//! Services as one writes them without Everhold. The tests run each of them, as it is, on
//! simulated hosts. A mistake that a test should find is a field of the service's configuration.

pub mod buffer;
pub mod counter;
pub mod feed;
pub mod kv;
pub mod lists;
pub mod members;
pub mod orders;
pub mod pool;
pub mod raft;
