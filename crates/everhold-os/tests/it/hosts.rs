//! Several hosts with a network between them, which the tests are: what one kernel alone cannot
//! show.

use std::net::IpAddr;
use std::time::Duration;

use everhold_node::Time;
use everhold_os::abi::epoll::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use everhold_os::abi::family::{AF_INET, AF_INET6};
use everhold_os::abi::option::{SO_KEEPALIVE, SOL_SOCKET};
use everhold_os::abi::socket::{SOCK_DGRAM, SOCK_STREAM};
use everhold_os::{
    Address, Body, Errno, Fd, Flag, Host, Names, Packet, PollFd, Retransmission, Settings, Stop,
    Usual,
};

use crate::random::{Random, programs};

/// Hosts with the addresses 10.0.0.1, 10.0.0.2 and so on, and packets on their way.
struct Net {
    hosts: Vec<Host>,
    wire: Vec<Packet>,
    retransmission: Option<Retransmission>,
    /// Every packet that was sent, as a word.
    log: Vec<String>,
}

fn ip(host: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, host as u8 + 1])
}

fn at(host: usize, port: u16) -> Address {
    Address::Ip((ip(host), port).into())
}

fn host(number: usize, incarnation: u32, retransmission: Option<Retransmission>) -> Host {
    let v6 = |host: usize| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1]);
    let names = (0..3).map(|host| (format!("h{host}"), vec![ip(host), v6(host)]));
    // Where packets are lost, the window closes often as well.
    let receive_buffer = if retransmission.is_some() { 3_000 } else { 128 << 10 };
    let settings = Settings {
        receive_buffer,
        addresses: vec![ip(number), v6(number)],
        names: Names::new(names),
        incarnation,
        retransmission,
        ..Settings::default()
    };
    Host::new(settings, Box::new(Usual::default()))
}

impl Net {
    fn new(retransmission: Option<Retransmission>) -> Self {
        let hosts = (0..2).map(|number| host(number, 0, retransmission)).collect();
        Net { hosts, wire: Vec::new(), retransmission, log: Vec::new() }
    }

    fn collect(&mut self) {
        for host in &mut self.hosts {
            for packet in host.take_packets() {
                let word = match &packet.body {
                    Body::Segment(segment) => {
                        format!("{:?}{}", segment.flag, segment.bytes.len())
                    }
                    other => format!("{other:?}"),
                };
                self.log.push(word);
                self.wire.push(packet);
            }
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let number = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[15],
        };
        self.hosts[usize::from(number(packet.to.ip())) - 1].deliver(packet);
    }

    /// Delivers everything, in order.
    fn settle(&mut self) {
        self.collect();
        while !self.wire.is_empty() {
            let packet = self.wire.remove(0);
            self.arrive(packet);
            self.collect();
        }
    }

    /// Lets time pass at all hosts, and loses what is sent.
    fn pass_in_silence(&mut self, time: Duration) {
        let until = Time::ZERO + time;
        for host in &mut self.hosts {
            while let Some(due) = host.next_deadline().filter(|due| *due <= until) {
                host.advance(due);
                host.take_packets();
            }
            host.advance(until);
        }
    }

    /// A connection from host 0 to port 80 of host 1.
    fn connection(&mut self) -> (Fd, Fd) {
        let listener = stream(&mut self.hosts[1]);
        self.hosts[1].bind(listener, &at(1, 80)).expect("the port is free");
        self.hosts[1].listen(listener, 8).expect("it is bound");
        let client = stream(&mut self.hosts[0]);
        assert_eq!(self.hosts[0].connect(client, &at(1, 80)), Err(Stop::Blocked));
        self.settle();
        assert_eq!(self.hosts[0].connect(client, &at(1, 80)), Ok(()));
        let (server, _) = self.hosts[1].accept(listener, 0).expect("a connection came");
        (client, server)
    }

    /// Host 1 is started again, and knows nothing.
    fn restart(&mut self) {
        self.hosts[1] = host(1, 1, self.retransmission);
    }
}

fn stream(host: &mut Host) -> Fd {
    host.socket(AF_INET, SOCK_STREAM, 0).expect("there is room")
}

