//! The sockets of one node, with plain threads and blocking calls: systems have tens of nodes, not
//! tens of thousands, and a stack of a few pages costs less than an event library.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use everhold_trace::NodeId;

use super::core::parent_of;
use super::packet::{DATAGRAM_MAX, Identity, PACKET_MAX, Packet};
use crate::backoff::Backoff;
use crate::probe::lock;
use crate::report::Report;

/// The capacity of the queue for one peer, and of that for the node itself.
const QUEUE: usize = 4_096;
const STACK: usize = 256 << 10;
const CONNECT: Duration = Duration::from_millis(500);
const PREFACE: Duration = Duration::from_secs(5);

/// The input of a node's loop.
pub(super) enum Input {
    Packet(Packet),
    /// A client connected; frames queued here are sent to it.
    Client(NodeId, SyncSender<Vec<u8>>),
    Gone(NodeId),
    /// A new observer connected, which does not know the state yet.
    Watched,
    Stop,
}

/// The state that all threads of a node's sockets share.
struct Common {
    me: Identity,
    inputs: SyncSender<Input>,
    report: Report,
    stopping: AtomicBool,
    /// Accepted streams, which are shut down at the end.
    accepted: Mutex<BTreeMap<u64, TcpStream>>,
    /// The newest incarnation of each peer.
    incarnations: Mutex<BTreeMap<NodeId, u64>>,
    connections: AtomicU64,
}

/// The sending side, which the loop holds.
pub(super) struct Net {
    routes: BTreeMap<NodeId, SyncSender<Vec<u8>>>,
    datagrams: Option<(UdpSocket, BTreeMap<NodeId, SocketAddr>)>,
    report: Report,
    lost: u64,
}

/// The threads and sockets to end when the node ends.
pub(super) struct Sockets {
    common: Arc<Common>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// Starts the threads of a node.
pub(super) fn start(
    me: Identity,
    listener: TcpListener,
    udp: Option<UdpSocket>,
    peers: &BTreeMap<NodeId, SocketAddr>,
    report: &Report,
) -> std::io::Result<(Net, Sockets, Receiver<Input>, SyncSender<Input>)> {
    let (inputs, received) = mpsc::sync_channel(QUEUE);
    let common = Arc::new(Common {
        me,
        inputs: inputs.clone(),
        report: report.clone(),
        stopping: AtomicBool::new(false),
        accepted: Mutex::default(),
        incarnations: Mutex::default(),
        connections: AtomicU64::new(0),
    });
    let address = listener.local_addr()?;
    let mut threads = Vec::new();
    let mut net = Net { routes: BTreeMap::new(), datagrams: None, report: report.clone(), lost: 0 };
    if let Some(socket) = udp {
        let receiver = socket.try_clone()?;
        let shared = Arc::clone(&common);
        threads.push(spawn("everhold-udp", move || shared.receive_datagrams(&receiver))?);
        net.datagrams = Some((socket, peers.clone()));
    } else {
        for (peer, address) in peers.iter().filter(|(peer, _)| **peer != common.me.node) {
            let (queue, frames) = mpsc::sync_channel(QUEUE);
            net.routes.insert(*peer, queue);
            let (shared, address) = (Arc::clone(&common), *address);
            threads.push(spawn("everhold-send", move || shared.send_to(address, &frames))?);
        }
    }
    let shared = Arc::clone(&common);
    threads.push(spawn("everhold-accept", move || accept(&shared, &listener))?);
    Ok((net, Sockets { common, address, threads }, received, inputs))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body)
}

