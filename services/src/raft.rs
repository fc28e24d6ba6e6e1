//! A key-value store on openraft, over axum and reqwest, with its log and its vote in files.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Write};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftLogReader, RaftSnapshotBuilder,
    SnapshotMeta, SnapshotPolicy, StorageError, StoredMembership, Vote,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A command: this key gets this value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Set {
    key: String,
    value: u64,
}

openraft::declare_raft_types!(pub Types: D = Set, R = u64);

type Raft = openraft::Raft<Types>;
type Stored<T> = Result<T, StorageError<u64>>;
type Called<T, E> = Result<T, RPCError<u64, BasicNode, RaftError<u64, E>>>;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Config {
    pub id: u64,
    /// The addresses of all nodes; the number of a node is its place.
    pub nodes: Vec<String>,
    /// Whether entries are on the disk before they are acknowledged. They have to be.
    pub syncs: bool,
}

/// The log, and the vote.
#[derive(Clone)]
struct Log(Arc<Mutex<Inner>>);

struct Inner {
    entries: BTreeMap<u64, Entry<Types>>,
    vote: Option<Vote<u64>>,
    file: File,
    syncs: bool,
}

/// A line of the log's file.
#[derive(Serialize, Deserialize)]
enum Line {
    Entry(Entry<Types>),
    Truncated(u64),
}

