//! Nodes on sockets and disks, and the bytes that are sent to them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use everhold_live::host::{Client, Codec, Config, Host, HostError, Running, Transport};
use everhold_live::recording::merge;
use everhold_live::{NodeId, Report};
use everhold_node::{AsyncCx, Cx, Node, Timer};
use everhold_trace::wire::{Record, What};
use everhold_trace::{EventKind, Value};
use serde::{Deserialize, Serialize};

use crate::checker::Checker;
use crate::folder::Folder;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Msg {
    Add(u32),
    Total,
    Sum(u32),
    Forwarded(u32),
    Die,
}

/// Adds up the numbers that it receives, durably, and tells its neighbour.
#[derive(Clone, Serialize)]
struct Adder {
    next: NodeId,
    sum: u32,
    heard: u32,
    ticks: u32,
}

impl Adder {
    fn new(next: u32) -> Adder {
        Adder { next: NodeId(next), sum: 0, heard: 0, ticks: 0 }
    }
}

impl Node for Adder {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.sum = cx.disk().load("sum").expect("it was saved whole").unwrap_or(0);
        cx.set_timer("tick", Duration::from_millis(5));
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Add(number) => {
                self.sum += number;
                cx.disk().save("sum", &self.sum);
                cx.disk().sync();
                cx.send(self.next, Msg::Forwarded(number));
                cx.reply(Msg::Sum(self.sum));
            }
            Msg::Forwarded(number) => self.heard += number,
            Msg::Total => cx.reply(Msg::Sum(self.heard)),
            Msg::Die => panic!("as it was told"),
            Msg::Sum(_) => cx.unexpected(msg),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.ticks += 1;
        cx.set_timer("tick", Duration::from_millis(5));
    }
}

const PATIENCE: Duration = Duration::from_secs(10);

struct Cluster {
    running: Running,
    addresses: Vec<SocketAddr>,
    told: Receiver<String>,
}

/// Makes two adders on free ports, each the other's neighbour.
fn cluster(change: impl FnOnce(&mut Config)) -> Cluster {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback is there"));
    let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().expect("bound")).collect();
    let nodes = (0..).map(NodeId).zip(addresses.iter().copied());
    let mut config = Config::new("adders", nodes);
    change(&mut config);
    let (tell, told) = mpsc::channel();
    let mut host = Host::new(config, Codec::postcard())
        .report(Report::to(move |line| drop(tell.send(line.to_owned()))));
    for (id, listener) in (0..).zip(listeners) {
        host = host.node(NodeId(id), "adder", move || Adder::new(1 - id));
        host = host.listen_on(NodeId(id), listener);
    }
    Cluster { running: host.start().expect("it starts"), addresses, told }
}

impl Cluster {
    fn client(&self, node: u32) -> Client<Msg> {
        let address = self.addresses[node as usize];
        Client::connect("adders", NodeId(node), address, Codec::postcard()).expect("it is there")
    }

    fn complaint(&self) -> String {
        self.told.recv_timeout(PATIENCE).expect("it complains")
    }

    /// Waits until a node has heard this sum from the other.
    fn heard(&self, node: u32, expected: u32) {
        let mut client = self.client(node);
        for _ in 0..2_000 {
            if client.call(&Msg::Total, PATIENCE).unwrap() == Msg::Sum(expected) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{expected} is not heard");
    }
}

#[test]
fn messages_travel_by_tcp_and_udp() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let cluster = cluster(|config| config.transport = transport);
        let mut client = cluster.client(0);
        assert_eq!(client.call(&Msg::Add(2), PATIENCE).unwrap(), Msg::Sum(2));
        assert_eq!(client.call(&Msg::Add(3), PATIENCE).unwrap(), Msg::Sum(5));
        cluster.heard(1, 5);
        cluster.running.stop().unwrap();
    }
}

#[test]
fn disks_outlive_their_process_and_have_one_user() {
    let folder = Folder::new();
    let path = folder.path().to_owned();
    for sum in [10, 20, 30] {
        let cluster = cluster(|config| config.data = Some(path.clone()));
        assert_eq!(cluster.client(1).call(&Msg::Add(10), PATIENCE).unwrap(), Msg::Sum(sum));
        let mut config = Config::new("adders", [(NodeId(1), "127.0.0.1:0".parse().unwrap())]);
        config.data = Some(path.clone());
        let second =
            Host::new(config, Codec::postcard()).node(NodeId(1), "adder", || Adder::new(0));
        let error = second.start().unwrap_err();
        assert!(error.to_string().contains("running already"), "{error}");
        cluster.running.stop().unwrap();
    }
}

