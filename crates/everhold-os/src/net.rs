//! The network as a host sees it: packets, its addresses, its ports.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use everhold_node::Time;
use serde::Serialize;

use crate::abi::Errno;
use crate::host::Host;
use crate::slab::{Id, Slab};
use crate::tcp::Tcp;
use crate::udp::Udp;

/// The first and the last of the ports that are given to sockets which ask for none.
const EPHEMERAL: (u16, u16) = (32_768, 60_999);

/// The unit that travels between two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packet {
    /// The address and port from which it was sent.
    pub from: SocketAddr,
    /// The address and port to which it goes.
    pub to: SocketAddr,
    /// The contents.
    pub body: Body,
}

/// The contents of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Body {
    /// Of UDP.
    Datagram(Vec<u8>),
    /// The answer to a datagram to a port at which nothing listens.
    Unreachable,
    /// Of TCP.
    Segment(Segment),
}

/// A part of a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The connection, by a number that the host at which it begins gives it.
    pub connection: u64,
    /// The meaning of the segment.
    pub flag: Flag,
    /// The place of its bytes in the stream.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The sender has everything of the other direction before this place.
    pub seen: u64,
    /// The sender can take everything of the other direction before this place.
    pub room: u64,
}

/// The meaning of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Flag {
    /// A connection begins.
    Syn,
    /// It is accepted.
    SynAck,
    /// It carries bytes, or only says what was seen.
    Data,
    /// The sender has no further bytes.
    Fin,
    /// The connection is over.
    Reset,
}

/// The sockets of the network and what they have sent.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) tcp: Slab<Tcp>,
    pub(crate) udp: Slab<Udp>,
    /// Packets for other hosts.
    pub(crate) sent: Vec<Packet>,
    /// Packets for this host, which arrive before the call that sent them ends.
    local: VecDeque<Packet>,
    next_port: u16,
    next_connection: u64,
    /// Ends of connections that are over but hold their port for a while.
    pub(crate) lingering: Vec<End>,
    /// The sockets that accept connections.
    pub(crate) listeners: Vec<Id<Tcp>>,
    /// The sockets that segments reach, by their own address and that of the peer.
    pub(crate) connections: BTreeMap<(SocketAddr, SocketAddr), Id<Tcp>>,
}

/// A connection that is over.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) connection: u64,
    /// Everything from the peer before this place has arrived.
    pub(crate) seen: u64,
    /// Its port is free again then.
    pub(crate) until: Time,
}

impl Network {
    pub(crate) fn new(incarnation: u32) -> Self {
        let ports = u32::from(EPHEMERAL.1 - EPHEMERAL.0);
        Network {
            tcp: Slab::default(),
            udp: Slab::default(),
            sent: Vec::new(),
            local: VecDeque::new(),
            // A host that was started again does not begin with the ports that it used last.
            next_port: EPHEMERAL.0 + (incarnation.wrapping_mul(4_099) % ports) as u16,
            next_connection: u64::from(incarnation) << 32,
            lingering: Vec::new(),
            listeners: Vec::new(),
            connections: BTreeMap::new(),
        }
    }

    pub(crate) fn new_connection(&mut self) -> u64 {
        self.next_connection += 1;
        self.next_connection
    }
}

impl Host {
    /// A packet arrives.
    pub fn deliver(&mut self, packet: Packet) {
        self.take(packet);
        self.settle_network();
    }

    /// Every TCP connection with a peer is reset, at this end.
    pub fn peer_reset(&mut self, peer: IpAddr) {
        self.tcp_reset_peer(peer);
        self.settle_network();
    }

    /// Delivers what this host has sent to itself.
    pub(crate) fn settle_network(&mut self) {
        while let Some(packet) = self.net.local.pop_front() {
            self.take(packet);
        }
    }

    fn take(&mut self, packet: Packet) {
        let Packet { from, to, body } = packet;
        match body {
            Body::Datagram(bytes) => self.udp_arrives(from, to, bytes),
            Body::Unreachable => self.udp_unreachable(from, to),
            Body::Segment(segment) => self.tcp_arrives(from, to, segment),
        }
    }

    /// Sends a packet.
    pub(crate) fn send_packet(&mut self, from: SocketAddr, to: SocketAddr, body: Body) {
        let packet = Packet { from, to, body };
        if self.is_own(to.ip()) {
            self.net.local.push_back(packet);
        } else {
            self.net.sent.push(packet);
        }
    }

    /// Whether an address is one of this host.
    pub(crate) fn is_own(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.settings.addresses.contains(&ip)
    }

    /// The address to which packets really go: "no address" means this host.
    pub(crate) fn destination(&self, to: SocketAddr) -> SocketAddr {
        match to.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
                SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port())
            }
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                SocketAddr::new(Ipv6Addr::LOCALHOST.into(), to.port())
            }
            _ => to,
        }
    }

    /// The address from which packets to another one are sent.
    pub(crate) fn source_for(&self, to: IpAddr) -> Result<IpAddr, Errno> {
        if to.is_loopback() {
            let is_v4 = to.is_ipv4();
            let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
            return Ok(if is_v4 { Ipv4Addr::LOCALHOST.into() } else { v6 });
        }
        if self.is_own(to) {
            return Ok(to);
        }
        let mut own = self.settings.addresses.iter();
        let own = own.find(|own| own.is_ipv4() == to.is_ipv4()).ok_or(Errno::ENETUNREACH)?;
        if self.settings.names.knows(to) { Ok(*own) } else { Err(Errno::EHOSTUNREACH) }
    }

    /// Whether a socket may be bound to an address of this host, or to all of them.
    pub(crate) fn check_bindable(&self, ip: IpAddr) -> Result<(), Errno> {
        let fits = ip.is_unspecified() || self.is_own(ip);
        if fits { Ok(()) } else { Err(Errno::EADDRNOTAVAIL) }
    }

    /// A port that no socket uses.
    pub(crate) fn ephemeral_port(&mut self, is_used: impl Fn(&Host, u16) -> bool) -> Option<u16> {
        for _ in EPHEMERAL.0..=EPHEMERAL.1 {
            let port = self.net.next_port;
            self.net.next_port = if port == EPHEMERAL.1 { EPHEMERAL.0 } else { port + 1 };
            if !is_used(self, port) {
                return Some(port);
            }
        }
        None
    }
}

/// Whether sockets bound to two addresses would receive the same packets.
pub(crate) fn overlap(one: (SocketAddr, bool), other: (SocketAddr, bool)) -> bool {
    let covers = |(all, takes_both): (SocketAddr, bool), ip: IpAddr| {
        all.ip().is_unspecified() && (takes_both || all.is_ipv4() == ip.is_ipv4())
    };
    let ((a, _), (b, _)) = (one, other);
    a.port() == b.port() && (a.ip() == b.ip() || covers(one, b.ip()) || covers(other, a.ip()))
}
