//! The calls that all sockets have.

use std::net::SocketAddr;

use crate::abi::family::{AF_INET, AF_INET6, AF_UNIX};
use crate::abi::socket::{SHUT_RDWR, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM};
use crate::abi::{Errno, option};
use crate::address::{Address, UnixAddress, canonical};
use crate::descriptor::{Fd, Kind};
use crate::host::Host;
use crate::slab::Id;
use crate::tcp::{State, Tcp};
use crate::thread::{Answer, Stop};
use crate::udp::Udp;
use crate::unix::Unix;

pub(crate) use crate::options::Options;

/// Flags that may be added to the type of a socket.
const FLAGS: i32 = SOCK_NONBLOCK | SOCK_CLOEXEC;

/// The outcome of a receiving call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The bytes that were put into the buffer.
    pub bytes: usize,
    /// The length of the datagram, which may be more; otherwise the same.
    pub length: usize,
    /// The sender of a datagram.
    pub from: Option<Address>,
}

/// A socket of one of the three kinds.
#[derive(Clone, Copy)]
enum Socket {
    Tcp(Id<Tcp>),
    Udp(Id<Udp>),
    Unix(Id<Unix>),
}

impl Host {
    /// A new socket.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<Fd, Errno> {
        let flags = kind & FLAGS;
        let kind = kind & !FLAGS;
        match (domain, kind, protocol) {
            (AF_INET | AF_INET6, SOCK_STREAM, 0 | 6) => self.tcp_socket(domain == AF_INET6, flags),
            (AF_INET | AF_INET6, SOCK_DGRAM, 0 | 17) => self.udp_socket(domain == AF_INET6, flags),
            (AF_UNIX, SOCK_STREAM, 0 | 1) => self.unix_socket(flags),
            (AF_INET | AF_INET6, SOCK_STREAM | SOCK_DGRAM, _) => Err(Errno::EPROTONOSUPPORT),
            (AF_UNIX, SOCK_STREAM, _) => Err(Errno::EPROTONOSUPPORT),
            (AF_INET | AF_INET6 | AF_UNIX, _, _) => Err(Errno::ESOCKTNOSUPPORT),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// Two Unix sockets that are connected to each other.
    pub fn socketpair(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<(Fd, Fd), Errno> {
        let flags = kind & FLAGS;
        match (domain, kind & !FLAGS, protocol) {
            (AF_UNIX, SOCK_STREAM, 0 | 1) => self.unix_pair(flags),
            (AF_UNIX, SOCK_STREAM, _) => Err(Errno::EPROTONOSUPPORT),
            (AF_UNIX, _, _) => Err(Errno::ESOCKTNOSUPPORT),
            (AF_INET | AF_INET6, SOCK_STREAM | SOCK_DGRAM, _) => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    fn socket_of(&self, fd: Fd) -> Result<Socket, Errno> {
        match self.open[self.open_of(fd)?].kind {
            Kind::Tcp(socket) => Ok(Socket::Tcp(socket)),
            Kind::Udp(socket) => Ok(Socket::Udp(socket)),
            Kind::Unix(socket) => Ok(Socket::Unix(socket)),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// Gives a socket an address.
    pub fn bind(&mut self, fd: Fd, address: &Address) -> Result<(), Errno> {
        match self.socket_of(fd)? {
            Socket::Unix(socket) => self.unix_bind(socket, address),
            Socket::Tcp(socket) => {
                let is_v6 = self.tcp_local(socket).is_ipv6();
                self.tcp_bind(socket, internet(address, is_v6)?)
            }
            Socket::Udp(socket) => {
                let is_v6 = self.udp_local(socket).is_ipv6();
                self.udp_bind(socket, internet(address, is_v6)?)
            }
        }
    }

    /// Makes a socket accept connections.
    pub fn listen(&mut self, fd: Fd, backlog: i32) -> Result<(), Errno> {
        match self.socket_of(fd)? {
            Socket::Tcp(socket) => self.tcp_listen(socket, backlog),
            Socket::Unix(socket) => self.unix_listen(socket, backlog),
            Socket::Udp(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Connects a socket.
    pub fn connect(&mut self, fd: Fd, address: &Address) -> Answer<()> {
        let answer = self.connect_once(fd, address);
        self.settle_network();
        self.settle(answer)
    }

    fn connect_once(&mut self, fd: Fd, address: &Address) -> Answer<()> {
        match self.socket_of(fd)? {
            Socket::Unix(socket) => self.unix_connect(fd, socket, address),
            Socket::Tcp(socket) => {
                let is_v6 = self.tcp_local(socket).is_ipv6();
                self.tcp_connect(fd, socket, internet(address, is_v6))
            }
            Socket::Udp(socket) => {
                // Even a call that fails gives the socket an address.
                self.udp_bind_any(socket)?;
                let to = self.udp_destination(socket, address, Errno::EAFNOSUPPORT)?;
                Ok(self.udp_connect(socket, to)?)
            }
        }
    }

    /// Takes a connection from the queue of a socket that listens.
    pub fn accept(&mut self, fd: Fd, flags: i32) -> Answer<(Fd, Address)> {
        let answer = self.accept_once(fd, flags);
        self.settle_network();
        self.settle(answer)
    }

    fn accept_once(&mut self, fd: Fd, flags: i32) -> Answer<(Fd, Address)> {
        if flags & !FLAGS != 0 {
            return Err(Errno::EINVAL.into());
        }
        match self.socket_of(fd)? {
            Socket::Tcp(socket) => {
                let (fd, peer) = self.tcp_accept(fd, socket, flags)?;
                Ok((fd, Address::Ip(peer)))
            }
            Socket::Unix(socket) => self.unix_accept(fd, socket, flags),
            Socket::Udp(_) => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Ends one or both directions of a connection.
    pub fn shutdown(&mut self, fd: Fd, how: i32) -> Result<(), Errno> {
        let socket = self.socket_of(fd)?;
        if !(0..=SHUT_RDWR).contains(&how) {
            return Err(Errno::EINVAL);
        }
        let answer = match socket {
            Socket::Tcp(socket) => self.tcp_shutdown(socket, how),
            Socket::Udp(socket) => self.udp_shutdown(socket, how),
            Socket::Unix(socket) => self.unix_shutdown(socket, how),
        };
        self.settle_network();
        answer
    }

    /// The address of a socket.
    pub fn getsockname(&self, fd: Fd) -> Result<Address, Errno> {
        Ok(match self.socket_of(fd)? {
            Socket::Tcp(socket) => Address::Ip(self.tcp_local(socket)),
            Socket::Udp(socket) => Address::Ip(self.udp_local(socket)),
            Socket::Unix(socket) => Address::Unix(self.unix_local(socket)),
        })
    }

    /// The address of the other end.
    pub fn getpeername(&self, fd: Fd) -> Result<Address, Errno> {
        Ok(match self.socket_of(fd)? {
            Socket::Tcp(socket) => Address::Ip(self.tcp_peer(socket)?),
            Socket::Udp(socket) => Address::Ip(self.udp_peer(socket)?),
            Socket::Unix(socket) => Address::Unix(self.unix_peer(socket)?),
        })
    }

    /// `recv`, `recvfrom`, `recvmsg`, or `read` of a socket.
    pub fn recvfrom(&mut self, fd: Fd, bytes: &mut [u8], flags: i32) -> Answer<Received> {
        let answer = self.receive(fd, bytes, flags);
        self.settle_network();
        self.settle(answer)
    }

    pub(crate) fn receive(&mut self, fd: Fd, bytes: &mut [u8], flags: i32) -> Answer<Received> {
        let stream = |count: usize| Received { bytes: count, length: count, from: None };
        match self.socket_of(fd)? {
            Socket::Tcp(socket) => self.tcp_receive(fd, socket, bytes, flags).map(stream),
            Socket::Unix(socket) => self.unix_receive(fd, socket, bytes, flags).map(stream),
            Socket::Udp(socket) => self.udp_receive(fd, socket, bytes, flags),
        }
    }

    /// `send`, `sendto`, `sendmsg`, or `write` to a socket.
    pub fn sendto(
        &mut self,
        fd: Fd,
        bytes: &[u8],
        flags: i32,
        to: Option<&Address>,
    ) -> Answer<usize> {
        let answer = self.transmit(fd, bytes, flags, to);
        self.settle_network();
        self.settle(answer)
    }

    pub(crate) fn transmit(
        &mut self,
        fd: Fd,
        bytes: &[u8],
        flags: i32,
        to: Option<&Address>,
    ) -> Answer<usize> {
        match self.socket_of(fd)? {
            Socket::Tcp(socket) => self.tcp_send(fd, socket, bytes, flags),
            Socket::Unix(socket) => self.unix_send(fd, socket, bytes, flags, to.is_some()),
            Socket::Udp(socket) => {
                self.udp_bind_any(socket)?;
                let to = match to {
                    Some(Address::Unix(_)) if self.udp_local(socket).is_ipv6() => {
                        return Err(Errno::EINVAL.into());
                    }
                    Some(to) => Some(self.udp_destination(socket, to, Errno::ENETUNREACH)?),
                    None => None,
                };
                self.udp_send(socket, bytes, to).map_err(Stop::Failed)
            }
        }
    }

    /// The address of a peer of a UDP socket. One of IPv6 also takes addresses of IPv4.
    fn udp_destination(
        &self,
        socket: Id<Udp>,
        to: &Address,
        refusal: Errno,
    ) -> Result<SocketAddr, Errno> {
        let is_v6 = self.udp_local(socket).is_ipv6();
        match to {
            Address::Ip(SocketAddr::V4(_)) if is_v6 && self.net.udp[socket].options.v6_only => {
                Err(refusal)
            }
            Address::Ip(to @ SocketAddr::V4(_)) => Ok(*to),
            to => internet(to, is_v6),
        }
    }

    /// Whether a socket has options of a level besides the general one.
    fn has_level(&self, socket: Socket, level: i32) -> bool {
        let is_v6 = match socket {
            Socket::Tcp(socket) => self.tcp_local(socket).is_ipv6(),
            Socket::Udp(socket) => self.udp_local(socket).is_ipv6(),
            Socket::Unix(_) => return false,
        };
        match level {
            0 => true,
            option::IPPROTO_IPV6 => is_v6,
            option::IPPROTO_TCP => matches!(socket, Socket::Tcp(_)),
            _ => false,
        }
    }

    /// The error of an option of a level that a socket does not have.
    fn level_refusal(&self, socket: Socket, sets: bool) -> Errno {
        match socket {
            Socket::Unix(_) => Errno::EOPNOTSUPP,
            Socket::Tcp(socket) if !sets && self.tcp_local(socket).is_ipv4() => Errno::EOPNOTSUPP,
            Socket::Udp(socket) if !sets && self.udp_local(socket).is_ipv4() => Errno::EOPNOTSUPP,
            Socket::Tcp(_) | Socket::Udp(_) => Errno::ENOPROTOOPT,
        }
    }

    /// Sets an option of a socket.
    pub fn setsockopt(&mut self, fd: Fd, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        let socket = self.socket_of(fd)?;
        if level != option::SOL_SOCKET && !self.has_level(socket, level) {
            return Err(self.level_refusal(socket, true));
        }
        let is_bound = match socket {
            Socket::Tcp(socket) => self.net.tcp[socket].holds().is_some(),
            Socket::Udp(socket) => self.udp_local(socket).port() != 0,
            Socket::Unix(_) => false,
        };
        if (level, name) == (option::IPPROTO_IPV6, option::IPV6_V6ONLY) && is_bound {
            return Err(Errno::EINVAL);
        }
        self.options_of(socket).set(level, name, value)?;
        if let Socket::Tcp(socket) = socket {
            self.tcp_options_changed(socket);
        }
        Ok(())
    }

    /// The value of an option of a socket.
    pub fn getsockopt(&mut self, fd: Fd, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        let socket = self.socket_of(fd)?;
        if level != option::SOL_SOCKET && !self.has_level(socket, level) {
            return Err(self.level_refusal(socket, false));
        }
        let number = match (level, name) {
            (option::SOL_SOCKET, option::SO_ERROR) => {
                self.take_error(socket).map_or(0, |error| error.0)
            }
            (option::SOL_SOCKET, option::SO_TYPE) => match socket {
                Socket::Udp(_) => SOCK_DGRAM,
                Socket::Tcp(_) | Socket::Unix(_) => SOCK_STREAM,
            },
            (option::SOL_SOCKET, option::SO_ACCEPTCONN) => i32::from(self.listens(socket)),
            (option::SOL_SOCKET, option::SO_DOMAIN) => match socket {
                Socket::Unix(_) => AF_UNIX,
                Socket::Tcp(socket) if self.tcp_local(socket).is_ipv6() => AF_INET6,
                Socket::Udp(socket) if self.udp_local(socket).is_ipv6() => AF_INET6,
                Socket::Tcp(_) | Socket::Udp(_) => AF_INET,
            },
            (option::SOL_SOCKET, option::SO_PROTOCOL) => match socket {
                Socket::Unix(_) => 0,
                Socket::Tcp(_) => 6,
                Socket::Udp(_) => 17,
            },
            _ => return self.options_of(socket).get(level, name),
        };
        Ok(number.to_ne_bytes().to_vec())
    }

    fn listens(&self, socket: Socket) -> bool {
        match socket {
            Socket::Tcp(socket) => self.net.tcp[socket].state == State::Listen,
            Socket::Unix(socket) => self.unix_listens(socket),
            Socket::Udp(_) => false,
        }
    }

    fn take_error(&mut self, socket: Socket) -> Option<Errno> {
        match socket {
            Socket::Tcp(socket) => self.net.tcp[socket].take_error(),
            Socket::Udp(socket) => self.net.udp[socket].take_error(),
            Socket::Unix(socket) => self.unix.sockets[socket].take_error(),
        }
    }

    fn options_of(&mut self, socket: Socket) -> &mut Options {
        match socket {
            Socket::Tcp(socket) => &mut self.net.tcp[socket].options,
            Socket::Udp(socket) => &mut self.net.udp[socket].options,
            Socket::Unix(socket) => &mut self.unix.sockets[socket].options,
        }
    }
}

/// An address for a socket of one of the two families.
fn internet(address: &Address, is_v6: bool) -> Result<SocketAddr, Errno> {
    match address {
        Address::Ip(address @ SocketAddr::V6(_)) if is_v6 => Ok(canonical(*address)),
        Address::Ip(address @ SocketAddr::V4(_)) if !is_v6 => Ok(*address),
        // The address is shorter than one of IPv6.
        Address::Ip(SocketAddr::V4(_)) => Err(Errno::EINVAL),
        Address::Unix(UnixAddress::Unnamed) => Err(Errno::EINVAL),
        Address::Ip(SocketAddr::V6(_)) | Address::Unix(_) => Err(Errno::EAFNOSUPPORT),
    }
}