/// An async node that doubles a number after a while.
async fn doubler(cx: AsyncCx<Msg>) {
    cx.observe(0u32);
    loop {
        let request = cx.recv_if(|_, msg| matches!(msg, Msg::Add(_))).await;
        cx.sleep(Duration::from_millis(2)).await;
        let Msg::Add(number) = request.msg else { continue };
        cx.observe(number);
        cx.reply(&request, Msg::Sum(2 * number));
    }
}

#[test]
fn async_nodes_wait_and_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let host = Host::new(Config::new("adders", [(NodeId(0), address)]), Codec::postcard());
    let running = host.program(NodeId(0), "doubler", doubler).listen_on(NodeId(0), listener);
    let running = running.start().unwrap();
    let mut client = Client::connect("adders", NodeId(0), address, Codec::postcard()).unwrap();
    for number in 0..5 {
        let answer = client.call(&Msg::Add(number), PATIENCE).unwrap();
        assert_eq!(answer, Msg::Sum(2 * number));
    }
    running.stop().unwrap();
}

#[test]
fn hosted_nodes_are_watched_and_recorded() {
    let (checker, folder) = (Checker::start(None), Folder::new());
    let cluster = cluster(|config| {
        config.checkers = vec![checker.address];
        config.record = Some(folder.path().to_owned());
    });
    let mut client = cluster.client(0);
    client.call(&Msg::Add(7), PATIENCE).unwrap();
    cluster.heard(1, 7);
    // Nothing happens any more, but a checker that connects late still receives the state.
    let sum = |what: &What| match what {
        What::Observe(values) | What::State(values) => {
            values.iter().any(|(name, value)| &**name == "sum" && *value == Value::Int(7))
        }
        _ => false,
    };
    checker.hello();
    checker.listen_past_hellos(|heard| heard.records.iter().any(|record| sum(&record.what)));
    cluster.running.stop().unwrap();

    let whole = merge([folder.path()]).unwrap();
    let execution = &whole.executions[0];
    let n0 = execution.node_named("n0").unwrap();
    let first = execution.events_of(n0)[0];
    assert_eq!(execution.event(first).kind, EventKind::Start);
    let last = execution.events_of(n0).len();
    let states = execution.local_states();
    assert_eq!(states.at(n0, last).unwrap().get("sum"), Some(&Value::Int(7)));
    let forwarded = execution
        .messages()
        .iter()
        .find(|message| execution.send_of(message).is_some_and(|send| send.label == "Forwarded"));
    let forwarded = forwarded.expect("the message between the nodes is in both recordings");
    assert_eq!(forwarded.delivered.len(), 1);
    let from_client = execution.events().iter().find_map(|event| event.text.as_deref());
    assert_eq!(from_client, Some("message 0007"));
}

/// A counter that is slow to serialise, so that a message sent too early would arrive before the
/// state.
#[derive(Clone, Serialize)]
struct Slow {
    #[serde(serialize_with = "slowly")]
    count: u32,
}

fn slowly<S: serde::Serializer>(count: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    std::thread::sleep(Duration::from_millis(5));
    serializer.serialize_u32(*count)
}

impl Node for Slow {
    type Msg = Msg;

    fn start(&mut self, _: &mut Cx<Msg>) {}

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let (Msg::Add(number) | Msg::Forwarded(number)) = msg else { return };
        self.count = number;
        if number < 10 {
            cx.send(NodeId(number % 2), Msg::Forwarded(number + 1));
        }
    }
}

#[test]
fn a_receiver_is_ordered_after_the_state_that_caused_the_message() {
    let checker = Checker::start(None);
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback is there"));
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().expect("bound"));
    let mut config = Config::new("slow", (0..).map(NodeId).zip(addresses));
    config.checkers = vec![checker.address];
    let mut host = Host::new(config, Codec::postcard());
    for (id, listener) in (0..).map(NodeId).zip(listeners) {
        host = host.node(id, "slow", || Slow { count: 0 }).listen_on(id, listener);
    }
    let running = host.start().expect("it starts");
    let shows = |what: &What, count: i64| match what {
        What::Observe(values) | What::State(values) => {
            values.iter().any(|(_, value)| *value == Value::Int(count))
        }
        _ => false,
    };
    // Both nodes are watched before anything happens.
    let starts = |records: &[Record]| records.iter().filter(|r| shows(&r.what, 0)).count() >= 2;
    checker.listen_past_hellos(|heard| starts(&heard.records));
    let mut client = Client::connect("slow", NodeId(0), addresses[0], Codec::postcard()).unwrap();
    client.tell(&Msg::Add(1)).unwrap();
    let all = |records: &[Record]| {
        (1..=10).all(|count| records.iter().any(|record| shows(&record.what, count)))
    };
    let mut records = checker.listen_past_hellos(|heard| all(&heard.records));
    records.sort_by_key(|record| record.at);
    let shown = |count| records.iter().position(|record| shows(&record.what, count));
    let places: Vec<_> = (1..=10).map(shown).collect();
    assert!(places.is_sorted(), "{places:?}");
    running.stop().unwrap();
}

