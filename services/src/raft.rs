//! A key-value store on openraft: the nodes talk over axum and reqwest, and their logs and votes
//! are files.

mod client;
mod network;
mod store;

use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, SnapshotPolicy};
use serde::{Deserialize, Serialize};

pub use client::Client;
pub use store::Voting;

use network::Peers;
use store::{Log, Machine};

openraft::declare_raft_types!(
    /// The types of the store.
    pub Types: D = Write, R = (),
);

/// A change of the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Write {
    pub key: String,
    pub value: String,
}

/// The answer to a write: the node that made it, and the term in which it was the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub node: u64,
    pub term: u64,
}

type Raft = openraft::Raft<Types>;
/// The result of a call that only another node makes.
type Answer<T, E = RaftError<u64>> = Json<Result<T, E>>;

/// The port of every node.
const PORT: u16 = 8080;

#[derive(Clone)]
struct Node {
    id: u64,
    raft: Raft,
    machine: Machine,
}

/// The program of a node.
#[tokio::main(flavor = "current_thread")]
pub async fn main_with(id: u64, voting: Voting) -> io::Result<()> {
    let config = openraft::Config {
        heartbeat_interval: 200,
        election_timeout_min: 600,
        election_timeout_max: 1_200,
        snapshot_policy: SnapshotPolicy::Never,
        ..openraft::Config::default()
    };
    let (log, machine) = (Log::open(voting)?, Machine::default());
    let raft = Raft::new(id, Arc::new(config), Peers::new(), log, machine.clone());
    let raft = raft.await.map_err(io::Error::other)?;
    let routes = Router::new()
        .route("/raft/append", post(append))
        .route("/raft/vote", post(vote))
        .route("/raft/snapshot", post(snapshot))
        .route("/start", post(start))
        .route("/write", post(write))
        .route("/read/{key}", get(read))
        .with_state(Node { id, raft, machine });
    let listener = tokio::net::TcpListener::bind(("0.0.0.0", PORT)).await?;
    axum::serve(listener, routes).await
}

async fn append(
    State(node): State<Node>,
    Json(request): Json<AppendEntriesRequest<Types>>,
) -> Answer<AppendEntriesResponse<u64>> {
    Json(node.raft.append_entries(request).await)
}

async fn vote(
    State(node): State<Node>,
    Json(request): Json<VoteRequest<u64>>,
) -> Answer<VoteResponse<u64>> {
    Json(node.raft.vote(request).await)
}

async fn snapshot(
    State(node): State<Node>,
    Json(request): Json<InstallSnapshotRequest<Types>>,
) -> Answer<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
    Json(node.raft.install_snapshot(request).await)
}

/// Makes these nodes a cluster, if they are not one yet.
async fn start(State(node): State<Node>, Json(nodes): Json<BTreeMap<u64, String>>) -> Json<()> {
    let nodes = nodes.into_iter().map(|(id, name)| (id, BasicNode::new(name)));
    let nodes: BTreeMap<u64, BasicNode> = nodes.collect();
    // If this fails, another start came first.
    let _ = node.raft.initialize(nodes).await;
    Json(())
}

/// Writes, if this node is the leader.
async fn write(
    State(node): State<Node>,
    Json(write): Json<Write>,
) -> Result<Json<Written>, StatusCode> {
    let done = node.raft.client_write(write).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(Json(Written { node: node.id, term: done.log_id.leader_id.term }))
}

/// Reads, if this node is the leader.
async fn read(
    State(node): State<Node>,
    Path(key): Path<String>,
) -> Result<Json<Option<String>>, StatusCode> {
    let leads = node.raft.ensure_linearizable().await;
    leads.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(Json(node.machine.get(&key)))
}