fn readiness(host: &mut Host, fd: Fd) -> u32 {
    let events = (EPOLLIN | EPOLLOUT | EPOLLRDHUP) as i16;
    let mut file = [PollFd { fd, events, revents: 0 }];
    host.poll(&mut file, Some(Duration::ZERO)).expect("it does not wait");
    file[0].revents as u32
}

fn failed<T>(errno: Errno) -> Result<T, Stop> {
    Err(Stop::Failed(errno))
}

#[test]
fn a_reliable_network_carries_one_packet_for_each_act() {
    let mut net = Net::new(None);
    let (client, server) = net.connection();
    for (from, fd, to, other) in [(0, client, 1, server), (1, server, 0, client)] {
        assert_eq!(net.hosts[from].write(fd, b"hello"), Ok(5));
        net.settle();
        let mut bytes = [0; 9];
        assert_eq!(net.hosts[to].read(other, &mut bytes), Ok(5));
    }
    net.hosts[0].close(client).expect("it is open");
    net.settle();
    assert_eq!(net.hosts[1].read(server, &mut [0; 9]), Ok(0));
    net.hosts[1].close(server).expect("it is open");
    net.settle();
    assert_eq!(net.log, ["Syn0", "SynAck0", "Data5", "Data5", "Fin0", "Fin0"]);
    assert_eq!((net.hosts[0].next_deadline(), net.hosts[1].next_deadline()), (None, None));
    assert_eq!(net.hosts[0].connections().count() + net.hosts[1].connections().count(), 0);
}

#[test]
fn a_connection_to_a_port_without_a_listener_is_refused() {
    let mut net = Net::new(None);
    let client = stream(&mut net.hosts[0]);
    assert_eq!(net.hosts[0].connect(client, &at(1, 80)), Err(Stop::Blocked));
    net.settle();
    assert_eq!(net.hosts[0].connect(client, &at(1, 80)), failed(Errno::ECONNREFUSED));
    let nobody = Address::Ip("10.9.9.9:80".parse().expect("an address"));
    assert_eq!(net.hosts[0].connect(client, &nobody), failed(Errno::EHOSTUNREACH));
}

#[test]
fn a_host_that_was_started_again_resets_what_it_does_not_know() {
    let mut net = Net::new(None);
    let (client, _) = net.connection();
    net.restart();
    // A read alone learns nothing: the connection is half open.
    assert_eq!(net.hosts[0].read(client, &mut [0; 9]), Err(Stop::Blocked));
    net.settle();
    assert!(!net.hosts[0].is_runnable(net.hosts[0].current()));
    let other = net.hosts[0].spawn();
    net.hosts[0].enter(other);
    assert_eq!(net.hosts[0].write(client, b"lost"), Ok(4));
    net.settle();
    net.hosts[0].enter(everhold_os::ThreadId(0));
    assert_eq!(net.hosts[0].read(client, &mut [0; 9]), failed(Errno::ECONNRESET));
    assert_eq!(net.hosts[0].write(client, b"x"), failed(Errno::EPIPE));
}

#[test]
fn a_new_connection_from_a_port_of_an_earlier_start_ends_the_old_one() {
    let mut net = Net::new(None);
    let (_, server) = net.connection();
    let from = net.hosts[0].connections().next().expect("there is one").0;
    net.hosts[0] = host(0, 1, None);
    let client = stream(&mut net.hosts[0]);
    net.hosts[0].bind(client, &Address::Ip(from)).expect("the port is free");
    assert_eq!(net.hosts[0].connect(client, &at(1, 80)), Err(Stop::Blocked));
    net.settle();
    assert_eq!(net.hosts[0].connect(client, &at(1, 80)), Ok(()));
    assert_eq!(net.hosts[1].read(server, &mut [0; 9]), failed(Errno::ECONNRESET));
}

