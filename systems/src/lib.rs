//! Case studies: real protocols with their bugs as values, each a test.
//!
//! - [`raft`](mod@raft): the `raft` crate of TiKV, in a modelled environment.
//! - [`storage`]: the replicating storage system of the P# paper.
//! - [`extent`]: the extent manager of Azure Storage vNext, with the harness of the P# paper.
//! - [`paxos`]: single-decree Paxos with acceptors that crash.
//! - [`chord`]: the ring of Mace.
//! - [`randtree`]: the overlay tree of Mace.
//! - [`two_phase`]: two-phase commit as in TLA+ and Stateright.
//! - [`timed`]: the systems of the MacePC paper on a virtual clock, by name.

pub mod chord;
pub mod extent;
pub mod paxos;
#[cfg(feature = "raft")]
pub mod raft;
pub mod randtree;
pub mod storage;
pub mod timed;
pub mod two_phase;
