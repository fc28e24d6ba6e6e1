//! Random programs over sockets, pipes, eventfds and epoll sets, on the real kernel and on the
//! model: every outcome must be the same.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use everhold_os::{Address, UnixAddress};

use crate::machine::{Machine, Model, Real, Socket, Switch};
use crate::random::{Random, programs};

/// The slots of a program.
const SLOTS: usize = 8;

/// One call of a program.
#[derive(Clone, Copy, Debug)]
enum Op {
    Socket(usize, Socket),
    Pair(usize, usize),
    Pipe(usize, usize),
    Event(usize, u32, bool),
    Epoll(usize),
    Dup(usize, usize),
    Close(usize),
    /// To a free port of the address with a number.
    Bind(usize, usize),
    BindLike(usize, usize),
    Listen(usize, i32),
    Connect(usize, usize),
    /// To a port at which nothing listens.
    ConnectNowhere(usize),
    Accept(usize, usize),
    Shutdown(usize, i32),
    Name(usize, bool),
    Read(usize, usize),
    Write(usize, usize),
    Recv(usize, usize, bool),
    SendTo(usize, usize, usize),
    Error(usize),
    Set(usize, Switch),
    Get(usize, Switch),
    BytesToRead(usize),
    Poll(usize),
    EpollCtl(usize, i32, usize, u32),
    EpollWait(usize, usize),
}

const ADDRESSES: [&str; 5] = ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0", "127.0.0.2:0"];
const NOWHERE: [&str; 2] = ["127.0.0.1:1", "[::1]:1"];
const KINDS: [Socket; 5] = [Socket::Tcp4, Socket::Tcp6, Socket::Udp4, Socket::Udp6, Socket::Unix];
const SWITCHES: [Switch; 5] =
    [Switch::Reuse, Switch::NoDelay, Switch::KeepAlive, Switch::Abort, Switch::OnlyV6];
const SIZES: [usize; 8] = [0, 1, 7, 8, 100, 1000, 5000, 70_000];

/// The names of ports in outcomes: the slot that showed one first.
type Ports = BTreeMap<u16, String>;

/// The slots of descriptors that must be open for an operation.
fn uses(op: Op) -> Vec<usize> {
    match op {
        Op::Socket(..) | Op::Pair(..) | Op::Pipe(..) | Op::Event(..) | Op::Epoll(_) => vec![],
        Op::Close(a) | Op::Bind(a, _) | Op::Listen(a, _) | Op::ConnectNowhere(a) => vec![a],
        Op::Accept(a, _) | Op::Dup(a, _) | Op::Shutdown(a, _) | Op::Name(a, _) => vec![a],
        Op::Read(a, _) | Op::Write(a, _) | Op::Recv(a, ..) | Op::Error(a) => vec![a],
        Op::Set(a, _) | Op::Get(a, _) | Op::BytesToRead(a) | Op::Poll(a) => vec![a],
        Op::EpollWait(a, _) => vec![a],
        Op::BindLike(a, b) | Op::Connect(a, b) | Op::SendTo(a, _, b) => vec![a, b],
        Op::EpollCtl(a, _, b, _) => vec![a, b],
    }
}

/// Runs a call and says what came of it.
fn run(machine: &mut dyn Machine, op: Op, ports: &mut Ports, name: &str, step: usize) -> String {
    if uses(op).iter().any(|slot| !machine.is_open(*slot)) {
        return "no descriptor".to_owned();
    }
    let address = |text: &str| Address::Ip(text.parse().expect("an address"));
    let outcome = match op {
        Op::Socket(slot, kind) => show(machine.socket(slot, kind)),
        Op::Pair(a, b) => show(machine.pair([a, b])),
        Op::Pipe(a, b) => show(machine.pipe([a, b])),
        Op::Event(slot, value, is_semaphore) => show(machine.event(slot, value, is_semaphore)),
        Op::Epoll(slot) => show(machine.epoll(slot)),
        Op::Dup(slot, to) => show(machine.dup(slot, to)),
        Op::Close(slot) => {
            machine.close(slot);
            String::new()
        }
        Op::Bind(slot, number) => {
            let to = match machine.name(slot, false) {
                Ok(Address::Unix(_)) => {
                    let name = format!("{name}-{number}").into_bytes();
                    Address::Unix(UnixAddress::Abstract(name))
                }
                _ => address(ADDRESSES[number]),
            };
            show(machine.bind(slot, &to))
        }
        Op::BindLike(slot, other) => match machine.name(other, false) {
            Ok(to) => show(machine.bind(slot, &to)),
            Err(error) => format!("no name: {error}"),
        },
        Op::Listen(slot, backlog) => show(machine.listen(slot, backlog)),
        Op::Connect(slot, to) => match machine.name(to, false) {
            Ok(to) if !is_unbound(&to) => show(machine.connect(slot, &to)),
            _ => "no name".to_owned(),
        },
        Op::ConnectNowhere(slot) => match machine.name(slot, false) {
            Ok(Address::Ip(SocketAddr::V4(_))) => show(machine.connect(slot, &address(NOWHERE[0]))),
            Ok(Address::Ip(_)) => show(machine.connect(slot, &address(NOWHERE[1]))),
            _ => "no port".to_owned(),
        },
        Op::Accept(slot, to) => show(machine.accept(slot, to)),
        Op::Shutdown(slot, how) => show(machine.shutdown(slot, how)),
        Op::Name(slot, is_peer) => name_of(machine, slot, is_peer, ports),
        Op::Read(slot, count) => show(machine.read(slot, count).map(|bytes| digest(&bytes))),
        Op::Write(slot, count) => show(machine.write(slot, &contents(step, count))),
        Op::Recv(slot, count, peeks) => {
            show(machine.recv(slot, count, peeks).map(|(bytes, length)| (digest(&bytes), length)))
        }
        Op::SendTo(slot, count, to) => match machine.name(to, false) {
            Ok(to) if !is_unbound(&to) => show(machine.send_to(slot, &contents(step, count), &to)),
            _ => "no name".to_owned(),
        },
        Op::Error(slot) => show(machine.error(slot)),
        Op::Set(slot, switch) => show(machine.set(slot, switch)),
        Op::Get(slot, switch) => show(machine.get(slot, switch)),
        Op::BytesToRead(slot) => show(machine.bytes_to_read(slot)),
        Op::Poll(slot) => show(machine.poll(slot, 0x2005)),
        Op::EpollCtl(epoll, op, slot, events) => show(machine.epoll_ctl(epoll, op, slot, events)),
        Op::EpollWait(epoll, most) => show(machine.epoll_wait(epoll, most)),
    };
    machine.settle();
    outcome
}

