//! Every case study finds its bug and is silent when the bug is fixed.

mod almost;
mod chord;
mod extent;
mod inferred;
mod kademlia;
mod macepc;
mod overlays;
mod path_vector;
mod paxos;
#[cfg(feature = "raft")]
mod raft;
#[cfg(feature = "raft")]
mod raft_language;
#[cfg(all(feature = "live", feature = "raft"))]
mod raft_live;
mod randtree;
mod shards;
mod storage;
mod swim;
mod timed;
mod two_phase;
