//! `omnipaxos` 0.2.4: a server that misses one message and is synchronised with a delta snapshot
//! reads a decided log without its first entries.

use omnipaxos::messages::Message;
use omnipaxos::messages::sequence_paxos::PaxosMsg;
use omnipaxos::storage::{Entry, Snapshot};
use omnipaxos::util::LogEntry;
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig};
use omnipaxos_storage::memory_storage::MemoryStorage;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Value(u32);

/// All values in their order, as the snapshot of the crate's own tests.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct All(Vec<u32>);

impl Entry for Value {
    type Snapshot = All;
}

impl Snapshot<Value> for All {
    fn create(entries: &[Value]) -> Self {
        All(entries.iter().map(|value| value.0).collect())
    }

    fn merge(&mut self, delta: Self) {
        self.0.extend(delta.0);
    }

    fn use_snapshots() -> bool {
        true
    }
}

type Server = OmniPaxos<Value, MemoryStorage<Value>>;

fn server(pid: u64) -> Server {
    let cluster_config =
        ClusterConfig { configuration_id: 1, nodes: vec![1, 2, 3], flexible_quorum: None };
    let server_config = ServerConfig { pid, ..ServerConfig::default() };
    OmniPaxosConfig { cluster_config, server_config }.build(MemoryStorage::default()).unwrap()
}

/// Delivers messages until there are none, except those that are lost.
fn deliver(servers: &mut [Server], lost: impl Fn(&Message<Value>) -> bool) {
    loop {
        let mut messages = Vec::new();
        servers.iter_mut().for_each(|server| server.take_outgoing_messages(&mut messages));
        if messages.is_empty() {
            return;
        }
        for message in messages.into_iter().filter(|message| !lost(message)) {
            servers[message.get_receiver() as usize - 1].handle_incoming(message);
        }
    }
}

fn decided(server: &Server) -> Vec<u32> {
    let entries = server.read_decided_suffix(0).unwrap_or_default();
    let values = entries.into_iter().flat_map(|entry| match entry {
        LogEntry::Decided(value) => vec![value.0],
        LogEntry::Snapshotted(snapshotted) => snapshotted.snapshot.0,
        other => panic!("{other:?} is not expected"),
    });
    values.collect()
}

/// The decided logs of the leader and of the third server, which misses the message with value 2 if
/// `loses`.
fn run(loses: bool) -> (Vec<u32>, Vec<u32>) {
    let mut servers: Vec<_> = (1..=3).map(server).collect();
    servers[0].try_become_leader();
    deliver(&mut servers, |_| false);
    servers[0].append(Value(1)).unwrap();
    deliver(&mut servers, |_| false);
    assert_eq!(decided(&servers[2]), [1]);

    servers[0].append(Value(2)).unwrap();
    let is_entry_for_third = |message: &Message<Value>| match message {
        Message::SequencePaxos(paxos) => {
            paxos.to == 3 && matches!(paxos.msg, PaxosMsg::AcceptDecide(_))
        }
        Message::BLE(_) => false,
    };
    deliver(&mut servers, |message| loses && is_entry_for_third(message));
    servers[0].append(Value(3)).unwrap();
    deliver(&mut servers, |_| false);
    assert_eq!(servers[2].get_decided_idx(), 3);
    (decided(&servers[0]), decided(&servers[2]))
}

#[test]
fn a_decided_entry_is_lost() {
    let (leader, third) = run(true);
    println!(
        "decided by the leader: {leader:?}; by the third server, which had decided [1]: {third:?}"
    );
    assert_eq!(leader, [1, 2, 3]);
    assert!(!third.contains(&1), "this version is not affected: {third:?}");
}

#[test]
fn without_the_lost_message_all_is_well() {
    let (leader, third) = run(false);
    assert_eq!((leader, third), (vec![1, 2, 3], vec![1, 2, 3]));
}