fn name_of(machine: &mut dyn Machine, slot: usize, is_peer: bool, ports: &mut Ports) -> String {
    match machine.name(slot, is_peer) {
        Ok(Address::Ip(at)) => format!("{}:{}", at.ip(), port(ports, at.port(), slot)),
        // The kernel's own choice, which is random.
        Ok(Address::Unix(UnixAddress::Abstract(bytes))) if bytes.len() == 5 => "a name".to_owned(),
        Ok(Address::Unix(UnixAddress::Abstract(bytes))) => {
            String::from_utf8(bytes).expect("names in programs are text")
        }
        other => show(other),
    }
}

fn show<T: std::fmt::Debug>(outcome: Result<T, i32>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(number) => format!("{:?}", everhold_os::Errno(number)),
    }
}

fn is_unbound(address: &Address) -> bool {
    match address {
        Address::Ip(address) => address.port() == 0,
        Address::Unix(address) => *address == UnixAddress::Unnamed,
    }
}

fn port(ports: &mut Ports, port: u16, slot: usize) -> String {
    match port {
        0 => "0".to_owned(),
        1 => "1".to_owned(),
        _ => {
            let number = ports.len();
            ports.entry(port).or_insert_with(|| format!("port {number} of {slot}")).clone()
        }
    }
}

/// Bytes that tell where they were written.
fn contents(step: usize, count: usize) -> Vec<u8> {
    // As a number for an eventfd, they are small.
    let mut bytes: Vec<u8> = (0..count).map(|at| (step * 31 + at / 8) as u8).collect();
    if count == 8 {
        bytes[1..].fill(0);
    }
    bytes
}

