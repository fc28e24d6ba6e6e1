//! Protocols in which the field counts buggy executions, written anew from their descriptions.
//!
//! The authors of P#, P and Coyote compare schedulers by the share of executions of a small protocol
//! that meet its bug. These are the protocols for which they publish shares or describe the bug;
//! [`paxos`](crate::paxos) and [`two_phase`](crate::two_phase) have files of their own.
//!
//! - [`raft_votes`]: the election of Raft, with a candidate that counts answers instead of voters.
//! - [`failure_detector`]: a failure detector whose timer may fire although it was cancelled.
//! - [`chain_replication`]: chain replication whose servers fail.
//! - [`german`]: German's cache coherence protocol.

pub mod chain_replication;
pub mod failure_detector;
pub mod german;
pub mod raft_votes;
