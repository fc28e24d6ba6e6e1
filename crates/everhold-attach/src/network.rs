//! Sends and receives of TCP, as the kernel's own tracepoints show them.
//!
//! Both ends of a connection number its bytes alike. A send is looked at before its data can leave,
//! with the number of its first byte, a receive when it is done, with the number after its last; so a
//! receive comes after every send that began before its end. No byte is added to any message.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use everhold_kernel::bpf::{self, Insn, Link, Map, Program, ProgramKind};

use crate::assemble::{Assembler, FRAME, Jump, Label, helper};
use crate::btf::Btf;
use crate::error::{AttachError, AttachErrorKind};
use crate::hook::refused;

/// The numbers that records of sends and receives have instead of that of a probe.
pub(crate) const SEND: u32 = 0xffff_ff00;
pub(crate) const RECEIVE: u32 = 0xffff_ff01;

/// The size of a record: time, process, number; sequence number, family, ports; two addresses.
const RECORD: usize = 24 + 24 + 32;

/// The families of addresses, and the protocol.
const IPV4: i32 = 2;
const IPV6: i32 = 10;
const TCP: i32 = 6;

/// The flag of a receive that only looks.
const PEEK: i32 = 2;

/// Where the fields of a socket are in this kernel.
struct Socket {
    family: i32,
    protocol: i32,
    local_port: i32,
    remote_port: i32,
    /// Local and remote, for each family.
    ipv4: [i32; 2],
    ipv6: [i32; 2],
    /// The number of the next byte that is written, and of the next that is read.
    written: i32,
    read: i32,
}

impl Socket {
    fn of(btf: &Btf) -> Result<Socket, AttachError> {
        let common = |field| btf.offset("sock_common", field);
        Ok(Socket {
            family: common("skc_family")?,
            protocol: btf.offset("sock", "sk_protocol")?,
            local_port: common("skc_num")?,
            remote_port: common("skc_dport")?,
            ipv4: [common("skc_rcv_saddr")?, common("skc_daddr")?],
            ipv6: [common("skc_v6_rcv_saddr")?, common("skc_v6_daddr")?],
            written: btf.offset("tcp_sock", "write_seq")?,
            read: btf.offset("tcp_sock", "copied_seq")?,
        })
    }
}

/// Links to the tracepoints of the kernel.
#[derive(Debug)]
pub(crate) struct Network {
    _links: Vec<Link>,
    _programs: Vec<Program>,
}

impl Network {
    /// Watches the connections of the processes in a map; counts what finds the ring full in the
    /// first word of `lost`.
    pub(crate) fn watch(ring: &Map, processes: &Map, lost: &Map) -> Result<Network, AttachError> {
        let btf = Btf::read()?;
        let socket = Socket::of(&btf)?;
        let mut network = Network { _links: Vec::new(), _programs: Vec::new() };
        let sends = places_of_sends(&btf).into_iter().next();
        let receives = btf.tracepoint("sock_recv_length").map(ProgramKind::Tracepoint);
        for (name, place, number) in
            [("tcp_sendmsg_locked", sends, SEND), ("sock_recv_length", receives, RECEIVE)]
        {
            let kind = place.ok_or_else(|| {
                let text = format!("this kernel has no tracepoint {name}");
                AttachError::new(AttachErrorKind::Unsupported, "the order of messages", text)
            })?;
            network.add(name, kind, &code(&socket, number, ring, processes, lost))?;
        }
        Ok(network)
    }

    fn add(&mut self, name: &str, kind: ProgramKind, code: &[Insn]) -> Result<(), AttachError> {
        let program = Program::load(kind, code).map_err(|error| refused(name, &error))?;
        let link = bpf::link_tracepoint(&program).map_err(|error| {
            let text = format!("the kernel refuses to show it: {error}");
            AttachError::new(AttachErrorKind::Refused, name, text)
        })?;
        self._links.push(link);
        self._programs.push(program);
        Ok(())
    }
}

/// Where sends can be seen, the best place first: the tracepoint of Linux 6.16, and the beginning of the
/// function that has it. Both begin with the socket.
fn places_of_sends(btf: &Btf) -> Vec<ProgramKind> {
    let tracepoint = btf.tracepoint("tcp_sendmsg_locked").map(ProgramKind::Tracepoint);
    let function = btf.function("tcp_sendmsg_locked").map(ProgramKind::FunctionEntry);
    tracepoint.into_iter().chain(function).collect()
}