impl Net {
    /// Sends a packet over the network, which may lose it.
    pub(super) fn send(&mut self, packet: &Packet) {
        if packet.message.len() > PACKET_MAX - 64 {
            let (to, bytes) = (packet.to, packet.message.len());
            self.report.tell(&format!("a message of {bytes} bytes to {to} is too large; lost"));
            return;
        }
        let route = parent_of(packet.to).unwrap_or(packet.to);
        match (self.routes.get(&route), &self.datagrams) {
            (Some(queue), _) => match queue.try_send(packet.frame()) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    self.lost += 1;
                    if self.lost.is_power_of_two() {
                        let (to, lost) = (packet.to, self.lost);
                        self.report.tell(&format!("{to} does not keep up; {lost} messages lost"));
                    }
                }
                Err(TrySendError::Disconnected(_)) => drop(self.routes.remove(&route)),
            },
            (None, Some((socket, peers))) => self.datagram(socket, peers, packet),
            // A client that has disconnected, or a node that is not in the configuration.
            (None, None) => {}
        }
    }

    fn datagram(&self, socket: &UdpSocket, peers: &BTreeMap<NodeId, SocketAddr>, packet: &Packet) {
        let route = parent_of(packet.to).unwrap_or(packet.to);
        let Some(address) = peers.get(&route) else { return };
        let bytes = packet.datagram();
        if bytes.len() > DATAGRAM_MAX {
            let (to, bytes) = (packet.to, bytes.len());
            self.report.tell(&format!(
                "a message of {bytes} bytes to {to} does not fit a datagram; use TCP. It is lost"
            ));
        } else {
            // An error here means that the peer is not running, which counts as a loss in the
            // network.
            let _ = socket.send_to(&bytes, address);
        }
    }

    pub(super) fn add(&mut self, client: NodeId, queue: SyncSender<Vec<u8>>) {
        self.routes.insert(client, queue);
    }

    pub(super) fn remove(&mut self, client: NodeId) {
        self.routes.remove(&client);
    }
}