fn digest(bytes: &[u8]) -> (usize, u64) {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    (bytes.len(), bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// The calls before the random part, so that it begins somewhere.
fn beginning(random: &mut Random) -> Vec<Op> {
    let tcp = random.pick(&[(Socket::Tcp4, 0), (Socket::Tcp6, 2), (Socket::Tcp6, 3)]);
    let udp = random.pick(&[(Socket::Udp4, 0), (Socket::Udp6, 2), (Socket::Udp4, 1)]);
    let client = if tcp.1 == 3 { random.pick(&[Socket::Tcp4, Socket::Tcp6]) } else { tcp.0 };
    let stream = |server: Socket, address: usize, client: Socket| {
        vec![
            Op::Socket(0, server),
            Op::Bind(0, address),
            Op::Listen(0, 4),
            Op::Socket(1, client),
            Op::Connect(1, 0),
            Op::Connect(1, 0),
            Op::Accept(0, 2),
            Op::Name(1, false),
            Op::Name(2, true),
            Op::Epoll(3),
        ]
    };
    match random.below(8) {
        0 => vec![],
        1..=3 => stream(tcp.0, tcp.1, client),
        4 => stream(Socket::Unix, 0, Socket::Unix),
        5 => vec![Op::Pair(1, 2), Op::Epoll(3), Op::Pipe(4, 5)],
        6 => vec![Op::Pipe(1, 2), Op::Event(4, 0, false), Op::Epoll(3)],
        _ => vec![
            Op::Socket(1, udp.0),
            Op::Bind(1, udp.1),
            Op::Socket(2, udp.0),
            Op::Connect(2, 1),
            Op::Epoll(3),
        ],
    }
}

fn random_op(random: &mut Random) -> Op {
    let slot = random.below(SLOTS);
    let other = random.below(SLOTS);
    // The ends of a connection, and the set that watches it, are used most.
    let end = random.pick(&[1, 2, 1, 2, 1, 2, slot]);
    let set = random.pick(&[3, 3, 3, 7]);
    let size = random.pick(&SIZES);
    let edges = random.pick(&[0, 0, 1 << 31, 1 << 31, 1 << 30, 3 << 30]);
    let events = random.pick(&[1, 4, 5, 0x2005, 0x2001]) | edges;
    match random.below(44) {
        0 => Op::Socket(slot, random.pick(&KINDS)),
        1 if slot != other => Op::Pair(slot, other),
        2 if slot != other => Op::Pipe(slot, other),
        3 => Op::Event(slot, random.below(3) as u32, random.below(2) == 0),
        4 => Op::Epoll(set),
        5 if slot != other => Op::Dup(slot, other),
        6 => Op::Close(end),
        7 => Op::Bind(slot, random.below(ADDRESSES.len())),
        8 => Op::BindLike(slot, other),
        9 => Op::Listen(slot, random.pick(&[0, 1, 4, -1])),
        10 => Op::Connect(slot, random.pick(&[0, 0, 1, other])),
        11 => Op::ConnectNowhere(slot),
        12 => Op::Accept(random.pick(&[0, slot]), other),
        13 | 14 => Op::Shutdown(end, random.below(3) as i32),
        15 => Op::Name(slot, random.below(2) == 0),
        16..=19 => Op::Read(end, size),
        20..=24 => Op::Write(end, size.min(5000)),
        25 => Op::Recv(end, size, random.below(2) == 0),
        26 => Op::SendTo(end, size.min(5000), other),
        27 => Op::Error(end),
        28 => Op::Set(slot, random.pick(&SWITCHES)),
        29 => Op::Get(slot, random.pick(&SWITCHES)),
        30 => Op::BytesToRead(end),
        31 | 32 => Op::Poll(end),
        33..=37 => {
            Op::EpollCtl(set, random.pick(&[1, 1, 1, 2, 3]), random.pick(&[end, slot]), events)
        }
        _ => Op::EpollWait(set, random.pick(&[1, 2, 10])),
    }
}

fn program(seed: u64) -> Vec<Op> {
    let mut random = Random::new(seed);
    let mut ops = beginning(&mut random);
    let length = 5 + random.below(45);
    ops.extend((0..length).map(|_| random_op(&mut random)));
    ops
}

fn outcomes(machine: &mut dyn Machine, ops: &[Op], name: &str) -> Vec<String> {
    let mut ports = Ports::new();
    let run = |(step, op): (usize, &Op)| run(machine, *op, &mut ports, name, step);
    ops.iter().enumerate().map(run).collect()
}

/// Runs a program on both. The kernel does some things a moment later than the call that causes
/// them, up to 40 milliseconds for acknowledgements of TCP; where the two differ, the program runs
/// again with pauses.
fn check(ops: &[Op], name: &str) -> Result<(), String> {
    let mut differing = String::new();
    for pause in [0, 1, 50] {
        // Names of Unix sockets are those of the whole machine.
        let name = format!("everhold-{}-{name}-{pause}", std::process::id());
        let modelled = outcomes(&mut Model::new(), ops, &name);
        let real = outcomes(&mut Real::new(Duration::from_millis(pause)), ops, &name);
        let rows = ops.iter().zip(real.iter().zip(&modelled));
        let Some(at) = rows.clone().position(|(_, (real, model))| real != model) else {
            return Ok(());
        };
        let line =
            |(op, (real, model)): (&Op, (&String, &String))| format!("{op:?}: {real} | {model}");
        let lines: Vec<String> = rows.take(at + 1).map(line).collect();
        differing = lines.join("\n");
    }
    Err(differing)
}

/// The smallest program with a difference that leaving out calls finds.
fn shrunk(mut ops: Vec<Op>, name: &str) -> String {
    let mut last = String::new();
    while let Some((fewer, why)) = (0..ops.len()).rev().find_map(|at| {
        let mut fewer = ops.clone();
        fewer.remove(at);
        check(&fewer, name).err().map(|why| (fewer, why))
    }) {
        (ops, last) = (fewer, why);
    }
    last
}

#[test]
fn sockets_behave_as_on_the_real_kernel() {
    // 300 programs of 27 random calls on average: a defect that shows in one of 100 programs
    // remains unseen in fewer than 5 of 100 runs with other seeds.
    let mut differing = Vec::new();
    for seed in 0..programs(300) {
        let ops = program(seed);
        let name = seed.to_string();
        if check(&ops, &name).is_err() {
            differing.push(format!("program {seed}:\n{}", shrunk(ops, &name)));
        }
        if differing.len() == 8 {
            break;
        }
    }
    assert!(differing.is_empty(), "call: real | model\n{}", differing.join("\n"));
}
