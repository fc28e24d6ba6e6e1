//! One interface to the real kernel and to the model, with descriptors by slot.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use everhold_os::abi::family::{AF_INET, AF_INET6, AF_UNIX};
use everhold_os::abi::open::O_NONBLOCK;
use everhold_os::abi::socket::{SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM};
use everhold_os::{Address, Errno, Event, Host, PollFd, Settings, Stop, UnixAddress, Usual};
use rustix::event::epoll as real_epoll;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType};
use rustix::net::{SocketAddrUnix, sockopt};

/// An outcome: a value or an error number.
pub(crate) type Outcome<T> = Result<T, i32>;

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    Tcp4,
    Tcp6,
    Udp4,
    Udp6,
    Unix,
}

/// An option that is set to one or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    Reuse,
    NoDelay,
    KeepAlive,
    /// A linger time of zero.
    Abort,
    OnlyV6,
}

/// A kernel whose calls never wait. A slot is the place of a descriptor in the program.
pub(crate) trait Machine {
    fn is_open(&self, slot: usize) -> bool;
    fn socket(&mut self, slot: usize, kind: Socket) -> Outcome<()>;
    fn pair(&mut self, slots: [usize; 2]) -> Outcome<()>;
    fn pipe(&mut self, slots: [usize; 2]) -> Outcome<()>;
    fn event(&mut self, slot: usize, value: u32, is_semaphore: bool) -> Outcome<()>;
    fn epoll(&mut self, slot: usize) -> Outcome<()>;
    fn dup(&mut self, slot: usize, to: usize) -> Outcome<()>;
    fn close(&mut self, slot: usize);
    fn bind(&mut self, slot: usize, to: &Address) -> Outcome<()>;
    fn listen(&mut self, slot: usize, backlog: i32) -> Outcome<()>;
    fn connect(&mut self, slot: usize, to: &Address) -> Outcome<()>;
    fn accept(&mut self, slot: usize, to: usize) -> Outcome<()>;
    fn shutdown(&mut self, slot: usize, how: i32) -> Outcome<()>;
    fn name(&self, slot: usize, is_peer: bool) -> Outcome<Address>;
    fn read(&mut self, slot: usize, count: usize) -> Outcome<Vec<u8>>;
    fn write(&mut self, slot: usize, bytes: &[u8]) -> Outcome<usize>;
    fn recv(&mut self, slot: usize, count: usize, peeks: bool) -> Outcome<(Vec<u8>, usize)>;
    fn send_to(&mut self, slot: usize, bytes: &[u8], to: &Address) -> Outcome<usize>;
    fn error(&mut self, slot: usize) -> Outcome<i32>;
    fn set(&mut self, slot: usize, switch: Switch) -> Outcome<()>;
    fn get(&mut self, slot: usize, switch: Switch) -> Outcome<bool>;
    fn bytes_to_read(&self, slot: usize) -> Outcome<usize>;
    fn poll(&mut self, slot: usize, events: i16) -> Outcome<i16>;
    fn epoll_ctl(&mut self, epoll: usize, op: i32, slot: usize, events: u32) -> Outcome<()>;
    fn epoll_wait(&mut self, epoll: usize, most: usize) -> Outcome<Vec<(u32, u64)>>;
    /// Waits until the kernel has done what it does later.
    fn settle(&mut self) {}
}

/// The model.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) host: Host,
    slots: BTreeMap<usize, i32>,
}

impl Model {
    pub(crate) fn new() -> Self {
        let settings =
            Settings { send_buffer: 212_992, receive_buffer: 212_992, ..Settings::default() };
        Model { host: Host::new(settings, Box::new(Usual::default())), slots: BTreeMap::new() }
    }

    fn put(&mut self, slot: usize, fd: Result<i32, Errno>) -> Outcome<()> {
        let fd = fd.map_err(|errno| errno.0)?;
        if let Some(old) = self.slots.insert(slot, fd) {
            self.host.close(old).expect("a slot is open");
        }
        Ok(())
    }
}

fn plain<T>(answer: Result<T, Errno>) -> Outcome<T> {
    answer.map_err(|errno| errno.0)
}

