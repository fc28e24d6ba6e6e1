//! Services as one writes them without Everhold. The tests run each of them, as it is, on
//! simulated hosts. A mistake that a test should find is a field of the service's configuration.

pub mod buffer;
#[cfg(feature = "web")]
pub mod counter;
#[cfg(feature = "gossip")]
pub mod gossip;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod kv;
#[cfg(feature = "web")]
pub mod orders;
pub mod pool;
#[cfg(feature = "raft")]
pub mod raft;
