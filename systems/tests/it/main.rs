//! Every case study finds its bug and is silent when the bug is fixed.

#[cfg(feature = "raft")]
mod raft;
mod storage;