fn answered<T>(answer: Result<T, Stop>) -> Outcome<T> {
    answer.map_err(|stop| match stop {
        Stop::Failed(errno) => errno.0,
        Stop::Blocked => panic!("a call that must not wait does"),
    })
}

/// The level and the name of an option.
fn numbers(switch: Switch) -> (i32, i32) {
    match switch {
        Switch::Reuse => (1, 2),
        Switch::NoDelay => (6, 1),
        Switch::KeepAlive => (1, 9),
        Switch::Abort => (1, 13),
        Switch::OnlyV6 => (41, 26),
    }
}

impl Machine for Model {
    fn is_open(&self, slot: usize) -> bool {
        self.slots.contains_key(&slot)
    }
    fn socket(&mut self, slot: usize, kind: Socket) -> Outcome<()> {
        let (family, kind) = match kind {
            Socket::Tcp4 => (AF_INET, SOCK_STREAM),
            Socket::Tcp6 => (AF_INET6, SOCK_STREAM),
            Socket::Udp4 => (AF_INET, SOCK_DGRAM),
            Socket::Udp6 => (AF_INET6, SOCK_DGRAM),
            Socket::Unix => (AF_UNIX, SOCK_STREAM),
        };
        let fd = self.host.socket(family, kind | SOCK_NONBLOCK, 0);
        self.put(slot, fd)
    }
    fn pair(&mut self, slots: [usize; 2]) -> Outcome<()> {
        let (a, b) = plain(self.host.socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0))?;
        self.put(slots[0], Ok(a))?;
        self.put(slots[1], Ok(b))
    }
    fn pipe(&mut self, slots: [usize; 2]) -> Outcome<()> {
        let (a, b) = plain(self.host.pipe(O_NONBLOCK))?;
        self.put(slots[0], Ok(a))?;
        self.put(slots[1], Ok(b))
    }
    fn event(&mut self, slot: usize, value: u32, is_semaphore: bool) -> Outcome<()> {
        let fd = self.host.eventfd(value, O_NONBLOCK | i32::from(is_semaphore));
        self.put(slot, fd)
    }
    fn epoll(&mut self, slot: usize) -> Outcome<()> {
        let fd = self.host.epoll_create(0);
        self.put(slot, fd)
    }
    fn dup(&mut self, slot: usize, to: usize) -> Outcome<()> {
        let fd = self.host.dup(self.slots[&slot]);
        self.put(to, fd)
    }
    fn close(&mut self, slot: usize) {
        let fd = self.slots.remove(&slot).expect("a slot that is closed is open");
        self.host.close(fd).expect("it is open");
    }
    fn bind(&mut self, slot: usize, to: &Address) -> Outcome<()> {
        plain(self.host.bind(self.slots[&slot], to))
    }
    fn listen(&mut self, slot: usize, backlog: i32) -> Outcome<()> {
        plain(self.host.listen(self.slots[&slot], backlog))
    }
    fn connect(&mut self, slot: usize, to: &Address) -> Outcome<()> {
        answered(self.host.connect(self.slots[&slot], to))
    }
    fn accept(&mut self, slot: usize, to: usize) -> Outcome<()> {
        let (fd, _) = answered(self.host.accept(self.slots[&slot], SOCK_NONBLOCK))?;
        self.put(to, Ok(fd))
    }
    fn shutdown(&mut self, slot: usize, how: i32) -> Outcome<()> {
        plain(self.host.shutdown(self.slots[&slot], how))
    }
    fn name(&self, slot: usize, is_peer: bool) -> Outcome<Address> {
        let fd = self.slots[&slot];
        plain(if is_peer { self.host.getpeername(fd) } else { self.host.getsockname(fd) })
    }
    fn read(&mut self, slot: usize, count: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; count];
        let count = answered(self.host.read(self.slots[&slot], &mut bytes))?;
        bytes.truncate(count);
        Ok(bytes)
    }
    fn write(&mut self, slot: usize, bytes: &[u8]) -> Outcome<usize> {
        answered(self.host.write(self.slots[&slot], bytes))
    }
    fn recv(&mut self, slot: usize, count: usize, peeks: bool) -> Outcome<(Vec<u8>, usize)> {
        let mut bytes = vec![0; count];
        let flags = if peeks { 2 } else { 0 };
        let received = answered(self.host.recvfrom(self.slots[&slot], &mut bytes, flags))?;
        bytes.truncate(received.bytes);
        Ok((bytes, received.length))
    }
    fn send_to(&mut self, slot: usize, bytes: &[u8], to: &Address) -> Outcome<usize> {
        answered(self.host.sendto(self.slots[&slot], bytes, 0, Some(to)))
    }
    fn error(&mut self, slot: usize) -> Outcome<i32> {
        let value = plain(self.host.getsockopt(self.slots[&slot], 1, 4))?;
        Ok(i32::from_ne_bytes(value.try_into().expect("an error is an int")))
    }
    fn set(&mut self, slot: usize, switch: Switch) -> Outcome<()> {
        let (level, name) = numbers(switch);
        let value: &[u8] =
            if switch == Switch::Abort { &[1, 0, 0, 0, 0, 0, 0, 0] } else { &[1, 0, 0, 0] };
        plain(self.host.setsockopt(self.slots[&slot], level, name, value))
    }
    fn get(&mut self, slot: usize, switch: Switch) -> Outcome<bool> {
        let (level, name) = numbers(switch);
        Ok(plain(self.host.getsockopt(self.slots[&slot], level, name))?[0] != 0)
    }
    fn bytes_to_read(&self, slot: usize) -> Outcome<usize> {
        plain(self.host.bytes_to_read(self.slots[&slot]))
    }
    fn poll(&mut self, slot: usize, events: i16) -> Outcome<i16> {
        let mut file = [PollFd { fd: self.slots[&slot], events, revents: 0 }];
        answered(self.host.poll(&mut file, Some(std::time::Duration::ZERO)))?;
        Ok(file[0].revents)
    }
    fn epoll_ctl(&mut self, epoll: usize, op: i32, slot: usize, events: u32) -> Outcome<()> {
        let event = Event { events, data: slot as u64 };
        plain(self.host.epoll_ctl(self.slots[&epoll], op, self.slots[&slot], event))
    }
    fn epoll_wait(&mut self, epoll: usize, most: usize) -> Outcome<Vec<(u32, u64)>> {
        let wait = Some(std::time::Duration::ZERO);
        let events = answered(self.host.epoll_wait(self.slots[&epoll], most, wait))?;
        Ok(events.into_iter().map(|event| (event.events, event.data)).collect())
    }
}

