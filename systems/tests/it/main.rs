//! Every case study finds its bug and is silent when the bug is fixed.

mod chord;
mod extent;
mod paxos;
#[cfg(feature = "raft")]
mod raft;
#[cfg(feature = "raft")]
mod raft_language;
mod randtree;
mod storage;
mod timed;
mod two_phase;
