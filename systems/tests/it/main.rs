//! Every case study finds its bug and is silent when the bug is fixed.

mod extent;
#[cfg(feature = "raft")]
mod raft;
mod storage;
mod two_phase;