/// The kernel under this test, through loopback sockets.
#[derive(Debug)]
pub(crate) struct Real {
    slots: BTreeMap<usize, OwnedFd>,
    pause: std::time::Duration,
}

impl Real {
    /// With a pause after each call, in which the kernel does what it does later.
    pub(crate) fn new(pause: std::time::Duration) -> Self {
        Real { slots: BTreeMap::new(), pause }
    }

    fn put(&mut self, slot: usize, fd: rustix::io::Result<OwnedFd>) -> Outcome<()> {
        self.slots.insert(slot, real(fd)?);
        Ok(())
    }
}

fn real<T>(answer: rustix::io::Result<T>) -> Outcome<T> {
    answer.map_err(rustix::io::Errno::raw_os_error)
}

fn unix(address: &UnixAddress) -> SocketAddrUnix {
    match address {
        UnixAddress::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
        UnixAddress::Path(path) => SocketAddrUnix::new(path.as_slice()),
        UnixAddress::Unnamed => Ok(SocketAddrUnix::new_unnamed()),
    }
    .expect("names in programs are short")
}

fn known(address: SocketAddrAny) -> Address {
    if let Ok(ip) = SocketAddr::try_from(address.clone()) {
        return Address::Ip(ip);
    }
    let unix = SocketAddrUnix::try_from(address).expect("the other addresses are Unix ones");
    Address::Unix(match (unix.abstract_name(), unix.path_bytes()) {
        (Some([]), _) => UnixAddress::Unnamed,
        (Some(name), _) => UnixAddress::Abstract(name.to_vec()),
        (None, Some(path)) => UnixAddress::Path(path.to_vec()),
        (None, None) => UnixAddress::Unnamed,
    })
}