#[test]
fn garbage_on_every_port_changes_nothing() {
    let cluster = cluster(|config| config.transport = Transport::Udp);
    let address = cluster.addresses[0];
    let says = |bytes: &[u8], expected: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        // The host may have read enough and closed the connection already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read(&mut [0; 16]);
        let line = cluster.complaint();
        assert!(line.contains(expected), "{line}");
    };
    says(b"GET / HTTP/1.1\r\n\r\n", "does not speak Everhold's protocol");
    says(b"EVHN\x09\x00", "version 9");
    says(b"EVHN\x02\x04bank\0\0\0\0\0\0\0\0\0\0\0\0\x01", "system `bank`");
    says(b"EVHN\x02\x06adders\0\0\0\0\0\0\0\0\0\0\0\0\x00", "claims this node's id");
    let mut client = b"EVHN\x02\x06adders\x01\0\0\x80\0\0\0\0\0\0\0\0\x01".to_vec();
    says(&[&client[..], &[0xff; 40]].concat(), "bytes is announced");
    says(&[&client[..], b"\x04\0\0\0\0\0\0\0"].concat(), "damaged packet");
    // A complete packet with a message that cannot be decoded.
    client.extend_from_slice(b"\x13\0\0\0\0\0\0\0\0\0\0\0\0\x81\x80\x80\x80\x08\0\0\0\0\xff");
    says(&client, "cannot read");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(b"hello", address).unwrap();
    let line = cluster.complaint();
    assert!(line.contains("drops datagrams"), "{line}");

    let mut client = cluster.client(0);
    assert_eq!(client.call(&Msg::Add(2), PATIENCE).unwrap(), Msg::Sum(2));
    cluster.running.stop().unwrap();
}

#[test]
fn a_node_that_panics_stops_alone() {
    let cluster = cluster(|_| ());
    cluster.client(0).tell(&Msg::Die).unwrap();
    let line = cluster.complaint();
    assert!(line.contains("n0 stopped: as it was told"), "{line}");
    let mut client = cluster.client(1);
    assert_eq!(client.call(&Msg::Add(2), PATIENCE).unwrap(), Msg::Sum(2));
    let error = cluster.running.stop().unwrap_err();
    assert!(matches!(error, HostError::Panicked(NodeId(0), _)), "{error}");
}

#[test]
fn what_cannot_be_hosted_is_refused() {
    let check = |config: Config, expected: &str| {
        let host = Host::new(config, Codec::postcard()).node(NodeId(0), "adder", || Adder::new(1));
        let error = host.start().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let at = |address: &str| Config::new("adders", [(NodeId(0), address.parse().unwrap())]);
    check(Config::new("adders", [(NodeId(1), "127.0.0.1:0".parse().unwrap())]), "no address");
    check(at("0.0.0.0:0"), "other machines reach");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    check(at(&taken.local_addr().unwrap().to_string()), "is the node running already?");
    let mut config = at("127.0.0.1:0");
    config.data = Some("/dev/null/nowhere".into());
    check(config, "the folder of n0");
}

/// Asks its colleague on behalf of clients.
async fn front(cx: AsyncCx<Msg>, colleague: NodeId) {
    loop {
        let request = cx.recv_if(|_, msg| matches!(msg, Msg::Add(_))).await;
        let answer = cx.call(colleague, request.msg.clone()).await;
        cx.reply(&request, answer);
    }
}

/// Sends its caller another message before the answer.
async fn colleague(cx: AsyncCx<Msg>) {
    loop {
        let request = cx.recv().await;
        if let Msg::Add(number) = request.msg {
            cx.send(request.from, Msg::Forwarded(number));
            cx.reply(&request, Msg::Sum(number));
        }
    }
}

#[test]
fn a_call_is_answered_by_its_reply_and_nothing_else() {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback is there"));
    let addresses = listeners.each_ref().map(|l| l.local_addr().expect("bound"));
    let config = Config::new("adders", (0..).map(NodeId).zip(addresses));
    let mut host = Host::new(config, Codec::postcard())
        .program(NodeId(0), "front", |cx| front(cx, NodeId(1)))
        .program(NodeId(1), "colleague", colleague);
    for (id, listener) in (0..).map(NodeId).zip(listeners) {
        host = host.listen_on(id, listener);
    }
    let running = host.start().expect("it starts");
    let mut client: Client<Msg> =
        Client::connect("adders", NodeId(0), addresses[0], Codec::postcard()).expect("it is there");
    for number in 1..4 {
        assert_eq!(client.call(&Msg::Add(number), PATIENCE).unwrap(), Msg::Sum(number));
    }
    running.stop().unwrap();
}
