//! The calls from node to node, over HTTP.

use std::error::Error;

use openraft::BasicNode;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{PORT, Types};

type Called<T, E = RaftError<u64>> = Result<T, RPCError<u64, BasicNode, E>>;

/// The way to all other nodes.
pub(super) struct Peers(reqwest::Client);

impl Peers {
    pub(super) fn new() -> Peers {
        Peers(reqwest::Client::builder().no_proxy().build().expect("a client can be made"))
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, id: u64, node: &BasicNode) -> Peer {
        Peer { id, at: format!("http://{}:{PORT}/raft", node.addr), http: self.0.clone() }
    }
}

/// The way to one node.
pub(super) struct Peer {
    id: u64,
    at: String,
    http: reqwest::Client,
}

impl Peer {
    async fn call<T, E>(&self, path: &str, body: impl Serialize, option: RPCOption) -> Called<T, E>
    where
        T: DeserializeOwned,
        E: Error + DeserializeOwned,
    {
        let request = self.http.post(format!("{}/{path}", self.at)).json(&body);
        let answer =
            async { request.timeout(option.hard_ttl()).send().await?.json::<Result<T, E>>().await };
        let answer = answer.await.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)));
        answer?.map_err(|error| RPCError::RemoteError(RemoteError::new(self.id, error)))
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Called<AppendEntriesResponse<u64>> {
        self.call("append", request, option).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Called<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        self.call("snapshot", request, option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Called<VoteResponse<u64>> {
        self.call("vote", request, option).await
    }
}