const CONTEXT: u8 = 6;
const SOCKET: u8 = 7;
const NOTE: u8 = 8;

fn code(socket: &Socket, number: u32, ring: &Map, processes: &Map, lost: &Map) -> Vec<Insn> {
    let mut code = Assembler::default();
    let (done, reserved) = (code.label(), code.label());
    code.copy(CONTEXT, 1);
    code.call(helper::PROCESS);
    code.store(FRAME, -8, 0);
    code.shift_right(0, 32);
    code.store_half(FRAME, -16, 0);
    code.set_map(1, processes);
    code.address(2, -16);
    code.call(helper::LOOKUP);
    code.jump(Jump::Equal, 0, 0, done);
    code.load(SOCKET, CONTEXT, 0);
    if number == RECEIVE {
        // The number of bytes, as a signed number of 32 bits, and the flags.
        code.load(1, CONTEXT, 8);
        code.shift_left(1, 32);
        code.shift_right_signed(1, 32);
        code.jump(Jump::SignedAtMost, 1, 0, done);
        code.load(1, CONTEXT, 16);
        code.and(1, PEEK);
        code.jump(Jump::Different, 1, 0, done);
    }
    field(&mut code, -24, 2, socket.protocol, done);
    code.jump(Jump::Different, 1, TCP, done);
    field(&mut code, -32, 2, socket.family, done);
    code.set_map(1, ring);
    code.set(2, RECORD as i32);
    code.set(3, 0);
    code.call(helper::RESERVE);
    code.jump(Jump::Different, 0, 0, reserved);
    code.set(1, 0);
    code.store_half(FRAME, -16, 1);
    code.set_map(1, lost);
    code.address(2, -16);
    code.call(helper::LOOKUP);
    code.jump(Jump::Equal, 0, 0, done);
    code.set(1, 1);
    code.count(0, 0, 1);
    code.go(done);
    code.here(reserved);
    code.copy(NOTE, 0);
    fill(&mut code, socket, number);
    code.copy(1, NOTE);
    code.set(2, 1);
    code.call(helper::SUBMIT);
    code.here(done);
    code.exit();
    code.finish()
}

/// Reads a field of the socket onto the stack and into register 1.
fn field(code: &mut Assembler, at: i16, size: i32, offset: i32, failed: Label) {
    code.store_value(FRAME, at, 0);
    code.address(1, at);
    code.set(2, size);
    code.copy(3, SOCKET);
    code.add(3, offset);
    code.call(helper::READ_KERNEL);
    code.jump(Jump::Different, 0, 0, failed);
    code.load(1, FRAME, at);
}

/// Fills a record that was reserved; what cannot be read stays zero.
fn fill(code: &mut Assembler, socket: &Socket, number: u32) {
    for at in (24..RECORD).step_by(8) {
        code.store_value(NOTE, at as i16, 0);
    }
    let position = if number == SEND { socket.written } else { socket.read };
    let fields = [(24, 4, position), (40, 2, socket.local_port), (44, 2, socket.remote_port)];
    for (at, size, offset) in fields {
        copied(code, at, size, offset);
    }
    code.load(1, FRAME, -32);
    code.store(NOTE, 32, 1);
    let (ipv6, addressed) = (code.label(), code.label());
    code.jump(Jump::Equal, 1, IPV6, ipv6);
    copied(code, 48, 4, socket.ipv4[0]);
    copied(code, 64, 4, socket.ipv4[1]);
    code.go(addressed);
    code.here(ipv6);
    copied(code, 48, 16, socket.ipv6[0]);
    copied(code, 64, 16, socket.ipv6[1]);
    code.here(addressed);
    code.call(helper::TIME);
    code.store(NOTE, 0, 0);
    code.load(1, FRAME, -8);
    code.store(NOTE, 8, 1);
    code.set_wide(1, i64::from(number));
    code.store(NOTE, 16, 1);
}

/// Copies a field of the socket into the record.
fn copied(code: &mut Assembler, at: i32, size: i32, offset: i32) {
    code.copy(1, NOTE);
    code.add(1, at);
    code.set(2, size);
    code.copy(3, SOCKET);
    code.add(3, offset);
    code.call(helper::READ_KERNEL);
}

/// The direction of a connection: from where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Direction {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The network namespace, if the addresses mean something in it alone.
    pub(crate) within: Option<u64>,
}