impl Machine for Real {
    fn is_open(&self, slot: usize) -> bool {
        self.slots.contains_key(&slot)
    }
    fn socket(&mut self, slot: usize, kind: Socket) -> Outcome<()> {
        let (family, kind) = match kind {
            Socket::Tcp4 => (AddressFamily::INET, SocketType::STREAM),
            Socket::Tcp6 => (AddressFamily::INET6, SocketType::STREAM),
            Socket::Udp4 => (AddressFamily::INET, SocketType::DGRAM),
            Socket::Udp6 => (AddressFamily::INET6, SocketType::DGRAM),
            Socket::Unix => (AddressFamily::UNIX, SocketType::STREAM),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        self.put(slot, rustix::net::socket_with(family, kind, flags, None))
    }
    fn pair(&mut self, slots: [usize; 2]) -> Outcome<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let (a, b) = real(rustix::net::socketpair(family, kind, flags, None))?;
        self.put(slots[0], Ok(a))?;
        self.put(slots[1], Ok(b))
    }
    fn pipe(&mut self, slots: [usize; 2]) -> Outcome<()> {
        let flags = rustix::pipe::PipeFlags::NONBLOCK | rustix::pipe::PipeFlags::CLOEXEC;
        let (a, b) = real(rustix::pipe::pipe_with(flags))?;
        self.put(slots[0], Ok(a))?;
        self.put(slots[1], Ok(b))
    }
    fn event(&mut self, slot: usize, value: u32, is_semaphore: bool) -> Outcome<()> {
        let mut flags = rustix::event::EventfdFlags::NONBLOCK;
        flags.set(rustix::event::EventfdFlags::SEMAPHORE, is_semaphore);
        self.put(slot, rustix::event::eventfd(value, flags))
    }
    fn epoll(&mut self, slot: usize) -> Outcome<()> {
        self.put(slot, real_epoll::create(real_epoll::CreateFlags::CLOEXEC))
    }
    fn dup(&mut self, slot: usize, to: usize) -> Outcome<()> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.slots[&slot], 3);
        self.put(to, fd)
    }
    fn close(&mut self, slot: usize) {
        self.slots.remove(&slot);
    }
    fn bind(&mut self, slot: usize, to: &Address) -> Outcome<()> {
        let fd = &self.slots[&slot];
        real(match to {
            Address::Ip(to) => rustix::net::bind(fd, to),
            Address::Unix(to) => rustix::net::bind(fd, &unix(to)),
        })
    }
    fn listen(&mut self, slot: usize, backlog: i32) -> Outcome<()> {
        real(rustix::net::listen(&self.slots[&slot], backlog))
    }
    fn connect(&mut self, slot: usize, to: &Address) -> Outcome<()> {
        let fd = &self.slots[&slot];
        real(match to {
            Address::Ip(to) => rustix::net::connect(fd, to),
            Address::Unix(to) => rustix::net::connect(fd, &unix(to)),
        })
    }
    fn accept(&mut self, slot: usize, to: usize) -> Outcome<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::accept_with(&self.slots[&slot], flags);
        self.put(to, fd)
    }
    fn shutdown(&mut self, slot: usize, how: i32) -> Outcome<()> {
        let how = match how {
            0 => rustix::net::Shutdown::Read,
            1 => rustix::net::Shutdown::Write,
            _ => rustix::net::Shutdown::Both,
        };
        real(rustix::net::shutdown(&self.slots[&slot], how))
    }
    fn name(&self, slot: usize, is_peer: bool) -> Outcome<Address> {
        let fd = &self.slots[&slot];
        if !is_peer {
            return real(rustix::net::getsockname(fd)).map(known);
        }
        let peer = real(rustix::net::getpeername(fd))?;
        Ok(peer.map_or(Address::Unix(UnixAddress::Unnamed), known))
    }
    fn read(&mut self, slot: usize, count: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; count];
        let count = real(rustix::io::read(&self.slots[&slot], bytes.as_mut_slice()))?;
        bytes.truncate(count);
        Ok(bytes)
    }
    fn write(&mut self, slot: usize, bytes: &[u8]) -> Outcome<usize> {
        real(rustix::io::write(&self.slots[&slot], bytes))
    }
    fn recv(&mut self, slot: usize, count: usize, peeks: bool) -> Outcome<(Vec<u8>, usize)> {
        let mut bytes = vec![0; count];
        let is_datagram = sockopt::socket_type(&self.slots[&slot]) == Ok(SocketType::DGRAM);
        let mut flags = RecvFlags::empty();
        flags.set(RecvFlags::PEEK, peeks);
        flags.set(RecvFlags::TRUNC, is_datagram);
        let received = rustix::net::recv(&self.slots[&slot], bytes.as_mut_slice(), flags);
        let (count, length) = real(received)?;
        bytes.truncate(count);
        Ok((bytes, length))
    }
    fn send_to(&mut self, slot: usize, bytes: &[u8], to: &Address) -> Outcome<usize> {
        let (fd, flags) = (&self.slots[&slot], SendFlags::empty());
        real(match to {
            Address::Ip(to) => rustix::net::sendto(fd, bytes, flags, to),
            Address::Unix(to) => rustix::net::sendto(fd, bytes, flags, &unix(to)),
        })
    }
    fn error(&mut self, slot: usize) -> Outcome<i32> {
        let error = real(sockopt::socket_error(&self.slots[&slot]))?;
        Ok(error.map_or_else(rustix::io::Errno::raw_os_error, |()| 0))
    }
    fn set(&mut self, slot: usize, switch: Switch) -> Outcome<()> {
        let fd = &self.slots[&slot];
        real(match switch {
            Switch::Reuse => sockopt::set_socket_reuseaddr(fd, true),
            Switch::NoDelay => sockopt::set_tcp_nodelay(fd, true),
            Switch::KeepAlive => sockopt::set_socket_keepalive(fd, true),
            Switch::Abort => sockopt::set_socket_linger(fd, Some(std::time::Duration::ZERO)),
            Switch::OnlyV6 => sockopt::set_ipv6_v6only(fd, true),
        })
    }
    fn get(&mut self, slot: usize, switch: Switch) -> Outcome<bool> {
        let fd = &self.slots[&slot];
        real(match switch {
            Switch::Reuse => sockopt::socket_reuseaddr(fd),
            Switch::NoDelay => sockopt::tcp_nodelay(fd),
            Switch::KeepAlive => sockopt::socket_keepalive(fd),
            Switch::Abort => sockopt::socket_linger(fd).map(|linger| linger.is_some()),
            Switch::OnlyV6 => sockopt::ipv6_v6only(fd),
        })
    }
    fn bytes_to_read(&self, slot: usize) -> Outcome<usize> {
        real(rustix::io::ioctl_fionread(&self.slots[&slot])).map(|count| count as usize)
    }
    fn poll(&mut self, slot: usize, events: i16) -> Outcome<i16> {
        let events = rustix::event::PollFlags::from_bits_retain(events as u16);
        let mut file = [rustix::event::PollFd::new(&self.slots[&slot], events)];
        real(rustix::event::poll(&mut file, Some(&rustix::event::Timespec::default())))?;
        Ok(file[0].revents().bits() as i16)
    }
    fn epoll_ctl(&mut self, epoll: usize, op: i32, slot: usize, events: u32) -> Outcome<()> {
        let (epoll, fd) = (&self.slots[&epoll], &self.slots[&slot]);
        let data = real_epoll::EventData::new_u64(slot as u64);
        let events = real_epoll::EventFlags::from_bits_retain(events);
        real(match op {
            1 => real_epoll::add(epoll, fd, data, events),
            2 => real_epoll::delete(epoll, fd),
            _ => real_epoll::modify(epoll, fd, data, events),
        })
    }
    fn epoll_wait(&mut self, epoll: usize, most: usize) -> Outcome<Vec<(u32, u64)>> {
        let empty = real_epoll::Event {
            flags: real_epoll::EventFlags::empty(),
            data: real_epoll::EventData::new_u64(0),
        };
        let mut events = vec![empty; most];
        let now = rustix::event::Timespec::default();
        let wait = real_epoll::wait(&self.slots[&epoll], events.as_mut_slice(), Some(&now));
        let count = real(wait)?;
        let pair = |event: &real_epoll::Event| ({ event.flags }.bits(), { event.data }.u64());
        Ok(events[..count].iter().map(pair).collect())
    }
    #[expect(clippy::disallowed_methods, reason = "the real kernel needs real time")]
    fn settle(&mut self) {
        if !self.pause.is_zero() {
            std::thread::sleep(self.pause);
        }
    }
}