impl Sockets {
    /// Ends all threads. The loop has dropped its [`Net`] by now, so the senders have ended.
    pub(super) fn stop(self) {
        self.common.stopping.store(true, Ordering::Release);
        for stream in lock(&self.common.accepted).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accepting thread, which then sees the flag.
        let _ = TcpStream::connect_timeout(&self.address, CONNECT);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn accept(common: &Arc<Common>, listener: &TcpListener) {
    let mut threads = Vec::new();
    for stream in listener.incoming() {
        if common.is_stopping() {
            break;
        }
        threads.retain(|thread: &JoinHandle<()>| !thread.is_finished());
        match stream {
            Ok(stream) => {
                let common = Arc::clone(common);
                threads.extend(spawn("everhold-receive", move || common.receive(stream)));
            }
            Err(error) => {
                // The usual reason is a lack of file descriptors, so it waits until some are
                // closed.
                common.report.tell(&format!("cannot accept a connection ({error})"));
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Returns whether a sender may use the peer's connection: the peer itself, and the nodes that it
/// spawned.
fn is_from(sender: NodeId, peer: NodeId) -> bool {
    sender == peer || parent_of(sender) == Some(peer)
}

impl Common {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Serves one connection to its end.
    fn receive(&self, stream: TcpStream) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        if let Ok(clone) = stream.try_clone() {
            lock(&self.accepted).insert(number, clone);
        }
        let from = stream.peer_addr().map_or_else(|_| "?".to_owned(), |from| from.to_string());
        if let Err(reason) = self.converse(stream)
            && !self.is_stopping()
        {
            self.report
                .tell(&format!("{} closes a connection from {from}: {reason}", self.me.node));
        }
        lock(&self.accepted).remove(&number);
    }

    fn converse(&self, mut stream: TcpStream) -> Result<(), String> {
        let io = |error: std::io::Error| error.to_string();
        stream.set_read_timeout(Some(PREFACE)).map_err(io)?;
        stream.set_nodelay(true).map_err(io)?;
        let peer = Identity::read(&mut stream)?;
        self.admit(&peer)?;
        stream.set_read_timeout(None).map_err(io)?;
        if peer.is_client {
            self.welcome(&peer, &stream).map_err(io)?;
        }
        let mut reader = BufReader::new(stream);
        let result = loop {
            match Packet::read(&mut reader) {
                Ok(Some(packet)) if is_from(packet.envelope.sender, peer.node) => {
                    if self.inputs.send(Input::Packet(packet)).is_err() {
                        break Ok(());
                    }
                }
                Ok(Some(_)) => break Err("a packet names another sender".to_owned()),
                Ok(None) => break Ok(()),
                // The process was killed; its peers learn of that by other means.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break Ok(()),
                Err(error) => break Err(error.to_string()),
            }
        };
        if peer.is_client {
            let _ = self.inputs.send(Input::Gone(peer.node));
        }
        result
    }

    /// Checks whether a peer may connect.
    fn admit(&self, peer: &Identity) -> Result<(), String> {
        let (ours, theirs) = (&self.me.system, &peer.system);
        if ours != theirs {
            return Err(format!("it belongs to system `{theirs}`, this node to `{ours}`"));
        }
        if peer.is_client {
            return Ok(());
        }
        let node = peer.node;
        if node == self.me.node {
            return Err(format!("it claims this node's id, {node}; give each process its own"));
        }
        let mut incarnations = lock(&self.incarnations);
        let newest = incarnations.entry(node).or_default();
        if peer.incarnation < *newest {
            let (old, new) = (peer.incarnation, *newest);
            return Err(format!(
                "{node} connects as incarnation {old} after {new}: two processes use one id"
            ));
        }
        *newest = peer.incarnation;
        Ok(())
    }

    /// Sets up the queue of answers to a client.
    fn welcome(&self, client: &Identity, stream: &TcpStream) -> std::io::Result<()> {
        let mut stream = stream.try_clone()?;
        let (queue, frames) = mpsc::sync_channel::<Vec<u8>>(QUEUE);
        spawn("everhold-client", move || {
            while let Ok(frame) = frames.recv() {
                if stream.write_all(&frame).is_err() {
                    break;
                }
            }
        })?;
        let _ = self.inputs.send(Input::Client(client.node, queue));
        Ok(())
    }

    /// Sends frames to a peer, and reconnects as often as necessary. A peer that was never reached
    /// may still be starting, so messages wait for it. While a peer that was reached before is away,
    /// messages to it are lost, as on a network with a broken cable, so that it does not receive
    /// outdated messages when it comes back.
    fn send_to(&self, address: SocketAddr, frames: &Receiver<Vec<u8>>) {
        let mut backoff = Backoff::new();
        let mut connection: Option<TcpStream> = None;
        let mut reached = false;
        while let Ok(frame) = frames.recv() {
            while connection.is_none() {
                if self.is_stopping() {
                    return;
                }
                connection = self.connect(address).ok();
                if connection.is_some() {
                    backoff.reset();
                    reached = true;
                } else {
                    thread::sleep(backoff.wait());
                    if reached {
                        frames.try_iter().for_each(drop);
                    }
                }
            }
            let stream = connection.as_mut().expect("it was just made");
            if stream.write_all(&frame).is_err() {
                // This message is lost with its connection; the next one opens a new connection.
                connection = None;
            }
        }
    }

    fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(CONNECT))?;
        stream.write_all(&self.me.preface())?;
        Ok(stream)
    }

    fn receive_datagrams(&self, socket: &UdpSocket) {
        let mut bytes = vec![0; 1 << 16];
        // The timeout makes the wait end regularly, to look at the flag.
        let _ = socket.set_read_timeout(Some(Duration::from_millis(100)));
        while !self.is_stopping() {
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
            match Packet::from_datagram(&bytes[..length]) {
                // If the loop does not keep up, datagrams are lost, as with a full socket buffer.
                Some(packet) => drop(self.inputs.try_send(Input::Packet(packet))),
                None => self.report.tell(&format!(
                    "{} drops datagrams from {from} that are not Everhold's",
                    self.me.node
                )),
            }
        }
    }
}