#[test]
fn a_fault_resets_the_connections_with_one_peer() {
    let mut net = Net::new(None);
    let (client, server) = net.connection();
    net.hosts[0].peer_reset(ip(2));
    assert_eq!(readiness(&mut net.hosts[0], client), EPOLLOUT);
    net.hosts[0].peer_reset(ip(1));
    net.hosts[1].peer_reset(ip(0));
    let over = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    assert_eq!(readiness(&mut net.hosts[0], client), over);
    assert_eq!(net.hosts[1].write(server, b"x"), failed(Errno::ECONNRESET));
}

#[test]
fn a_writer_waits_for_a_reader_and_nothing_is_lost() {
    for retransmission in [None, Some(Retransmission::default())] {
        let mut net = Net::new(retransmission);
        let (client, server) = net.connection();
        let all: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 3) as u8).collect();
        let mut arrived: Vec<u8> = Vec::new();
        let mut waits = 0;
        loop {
            let written = net.hosts[0].write(client, &all);
            net.settle();
            if written == Ok(all.len()) {
                break;
            }
            assert_eq!(written, Err(Stop::Blocked));
            waits += 1;
            while !net.hosts[0].is_runnable(everhold_os::ThreadId(0)) {
                let mut bytes = vec![0; 50_000];
                let read = net.hosts[1].read(server, &mut bytes).expect("there is data");
                arrived.extend(&bytes[..read]);
                net.settle();
            }
        }
        net.hosts[0].close(client).expect("it is open");
        net.settle();
        let mut bytes = vec![0; 50_000];
        while let Ok(count @ 1..) = net.hosts[1].read(server, &mut bytes) {
            arrived.extend(&bytes[..count]);
            net.settle();
        }
        assert!(waits > 2, "the writer waited {waits} times");
        assert_eq!(arrived, all);
    }
}

#[test]
fn silence_ends_a_connection_and_an_attempt() {
    let retransmission = Some(Retransmission::default());
    let mut net = Net::new(retransmission);
    let (client, _) = net.connection();
    assert_eq!(net.hosts[0].write(client, b"lost"), Ok(4));
    net.pass_in_silence(Duration::from_secs(1_000));
    assert_eq!(readiness(&mut net.hosts[0], client) & EPOLLERR, 0);
    net.pass_in_silence(Duration::from_secs(2_000));
    assert_eq!(net.hosts[0].read(client, &mut [0; 9]), failed(Errno::ETIMEDOUT));

    let mut net = Net::new(retransmission);
    let client = stream(&mut net.hosts[0]);
    assert_eq!(net.hosts[0].connect(client, &at(1, 80)), Err(Stop::Blocked));
    net.pass_in_silence(Duration::from_secs(126));
    assert!(!net.hosts[0].is_runnable(everhold_os::ThreadId(0)));
    net.pass_in_silence(Duration::from_secs(128));
    assert_eq!(net.hosts[0].connect(client, &at(1, 80)), failed(Errno::ETIMEDOUT));
}

#[test]
fn questions_to_a_silent_peer_end_a_connection() {
    let mut net = Net::new(Some(Retransmission::default()));
    let (client, _) = net.connection();
    net.hosts[0].setsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &[1, 0, 0, 0]).expect("known");
    assert_eq!(net.hosts[0].read(client, &mut [0; 9]), Err(Stop::Blocked));
    net.pass_in_silence(Duration::from_secs(7_200 + 8 * 75));
    assert!(!net.hosts[0].is_runnable(everhold_os::ThreadId(0)));
    net.pass_in_silence(Duration::from_secs(7_200 + 9 * 75));
    assert_eq!(net.hosts[0].read(client, &mut [0; 9]), failed(Errno::ETIMEDOUT));
}

