//! Viewstamped Replication: replicas of a journal, and clients that repeat their requests.
//!
//! The crate implements the revised protocol, which is for networks that lose and reorder messages;
//! its change log names high drop rates. Its example sends over channels, so the network here loses
//! messages and keeps their order, which is the milder one. Replicas keep nothing on disk; here none crashes, so the
//! recovery protocol is not reached. The harness drives a replica as the crate's own example does:
//! messages that are handed back are handled again after the next one, whatever arrives puts off the
//! call of `idle`, and a client that waits too long sends its request to all.

use std::collections::{BTreeSet, VecDeque};

use everhold::prelude::*;
use everhold::{Network, System};
use serde::de::value::{Error, SeqDeserializer};
use serde::{Deserializer, Serializer};
use viewstamped_replication::buffer::{BufferedMailbox, ProtocolPayload};
use viewstamped_replication::{
    ClientIdentifier, Configuration, Protocol, Replica, Reply, Request, Service,
};

/// The number of replicas.
pub const REPLICAS: u32 = 3;
/// The number of clients; each has one request at a time.
const CLIENTS: u32 = 2;
/// The number of requests of each client.
const REQUESTS: u32 = 2;

/// The first property: what two replicas have executed differs at no place.
pub const AGREEMENT: &str = "executed requests agree";
/// The second: a request that was repeated or adopted is still executed once.
pub const ONCE: &str = "a request is executed at most once";

/// A request: the number of the client and the number of the request.
pub type Entry = (u32, u32);

/// The replicated service: a list of the executed requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal(pub Vec<Entry>);

impl Protocol for Journal {
    type Request = Entry;
    type Prediction = ();
    type Reply = Entry;
    type Checkpoint = Vec<Entry>;
}

impl From<Vec<Entry>> for Journal {
    fn from(entries: Vec<Entry>) -> Self {
        Journal(entries)
    }
}

impl Service for Journal {
    fn predict(&self, _: &Entry) {}

    fn checkpoint(&self) -> Vec<Entry> {
        self.0.clone()
    }

    fn invoke(&mut self, request: &Entry, (): &()) -> Entry {
        self.0.push(*request);
        *request
    }
}

/// A message of the crate.
#[derive(Clone, Debug)]
pub struct Wire(ProtocolPayload<Journal>);

impl Serialize for Wire {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:?}", self.0))
    }
}

/// The messages.
#[derive(Clone, Debug, Serialize)]
pub enum Msg {
    /// Client to replica.
    Request(Request<Entry>),
    /// Replica to client.
    Reply(Reply<Entry>),
    /// Replica to replica.
    Wire(Wire),
}

/// A replica.
pub struct Server {
    replica: Replica<Journal>,
    mailbox: BufferedMailbox<Journal>,
    /// Messages that the replica handed back, to be handled after another one.
    later: VecDeque<ProtocolPayload<Journal>>,
    executed: Vec<Entry>,
    views: Views,
}

/// The part of a replica's state that traces show.
#[derive(Serialize)]
struct Shown<'a> {
    view: String,
    primary: bool,
    later: usize,
    executed: &'a [Entry],
}

impl Serialize for Server {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = Shown {
            view: format!("{:?}", self.replica.view()),
            primary: self.replica.is_primary(),
            later: self.later.len(),
            executed: &self.executed,
        };
        shown.serialize(serializer)
    }
}

impl Server {
    /// The time after which a primary tells the others that it is there.
    const COMMIT: Duration = Duration::from_millis(50);
    /// The time after which a backup asks for another primary.
    const VIEW: Duration = Duration::from_millis(500);

    fn new(configuration: Configuration, index: usize, views: Views) -> Self {
        Server {
            replica: Replica::new(configuration, index, Journal::default()),
            mailbox: BufferedMailbox::default(),
            later: VecDeque::new(),
            executed: Vec::new(),
            views,
        }
    }

    fn handle(&mut self, payload: ProtocolPayload<Journal>) {
        let (replica, mailbox) = (&mut self.replica, &mut self.mailbox);
        match payload {
            ProtocolPayload::Prepare(message) => replica.handle_prepare(message, mailbox),
            ProtocolPayload::PrepareOk(message) => replica.handle_prepare_ok(message, mailbox),
            ProtocolPayload::Commit(message) => replica.handle_commit(message, mailbox),
            ProtocolPayload::GetState(message) => replica.handle_get_state(message, mailbox),
            ProtocolPayload::NewState(message) => replica.handle_new_state(message, mailbox),
            ProtocolPayload::StartViewChange(message) => {
                replica.handle_start_view_change(message, mailbox);
            }
            ProtocolPayload::DoViewChange(message) => {
                replica.handle_do_view_change(message, mailbox);
            }
            ProtocolPayload::StartView(message) => replica.handle_start_view(message, mailbox),
            ProtocolPayload::Recovery(message) => replica.handle_recovery(message, mailbox),
            ProtocolPayload::RecoveryResponse(message) => {
                replica.handle_recovery_response(message, mailbox);
            }
        }
    }