impl Log {
    fn open(syncs: bool) -> std::io::Result<Log> {
        let mut entries = BTreeMap::new();
        let text = fs::read_to_string("/log").unwrap_or_default();
        let mut kept = 0;
        for line in text.split_inclusive('\n') {
            // A crash may have left part of the last line.
            let Ok(known) = serde_json::from_str(line) else { break };
            kept += line.len() as u64;
            match known {
                Line::Entry(entry) => drop(entries.insert(entry.log_id.index, entry)),
                Line::Truncated(from) => drop(entries.split_off(&from)),
            }
        }
        let vote = fs::read("/vote").ok().and_then(|vote| serde_json::from_slice(&vote).ok());
        let file = OpenOptions::new().create(true).append(true).open("/log")?;
        file.set_len(kept)?;
        file.sync_all()?;
        File::open("/")?.sync_all()?;
        Ok(Log(Arc::new(Mutex::new(Inner { entries, vote, file, syncs }))))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

impl Inner {
    fn write(&mut self, line: &Line) {
        let text = serde_json::to_string(line).expect("entries are plain data");
        self.file.write_all(format!("{text}\n").as_bytes()).expect("the disk works");
    }

    fn sync(&self) {
        if self.syncs {
            self.file.sync_data().expect("the disk works");
        }
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Stored<Vec<Entry<Types>>> {
        Ok(self.lock().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Stored<LogState<Types>> {
        let last_log_id = self.lock().entries.values().last().map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: None, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Stored<()> {
        let save = || -> std::io::Result<()> {
            let mut file = File::create("/vote.new")?;
            file.write_all(&serde_json::to_vec(vote)?)?;
            file.sync_all()?;
            fs::rename("/vote.new", "/vote")?;
            File::open("/")?.sync_all()
        };
        save().expect("the disk works");
        self.lock().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote<u64>>> {
        Ok(self.lock().vote)
    }

    async fn append<I>(&mut self, entries: I, done: LogFlushed<Types>) -> Stored<()>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut log = self.lock();
        for entry in entries {
            log.write(&Line::Entry(entry.clone()));
            log.entries.insert(entry.log_id.index, entry);
        }
        log.sync();
        drop(log);
        done.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<u64>) -> Stored<()> {
        let mut log = self.lock();
        log.entries.split_off(&from.index);
        log.write(&Line::Truncated(from.index));
        log.sync();
        Ok(())
    }

    async fn purge(&mut self, _: LogId<u64>) -> Stored<()> {
        Ok(())
    }
}

/// The values, in memory: after a restart they are made from the log.
#[derive(Clone, Default)]
struct Machine(Arc<Mutex<Applied>>);

#[derive(Default)]
struct Applied {
    last: Option<LogId<u64>>,
    members: StoredMembership<u64, BasicNode>,
    values: BTreeMap<String, u64>,
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<Types>> {
        let applied = self.0.lock().unwrap();
        let bytes = serde_json::to_vec(&applied.values).expect("values are plain data");
        let meta = SnapshotMeta {
            last_log_id: applied.last,
            last_membership: applied.members.clone(),
            snapshot_id: format!("{:?}", applied.last),
        };
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Machine;

    async fn applied_state(
        &mut self,
    ) -> Stored<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        let applied = self.0.lock().unwrap();
        Ok((applied.last, applied.members.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut applied = self.0.lock().unwrap();
        let mut apply = |entry: Entry<Types>| {
            applied.last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Normal(Set { key, value }) => {
                    applied.values.insert(key, value);
                    value
                }
                EntryPayload::Membership(members) => {
                    applied.members = StoredMembership::new(Some(entry.log_id), members);
                    0
                }
                EntryPayload::Blank => 0,
            }
        };
        Ok(entries.into_iter().map(&mut apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Stored<()> {
        let values = serde_json::from_slice(snapshot.get_ref()).expect("it was written by a peer");
        let (last, members) = (meta.last_log_id, meta.last_membership.clone());
        *self.0.lock().unwrap() = Applied { last, members, values };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<Types>>> {
        Ok(None)
    }
}

/// The way to the other nodes.
struct Network;

struct Peer {
    http: reqwest::Client,
    id: u64,
    address: String,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, id: u64, node: &BasicNode) -> Peer {
        Peer { http: http(), id, address: node.addr.clone() }
    }
}

fn http() -> reqwest::Client {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_millis(500));
    http.build().expect("a client without TLS can be made")
}

impl Peer {
    async fn call<Q: Serialize, A: DeserializeOwned, E: DeserializeOwned + std::error::Error>(
        &self,
        path: &str,
        request: Q,
    ) -> Called<A, E> {
        let unreachable = |error: reqwest::Error| RPCError::Unreachable(Unreachable::new(&error));
        let url = format!("http://{}/{path}", self.address);
        let answer = self.http.post(url).json(&request).send().await.map_err(unreachable)?;
        let result: Result<A, RaftError<u64, E>> = answer.json().await.map_err(unreachable)?;
        result.map_err(|error| RPCError::RemoteError(RemoteError::new(self.id, error)))
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        self.call("append", request).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Called<InstallSnapshotResponse<u64>, InstallSnapshotError> {
        self.call("snapshot", request).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        _: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        self.call("vote", request).await
    }
}

/// A node's program.
#[tokio::main(flavor = "current_thread")]
pub async fn main_with(config: Config) -> std::io::Result<()> {
    let settings = openraft::Config {
        heartbeat_interval: 250,
        election_timeout_min: 1_000,
        election_timeout_max: 2_000,
        snapshot_policy: SnapshotPolicy::Never,
        ..Default::default()
    };
    let log = Log::open(config.syncs)?;
    let machine = Machine::default();
    let raft = Raft::new(config.id, Arc::new(settings), Network, log, machine.clone());
    let raft = raft.await.map_err(std::io::Error::other)?;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:80").await?;
    if config.id == 0 && !raft.is_initialized().await.map_err(std::io::Error::other)? {
        let nodes = (0..).zip(config.nodes.iter().map(|address| BasicNode::new(address)));
        raft.initialize(nodes.collect::<BTreeMap<u64, _>>())
            .await
            .map_err(std::io::Error::other)?;
    }
    let routes = Router::new()
        .route("/append", post(append))
        .route("/vote", post(vote))
        .route("/snapshot", post(snapshot))
        .route("/set", post(set))
        .route("/values", get(values));
    axum::serve(listener, routes.with_state((raft, machine))).await
}

type App = State<(Raft, Machine)>;

async fn append(
    State((raft, _)): App,
    Json(request): Json<AppendEntriesRequest<Types>>,
) -> Json<Result<AppendEntriesResponse<u64>, RaftError<u64>>> {
    Json(raft.append_entries(request).await)
}

async fn vote(
    State((raft, _)): App,
    Json(request): Json<VoteRequest<u64>>,
) -> Json<Result<VoteResponse<u64>, RaftError<u64>>> {
    Json(raft.vote(request).await)
}

async fn snapshot(
    State((raft, _)): App,
    Json(request): Json<InstallSnapshotRequest<Types>>,
) -> Json<Result<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>>> {
    Json(raft.install_snapshot(request).await)
}

/// Answers with nothing if this node is not the leader.
async fn set(State((raft, _)): App, Json(set): Json<Set>) -> Json<Option<u64>> {
    Json(raft.client_write(set).await.ok().map(|written| written.data))
}

async fn values(State((raft, machine)): App) -> Json<Option<BTreeMap<String, u64>>> {
    let leads = raft.ensure_linearizable().await.is_ok();
    Json(leads.then(|| machine.0.lock().unwrap().values.clone()))
}

/// A client, which asks one node after the other until there is an answer.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    nodes: Vec<String>,
}

impl Client {
    pub fn new(nodes: Vec<String>) -> Client {
        Client { http: http(), nodes }
    }

    pub async fn set(&self, key: &str, value: u64) -> u64 {
        let set = Set { key: key.to_owned(), value };
        self.insist(|node| self.http.post(format!("http://{node}/set")).json(&set)).await
    }

    pub async fn get(&self, key: &str) -> Option<u64> {
        let values: BTreeMap<String, u64> =
            self.insist(|node| self.http.get(format!("http://{node}/values"))).await;
        values.get(key).copied()
    }

    async fn insist<T: DeserializeOwned>(
        &self,
        request: impl Fn(&str) -> reqwest::RequestBuilder,
    ) -> T {
        for node in self.nodes.iter().cycle() {
            if let Ok(answer) = request(node).send().await
                && let Ok(Some(value)) = answer.json().await
            {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("there are nodes")
    }
}
