//! Services as one writes them without Everhold. The tests run each of them, as it is, on
//! simulated hosts. A mistake that a test should find is a field of the service's configuration.

pub mod buffer;
pub mod counter;
pub mod kv;
pub mod orders;
pub mod pool;
