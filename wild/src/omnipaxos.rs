//! OmniPaxos: servers with the crate's own storage in memory, and a client that appends entries and
//! asks for snapshots.
//!
//! The crate promises a replicated log with strong consistency, under lost messages and partitions
//! (its own tests drop messages of every kind; `tick` resends, sequence numbers reveal gaps). Its
//! messages are numbered for each pair of servers, so the network keeps their order. The storage in
//! memory does not survive a crash, so nothing crashes here.

use everhold::prelude::*;
use everhold::{Network, System};
use omnipaxos::messages::Message;
use omnipaxos::storage::{self, Entry};
use omnipaxos::util::LogEntry;
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig};
use omnipaxos_storage::memory_storage::MemoryStorage;
use serde::Serializer;

/// The number of servers.
pub const SERVERS: u32 = 3;
/// The number of entries that the client appends.
pub const ENTRIES: u32 = 6;
/// The interval between two ticks of a server.
const TICK: Duration = Duration::from_millis(10);

/// The first property: what two servers have decided differs at no index.
pub const AGREEMENT: &str = "decided logs agree";
/// The second: a server never takes back what it has shown as decided.
pub const STABILITY: &str = "what is decided stays decided";
/// The third: a server can read as many decided entries as it says that there are.
pub const COMPLETENESS: &str = "the decided log has all its entries";

/// An entry of the log; whether the log is synchronised with snapshots is part of its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command<const SNAPSHOTS: bool>(pub u32);

/// A snapshot that keeps all entries in their order, so that nothing is hidden by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered<const SNAPSHOTS: bool>(pub Vec<u32>);

impl<const S: bool> Entry for Command<S> {
    type Snapshot = Ordered<S>;
}

impl<const S: bool> storage::Snapshot<Command<S>> for Ordered<S> {
    fn create(entries: &[Command<S>]) -> Self {
        Ordered(entries.iter().map(|entry| entry.0).collect())
    }

    fn merge(&mut self, delta: Self) {
        self.0.extend(delta.0);
    }

    fn use_snapshots() -> bool {
        S
    }
}

/// The messages: the client's wishes, and those of the crate.
#[derive(Clone, Debug, Serialize)]
pub enum Msg<const SNAPSHOTS: bool> {
    /// Append this entry.
    Append(u32),
    /// Take a snapshot of what is decided; `true`: on this server only.
    Snapshot(bool),
    /// A message between servers.
    Wire(Box<Message<Command<SNAPSHOTS>>>),
}

/// A server.
pub struct Server<const SNAPSHOTS: bool> {
    paxos: OmniPaxos<Command<SNAPSHOTS>, MemoryStorage<Command<SNAPSHOTS>>>,
    decided: Vec<u32>,
}

/// The part of a server's state that traces show.
#[derive(Serialize)]
struct Shown<'a> {
    leader: Option<u64>,
    accepted: usize,
    compacted: usize,
    decided: &'a [u32],
}

impl<const S: bool> Serialize for Server<S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let shown = Shown {
            leader: self.paxos.get_current_leader().map(|(leader, _)| leader),
            accepted: self.paxos.get_accepted_idx(),
            compacted: self.paxos.get_compacted_idx(),
            decided: &self.decided,
        };
        shown.serialize(serializer)
    }
}

impl<const S: bool> Server<S> {
    fn new(id: NodeId) -> Self {
        let config = OmniPaxosConfig {
            cluster_config: ClusterConfig {
                configuration_id: 1,
                nodes: (0..SERVERS).map(|server| pid(NodeId(server))).collect(),
                flexible_quorum: None,
            },
            server_config: ServerConfig {
                pid: pid(id),
                election_tick_timeout: 5,
                resend_message_tick_timeout: 10,
                ..ServerConfig::default()
            },
        };
        let paxos = config.build(MemoryStorage::default()).expect("the configuration is valid");
        Server { paxos, decided: Vec::new() }
    }

    /// The decided entries, out of the snapshot and the log.
    fn read(&self) -> Vec<u32> {
        let entries = self.paxos.read_decided_suffix(0).unwrap_or_default();
        let values = entries.into_iter().flat_map(|entry| match entry {
            LogEntry::Decided(entry) => vec![entry.0],
            LogEntry::Snapshotted(snapshotted) => snapshotted.snapshot.0,
            LogEntry::Undecided(_) | LogEntry::Trimmed(_) | LogEntry::StopSign(..) => Vec::new(),
        });
        values.collect()
    }

