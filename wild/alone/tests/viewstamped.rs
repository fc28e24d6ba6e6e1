//! `viewstamped-replication` 0.9.0: three defects of its view change. Every message that a test does
//! not deliver is lost.

use viewstamped_replication::buffer::{BufferedMailbox, ProtocolPayload};
use viewstamped_replication::{Client, Configuration, Protocol, Replica, Request, Service};

/// The replicated service: a list.
struct List(Vec<u32>);

impl Protocol for List {
    type Request = u32;
    type Prediction = ();
    type Reply = ();
    type Checkpoint = Vec<u32>;
}

impl From<Vec<u32>> for List {
    fn from(list: Vec<u32>) -> Self {
        List(list)
    }
}

impl Service for List {
    fn predict(&self, _: &u32) {}

    fn checkpoint(&self) -> Vec<u32> {
        self.0.clone()
    }

    fn invoke(&mut self, request: &u32, (): &()) {
        self.0.push(*request);
    }
}

/// Messages with their destination; a broadcast has none.
type Sent = Vec<(Option<usize>, ProtocolPayload<List>)>;

/// Three replicas; each call returns what the replica wants sent.
struct Group(Vec<Replica<List>>);

impl Group {
    fn new(configuration: Configuration) -> Self {
        Group((0..3).map(|index| Replica::new(configuration, index, List(Vec::new()))).collect())
    }

    fn with(
        &mut self,
        replica: usize,
        act: impl FnOnce(&mut Replica<List>, &mut BufferedMailbox<List>),
    ) -> Sent {
        let mut mailbox = BufferedMailbox::default();
        act(&mut self.0[replica], &mut mailbox);
        let mut sent: Sent = mailbox.drain_broadcast().map(|payload| (None, payload)).collect();
        sent.extend(mailbox.drain_send().map(|it| (Some(it.destination), it.payload)));
        sent
    }

    fn request(&mut self, replica: usize, request: &Request<u32>) -> Sent {
        self.with(replica, |replica, mailbox| replica.handle_request(request.clone(), mailbox))
    }

    fn idle(&mut self, replica: usize) -> Sent {
        self.with(replica, |replica, mailbox| replica.idle(mailbox))
    }

    /// Delivers those of the messages that may go to `to`.
    fn deliver(&mut self, to: usize, messages: &Sent) -> Sent {
        let mut sent = Sent::new();
        for (destination, payload) in messages {
            if destination.is_none_or(|destination| destination == to) {
                let payload = payload.clone();
                sent.extend(self.with(to, |replica, mailbox| match payload {
                    ProtocolPayload::Prepare(it) => replica.handle_prepare(it, mailbox),
                    ProtocolPayload::PrepareOk(it) => replica.handle_prepare_ok(it, mailbox),
                    ProtocolPayload::Commit(it) => replica.handle_commit(it, mailbox),
                    ProtocolPayload::StartViewChange(it) => {
                        replica.handle_start_view_change(it, mailbox);
                    }
                    ProtocolPayload::DoViewChange(it) => replica.handle_do_view_change(it, mailbox),
                    ProtocolPayload::StartView(it) => replica.handle_start_view(it, mailbox),
                    other => panic!("{other:?} is not expected"),
                }));
            }
        }
        sent
    }

    fn executed(&self, replica: usize) -> Vec<u32> {
        self.0[replica].checkpoint().state
    }
}

/// A message of a later view reaches a replica with an entry and without a committed one. It asks
/// for the state, for which it truncates its log to the committed number: 0 minus 1.
#[test]
#[should_panic(expected = "attempt to subtract with overflow")]
fn truncating_an_uncommitted_log_panics() {
    let configuration = Configuration::from(3);
    let (mut group, mut client) = (Group::new(configuration), Client::new(configuration));
    group.request(0, &client.new_request(1));
    // The others change to the view of replica 1, without replica 0.
    let from_1 = group.idle(1);
    let from_2 = group.deliver(2, &from_1);
    let own = group.deliver(1, &from_2);
    group.deliver(1, &own);
    assert!(group.0[1].is_primary());
    let commit = group.idle(1);
    assert!(matches!(commit[..], [(None, ProtocolPayload::Commit(_))]), "{commit:?}");
    group.deliver(0, &commit);
}

/// The next primary takes a request while the view is still changing. The entry gives its log the
/// number of the new view, so it wins against the log with the committed request.
#[test]
fn a_request_in_a_view_change_replaces_a_committed_one() {
    let configuration = Configuration::from(3);
    let mut group = Group::new(configuration);
    let (mut one, mut two) = (Client::new(configuration), Client::new(configuration));
    // Replicas 0 and 1 commit the first client's request; replica 2 hears nothing of it.
    let prepare = group.request(0, &one.new_request(1));
    let prepared = group.deliver(1, &prepare);
    group.deliver(0, &prepared);
    assert_eq!(group.executed(0), [1]);
    // Replicas 1 and 2 give up view 0, and replica 2 then gives up view 1 as well: view 2 is its own.
    let from_1 = group.idle(1);
    group.deliver(2, &from_1);
    let from_2 = group.idle(2);
    assert!(group.0[2].is_primary());
    // The second client has waited for too long and asks all replicas.
    group.request(2, &two.new_request(2));
    let from_1 = group.deliver(1, &from_2);
    let own = group.deliver(2, &from_1);
    let start = group.deliver(2, &own);
    let prepared = group.deliver(1, &start);
    group.deliver(2, &prepared);
    println!("replica 0 executed {:?}, replica 2 {:?}", group.executed(0), group.executed(2));
    assert_eq!(group.executed(2), [2], "this version is not affected");
}

/// A request that a replica adopts as committed in a view change is not entered as the client's
/// latest, so its repetition is executed again.
#[test]
fn an_adopted_request_is_executed_again() {
    let configuration = Configuration::from(3);
    let (mut group, mut client) = (Group::new(configuration), Client::new(configuration));
    // The first request is prepared everywhere.
    let prepare = group.request(0, &client.new_request(1));
    group.deliver(1, &prepare);
    let prepared = group.deliver(2, &prepare);
    group.deliver(0, &prepared);
    // The second is committed by replicas 0 and 2; the reply to the client is lost.
    let second = client.new_request(2);
    let prepare = group.request(0, &second);
    let prepared = group.deliver(2, &prepare);
    group.deliver(0, &prepared);
    assert_eq!(group.executed(0), [1, 2]);
    // Replica 1 becomes the primary and adopts both.
    let from_1 = group.idle(1);
    let from_0 = group.deliver(0, &from_1);
    let own = group.deliver(1, &from_0);
    let start = group.deliver(1, &own);
    group.deliver(0, &start);
    assert_eq!(group.executed(1), [1, 2]);
    // The client repeats the second.
    let prepare = group.request(1, &second);
    let prepared = group.deliver(0, &prepare);
    group.deliver(1, &prepared);
    println!("replica 1 executed {:?}", group.executed(1));
    assert_eq!(group.executed(1), [1, 2, 2], "this version is not affected");
}
