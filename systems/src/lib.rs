//! Case studies: real protocols with their known bugs as values, each with a test.
//!
//! - [`raft`](mod@raft): the `raft` crate of TiKV, in a modelled environment.
//! - [`storage`]: the replicating storage system of the P# paper.
//! - [`migrating_table`]: the live table migration of the P# paper.
//! - [`extent`]: the extent manager of Azure Storage vNext, with the harness of the P# paper.
//! - [`paxos`]: Paxos with acceptors that crash.
//! - [`bookings`]: a box office on threads, sockets and a file, which knows nothing of Everhold.
//! - [`chord`]: the ring of Mace.
//! - [`fabric`]: a model of Azure Service Fabric with two services on it, after the P# paper.
//! - [`field`]: protocols in which the field counts buggy executions.
//! - [`kademlia`]: routing by the distance of identifiers.
//! - [`path_vector`]: routing between networks as in BGP.
//! - [`randtree`]: the overlay tree of Mace.
//! - [`retries`]: clients that repeat requests until they are answered.
//! - [`ricart_agrawala`]: endless mutual exclusion, hosted: a hard test for a watch.
//! - [`shards`]: keys with one owner at a time, which move between nodes.
//! - [`swim`]: membership by gossip.
//! - [`termination`]: termination detection in a ring.
//! - [`progress`]: heartbeats, gossip, election, retries and leases of any size, for tests of
//!   progress.
//! - [`lock`]: a lock service with leases and cached locks; [`primary_backup`]: storage after
//!   PacificA; [`search_engine`]: a front end and index servers of which one part is slow;
//!   [`torrent`]: a BitTorrent client. All are from the D³S paper and are hosted by [`live`].
//! - [`mps`]: the leader election of a Paxos service, from the D³S paper, also hosted.
//! - [`two_phase`]: two-phase commit as in TLA+ and Stateright.
//! - [`bullet`]: Bullet' over RanSub, which loses diffs and whose rejections name no other nodes.
//! - [`pastry`]: Pastry, which evicts nodes from leafsets silently; [`bamboo`]: Bamboo, which
//!   forgets nodes and does not introduce neighbours; [`dht`]: their common parts. From the MacePC
//!   paper.
//! - [`timed`]: the systems of the MacePC paper on a virtual clock, by name.

pub mod bamboo;
pub mod bookings;
pub mod bullet;
pub mod chord;
pub mod dht;
pub mod extent;
pub mod fabric;
pub mod field;
pub mod kademlia;
#[cfg(feature = "live")]
pub mod live;
pub mod lock;
pub mod migrating_table;
pub mod mps;
pub mod pastry;
pub mod path_vector;
pub mod paxos;
pub mod primary_backup;
pub mod progress;
#[cfg(feature = "raft")]
pub mod raft;
pub mod randtree;
pub mod retries;
pub mod ricart_agrawala;
pub mod search_engine;
pub mod shards;
pub mod storage;
pub mod swim;
pub mod termination;
pub mod timed;
pub mod torrent;
pub mod two_phase;