    /// Sends what the crate wants sent, and looks at what it has decided.
    fn settle(&mut self, cx: &mut Cx<Msg<S>>) {
        let mut outgoing = Vec::new();
        self.paxos.take_outgoing_messages(&mut outgoing);
        for message in outgoing {
            cx.send(node(message.get_receiver()), Msg::Wire(Box::new(message)));
        }
        let now = self.read();
        let index = self.paxos.get_decided_idx();
        cx.check(now.len() == index, COMPLETENESS, || {
            format!("{index} entries are decided, and {now:?} can be read")
        });
        cx.check(now.starts_with(&self.decided), STABILITY, || {
            format!("{:?} was decided, and now it is {now:?}", self.decided)
        });
        self.decided = now;
    }
}

impl<const S: bool> Node for Server<S> {
    type Msg = Msg<S>;

    fn start(&mut self, cx: &mut Cx<Msg<S>>) {
        cx.set_timer("tick", TICK);
    }

    fn message(&mut self, cx: &mut Cx<Msg<S>>, _: NodeId, msg: Msg<S>) {
        match msg {
            Msg::Append(value) => {
                self.paxos.append(Command(value)).expect("no configuration change is pending");
            }
            // There may be nothing to compact: the answer does not matter.
            Msg::Snapshot(alone) => drop(self.paxos.snapshot(None, alone)),
            Msg::Wire(message) => self.paxos.handle_incoming(*message),
        }
        self.settle(cx);
    }

    fn timer(&mut self, cx: &mut Cx<Msg<S>>, _: Timer) {
        self.paxos.tick();
        self.settle(cx);
        cx.set_timer("tick", TICK);
    }
}

/// The client: each entry goes to some server, once.
#[derive(Clone, Serialize)]
struct Client<const SNAPSHOTS: bool> {
    sent: u32,
}

impl<const S: bool> Client<S> {
    const PAUSE: Duration = Duration::from_millis(100);
}

impl<const S: bool> Node for Client<S> {
    type Msg = Msg<S>;

    fn start(&mut self, cx: &mut Cx<Msg<S>>) {
        cx.set_timer("next", Self::PAUSE);
    }

    fn message(&mut self, cx: &mut Cx<Msg<S>>, _: NodeId, msg: Msg<S>) {
        cx.unexpected(msg);
    }

    fn timer(&mut self, cx: &mut Cx<Msg<S>>, _: Timer) {
        let server = NodeId(cx.choose("server", SERVERS as usize) as u32);
        if S && cx.choose_weighted("snapshot", &[3, 1]) == 1 {
            let alone = cx.flip("on one server");
            cx.send(server, Msg::Snapshot(alone));
        } else {
            self.sent += 1;
            cx.send(server, Msg::Append(self.sent));
        }
        if self.sent < ENTRIES {
            cx.set_timer("next", Self::PAUSE);
        }
    }
}

/// The crate's number of a server, which must not be 0.
fn pid(node: NodeId) -> u64 {
    u64::from(node.0) + 1
}

fn node(pid: u64) -> NodeId {
    NodeId(u32::try_from(pid - 1).expect("servers have small numbers"))
}

/// Three servers and a client. With `SNAPSHOTS`, the log is synchronised and compacted with them.
pub fn system<const SNAPSHOTS: bool>(system: &mut System<Msg<SNAPSHOTS>>) {
    for server in 0..SERVERS {
        system.node_with("server", move || Server::<SNAPSHOTS>::new(NodeId(server)));
    }
    system.node("client", Client::<SNAPSHOTS> { sent: 0 });
    system.network(Network::Fifo);
    system.faults(Faults::none().lose(3).partition(1).only(["server"]));
    system.always(AGREEMENT, |s| {
        let logs: Vec<_> =
            s.all::<Server<SNAPSHOTS>>().map(|(_, server)| &server.decided).collect();
        let longest = logs.iter().max_by_key(|log| log.len()).expect("there are servers");
        match logs.iter().find(|log| !longest.starts_with(log)) {
            Some(log) => Err(format!("{log:?} and {longest:?} are decided")),
            None => Ok(()),
        }
    });
    system.sometimes("three entries are decided everywhere", |s| {
        s.all::<Server<SNAPSHOTS>>().all(|(_, server)| server.decided.len() >= 3)
    });
}