/// One run over a network that loses, repeats and reorders packets: what arrived, and how many
/// packets that took.
fn lossy(seed: u64) -> (Vec<u8>, Vec<u8>, usize) {
    let mut random = Random::new(seed);
    let mut net = Net::new(Some(Retransmission::default()));
    let (client, server) = net.connection();
    let all: Vec<u8> = (0..20_000_u32).map(|at| (at / 7) as u8).collect();
    let (mut sent, mut arrived) = (0, Vec::new());
    let mut ended = false;
    for _ in 0..100_000 {
        if sent < all.len() && random.below(3) == 0 {
            let end = all.len().min(sent + 1 + random.below(3_000));
            sent += net.hosts[0].write(client, &all[sent..end]).expect("there is room");
            if sent == all.len() {
                net.hosts[0].close(client).expect("it is open");
            }
        }
        let mut bytes = [0; 700];
        if readiness(&mut net.hosts[1], server) & EPOLLIN != 0 {
            let count = net.hosts[1].read(server, &mut bytes).expect("there is something");
            arrived.extend(&bytes[..count]);
            if count == 0 && !ended {
                ended = true;
                net.hosts[1].shutdown(server, 1).expect("it is connected");
            }
        }
        net.collect();
        if net.wire.is_empty() {
            let due = net.hosts.iter().filter_map(Host::next_deadline).min();
            let Some(due) = due else {
                if sent < all.len() || !ended {
                    continue;
                }
                break;
            };
            net.hosts.iter_mut().for_each(|host| host.advance(due));
        } else {
            let packet = net.wire.remove(random.below(net.wire.len()));
            match random.below(10) {
                0 | 1 => {}
                2 => {
                    net.wire.push(packet.clone());
                    net.arrive(packet);
                }
                _ => net.arrive(packet),
            }
        }
    }
    assert!(ended, "run {seed} did not end: {} of {} arrived", arrived.len(), all.len());
    (all, arrived, net.log.len())
}

#[test]
fn a_network_that_loses_repeats_and_reorders_changes_nothing() {
    // 100 runs of about 100 packets, of which a fifth is lost.
    for seed in 0..programs(100) {
        let (all, arrived, packets) = lossy(seed);
        assert!(all == arrived, "run {seed}: {} of {} bytes", arrived.len(), all.len());
        assert_eq!(lossy(seed).2, packets, "run {seed} differs when it is repeated");
    }
}

#[test]
fn segments_of_an_unknown_connection_are_answered_by_a_reset() {
    let mut net = Net::new(None);
    let (client, _) = net.connection();
    assert_eq!(net.hosts[0].write(client, b"x"), Ok(1));
    net.restart();
    net.collect();
    let packet = net.wire.remove(0);
    net.arrive(packet);
    let answers = net.hosts[1].take_packets();
    let flags = answers.iter().map(|packet| match &packet.body {
        Body::Segment(segment) => Some(segment.flag),
        _ => None,
    });
    assert_eq!(flags.collect::<Vec<_>>(), [Some(Flag::Reset)]);
}

#[test]
fn datagrams_travel_between_hosts_and_may_find_nobody() {
    for (family, address) in [(AF_INET, "10.0.0.2:9"), (AF_INET6, "[fd00::2]:9")] {
        let mut net = Net::new(None);
        let to = Address::Ip(address.parse().expect("an address"));
        let sender = net.hosts[0].socket(family, SOCK_DGRAM, 0).expect("there is room");
        net.hosts[0].connect(sender, &to).expect("the host is known");
        assert_eq!(net.hosts[0].write(sender, b"one"), Ok(3));
        net.settle();
        assert_eq!(net.hosts[0].write(sender, b"two"), failed(Errno::ECONNREFUSED));
        let receiver = net.hosts[1].socket(family, SOCK_DGRAM, 0).expect("there is room");
        net.hosts[1].bind(receiver, &to).expect("the port is free");
        assert_eq!(net.hosts[0].write(sender, b"three"), Ok(5));
        net.settle();
        let mut bytes = [0; 3];
        let received = net.hosts[1].recvfrom(receiver, &mut bytes, 0).expect("it is there");
        assert_eq!((received.bytes, received.length), (3, 5));
        assert_eq!(received.from, net.hosts[0].getsockname(sender).ok());
    }
}

#[test]
fn names_lead_to_hosts() {
    let net = Net::new(None);
    let check = |name: &str, first: &str| {
        let found = net.hosts[0].resolve(name).first().map(ToString::to_string);
        assert_eq!(found.unwrap_or_default(), first, "{name}");
    };
    check("h1", "10.0.0.2");
    check("H1.", "10.0.0.2");
    check("10.1.2.3", "10.1.2.3");
    check("localhost", "::1");
    check("h9", "");
}
