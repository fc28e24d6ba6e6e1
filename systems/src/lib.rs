//! Case studies: real protocols with their bugs as values, each a test.
//!
//! - [`raft`](mod@raft): the `raft` crate of TiKV, in a modelled environment.
//! - [`storage`]: the replicating storage system of the P# paper.

#[cfg(feature = "raft")]
pub mod raft;
pub mod storage;