/// A send or a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) direction: Direction,
    pub(crate) is_send: bool,
    /// Of a send the number of its first byte, of a receive that after its last.
    pub(crate) position: u32,
}

impl Passage {
    /// Reads the body of a record, behind its first three words, of a process in this network
    /// namespace.
    pub(crate) fn read(number: u32, body: &[u8], namespace: u64) -> Option<Passage> {
        let bytes: &[u8; RECORD - 24] = body.try_into().ok()?;
        let half = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let family = i32::try_from(half(8)).ok()?;
        let address = |at: usize| -> Option<IpAddr> {
            let all: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
            match family {
                IPV4 => Some(IpAddr::from([all[0], all[1], all[2], all[3]])),
                // One end may see the other's IPv4 address as one of IPv6.
                IPV6 => Some(Ipv6Addr::from(all).to_canonical()),
                _ => None,
            }
        };
        let local = SocketAddr::new(address(24)?, u16::from_le_bytes([bytes[16], bytes[17]]));
        let remote = SocketAddr::new(address(40)?, u16::from_be_bytes([bytes[20], bytes[21]]));
        let is_send = number == SEND;
        let (from, to) = if is_send { (local, remote) } else { (remote, local) };
        // Every namespace has a loopback device of its own, so the same ports may be in use there.
        let within = from.ip().is_loopback().then_some(namespace);
        Some(Passage { direction: Direction { from, to, within }, is_send, position: half(0) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use everhold_kernel::Ring;
    use everhold_kernel::bpf::MapKind;

    use super::*;

    /// Kernels before 6.16 have no tracepoint for sends; the function is there as well.
    #[test]
    fn sends_are_seen_at_each_of_their_places() {
        let missing = crate::missing_capabilities();
        if !missing.is_empty() {
            assert!(std::env::var_os("CI").is_none(), "{missing:?}");
            return eprintln!("left out: {} are missing", missing.join(" and "));
        }
        let btf = Btf::read().unwrap();
        let socket = Socket::of(&btf).unwrap();
        for (index, place) in places_of_sends(&btf).into_iter().enumerate() {
            let ring = Map::create(MapKind::Ring, 0, 0, 1 << 16).unwrap();
            let processes = Map::create(MapKind::Hash, 4, 8, 8).unwrap();
            let lost = Map::create(MapKind::Array, 4, 8, 1).unwrap();
            let mut ring = Ring::new(ring).unwrap();
            processes.set(&std::process::id().to_ne_bytes(), &[0; 8]).unwrap();
            let mut network = Network { _links: Vec::new(), _programs: Vec::new() };
            let code = code(&socket, SEND, ring.map(), &processes, &lost);
            if let Err(error) = network.add("tcp_sendmsg_locked", place, &code) {
                // Some machines do not let anybody look at functions of the kernel.
                assert!(index > 0, "{error}");
                eprintln!("left out: {error}");
                continue;
            }
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            sender.write_all(&[1]).unwrap();
            listener.accept().unwrap().0.read_exact(&mut [0]).unwrap();
            let mut seen = Vec::new();
            ring.read(|bytes| {
                seen.extend(crate::record::Record::read(bytes));
            });
            let port = sender.local_addr().unwrap().port();
            let passages = seen.iter().filter_map(|it| Passage::read(it.number, &it.body, 0));
            assert!(passages.into_iter().any(|it| it.direction.from.port() == port), "{place:?}");
        }
    }

    /// The body of a record between these addresses and ports.
    fn body(local: [u8; 4], remote: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0; RECORD - 24];
        bytes[8] = IPV4 as u8;
        bytes[16..18].copy_from_slice(&1000_u16.to_le_bytes());
        bytes[20..22].copy_from_slice(&2000_u16.to_be_bytes());
        bytes[24..28].copy_from_slice(&local);
        bytes[40..44].copy_from_slice(&remote);
        bytes
    }

    #[test]
    fn loopback_connections_of_different_namespaces_are_different() {
        let direction = |address: [u8; 4], namespace| {
            let body = body(address, address);
            Passage::read(SEND, &body, namespace).unwrap().direction
        };
        let (loopback, host) = ([127, 0, 0, 1], [10, 0, 0, 1]);
        assert_eq!(direction(loopback, 1), direction(loopback, 1));
        assert_ne!(direction(loopback, 1), direction(loopback, 2));
        // Addresses of the network are seen from both ends.
        assert_eq!(direction(host, 1), direction(host, 2));
    }
}
