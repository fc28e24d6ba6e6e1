//! Every case study finds its bug and is silent when the bug is fixed.

mod almost;
mod chord;
#[cfg(feature = "live")]
mod chord_live;
mod chord_losses;
#[cfg(feature = "live")]
mod clocks_live;
mod extent;
mod fabric;
mod field;
#[cfg(feature = "live")]
mod full_disk;
mod inferred;
mod kademlia;
#[cfg(feature = "live")]
mod live;
mod lock;
#[cfg(feature = "live")]
mod lock_live;
mod macepc;
mod migrating_table;
mod mps;
#[cfg(feature = "live")]
mod mps_live;
mod overlays;
mod path_vector;
mod paxos;
mod primary_backup;
#[cfg(feature = "live")]
mod primary_backup_live;
mod progress;
#[cfg(feature = "raft")]
mod raft;
#[cfg(feature = "raft")]
mod raft_language;
#[cfg(all(feature = "live", feature = "raft"))]
mod raft_live;
mod randtree;
mod retries;
mod ricart_agrawala;
#[cfg(feature = "live")]
mod search_engine_live;
mod shards;
mod shrunk;
mod storage;
mod swim;
mod termination;
mod timed;
mod tokens;
mod torrent;
#[cfg(feature = "live")]
mod torrent_live;
mod two_phase;