    /// Sends what the replica wants sent, and looks at what it has executed.
    fn settle(&mut self, cx: &mut Cx<Msg>) {
        self.later.extend(self.mailbox.drain_inbound());
        for envelope in self.mailbox.drain_replies() {
            cx.send(NodeId(REPLICAS + envelope.payload.payload.0), Msg::Reply(envelope.payload));
        }
        for envelope in self.mailbox.drain_send() {
            let to = match envelope.payload {
                // The crate asks a random replica; the strategy's choice can be replayed.
                ProtocolPayload::GetState(_) => others(cx.id())[cx.choose("replica to ask", 2)],
                _ => NodeId(envelope.destination as u32),
            };
            cx.send(to, Msg::Wire(Wire(envelope.payload)));
        }
        for payload in self.mailbox.drain_broadcast() {
            for to in others(cx.id()) {
                cx.send(to, Msg::Wire(Wire(payload.clone())));
            }
        }
        self.executed = self.replica.checkpoint().state;
        if self.replica.is_primary() {
            cx.set_timer("idle", Self::COMMIT);
        } else if self.views == Views::Change {
            cx.set_timer("idle", Self::VIEW);
        }
    }
}

impl Node for Server {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.settle(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Request(request) => self.replica.handle_request(request, &mut self.mailbox),
            Msg::Wire(Wire(payload)) => {
                let later = std::mem::take(&mut self.later);
                self.handle(payload);
                later.into_iter().for_each(|payload| self.handle(payload));
            }
            Msg::Reply(_) => cx.unexpected(msg),
        }
        self.settle(cx);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.replica.idle(&mut self.mailbox);
        self.settle(cx);
    }
}

/// A client: one request after the other.
#[derive(Clone, Serialize)]
pub struct Client {
    number: u32,
    #[serde(skip)]
    configuration: Configuration,
    primary: usize,
    request: Request<Entry>,
    /// The number of replies.
    answered: u32,
}

impl Client {
    const REPLY: Duration = Duration::from_secs(1);

    fn new(configuration: Configuration, number: u32) -> Self {
        let mut request =
            Request { payload: (number, 1), client: identifier(number), id: Default::default() };
        request.id.increment();
        Client { number, configuration, primary: 0, request, answered: 0 }
    }

    fn ask(&mut self, cx: &mut Cx<Msg>) {
        cx.send(NodeId(self.primary as u32), Msg::Request(self.request.clone()));
        cx.set_timer("reply", Self::REPLY);
    }
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.ask(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Reply(reply) = msg else { return cx.unexpected(msg) };
        if reply.id != self.request.id || self.answered == REQUESTS {
            return;
        }
        self.primary = self.configuration % reply.view;
        self.answered += 1;
        if self.answered == REQUESTS {
            cx.cancel_timer("reply");
            return;
        }
        self.request.payload = (self.number, self.answered + 1);
        self.request.id.increment();
        self.ask(cx);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        for replica in 0..REPLICAS {
            cx.send(NodeId(replica), Msg::Request(self.request.clone()));
        }
        cx.set_timer("reply", Self::REPLY);
    }
}

/// The identifier of a client. The crate makes random ones, which could not be replayed.
fn identifier(number: u32) -> ClientIdentifier {
    struct Fixed(u128);
    impl<'de> Deserializer<'de> for Fixed {
        type Error = Error;

        fn deserialize_any<V: serde::de::Visitor<'de>>(
            self,
            visitor: V,
        ) -> Result<V::Value, Error> {
            visitor.visit_seq(SeqDeserializer::new([self.0].into_iter()))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map struct enum
            identifier ignored_any
        }
    }
    ClientIdentifier::deserialize(Fixed(u128::from(number))).expect("an identifier is a number")
}

fn others(replica: NodeId) -> Vec<NodeId> {
    (0..REPLICAS).map(NodeId).filter(|other| *other != replica).collect()
}

/// Whether backups may give up on their primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Views {
    /// A backup that hears nothing asks for the next view.
    Change,
    /// Only the first primary's timer fires, so there is no view but the first.
    Stay,
}

/// Three replicas and two clients, over a network that keeps the order of messages and loses some.
pub fn system(views: Views) -> Setup<Msg> {
    Box::new(move |system| describe(system, views))
}

fn describe(system: &mut System<Msg>, views: Views) {
    let configuration = Configuration::from(REPLICAS as usize);
    for index in 0..REPLICAS as usize {
        system.node_with("replica", move || Server::new(configuration, index, views));
    }
    for number in 0..CLIENTS {
        system.node("client", Client::new(configuration, number));
    }
    system.network(Network::Fifo);
    system.faults(Faults::none().lose(3).partition(1).only(["replica"]));
    system.always(AGREEMENT, agree);
    system.always(ONCE, once);
    system.sometimes("every request is answered", |s| {
        s.all::<Client>().all(|(_, client)| client.answered == REQUESTS)
    });
}

fn agree(s: &View<'_, Msg>) -> Result<(), String> {
    let journals: Vec<_> = s.all::<Server>().map(|(_, server)| &server.executed).collect();
    let longest = journals.iter().max_by_key(|journal| journal.len()).expect("there are replicas");
    match journals.iter().find(|journal| !longest.starts_with(journal)) {
        Some(journal) => Err(format!("{journal:?} and {longest:?} were executed")),
        None => Ok(()),
    }
}

fn once(s: &View<'_, Msg>) -> Result<(), String> {
    for (id, server) in s.all::<Server>() {
        let distinct: BTreeSet<_> = server.executed.iter().collect();
        if distinct.len() < server.executed.len() {
            return Err(format!("{id} executed {:?}", server.executed));
        }
    }
    Ok(())
}
