//! UDP sockets.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::abi::Errno;
use crate::abi::epoll::{
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLRDNORM, EPOLLWRBAND, EPOLLWRNORM,
};
use crate::abi::socket::{MSG_DONTWAIT, MSG_PEEK, SHUT_RD, SHUT_RDWR, SHUT_WR};
use crate::address::{Address, shown};
use crate::descriptor::{Fd, Kind, Open, both_ways};
use crate::host::Host;
use crate::net::{Body, overlap};
use crate::slab::Id;
use crate::socket::{Options, Received};
use crate::thread::{Answer, Deadline};

/// The most bytes of a datagram.
const LARGEST: usize = 65_507;

/// The size of a datagram in addition to its bytes.
const OVERHEAD: usize = 768;

/// A UDP socket.
#[derive(Debug)]
pub(crate) struct Udp {
    open: Option<Id<Open>>,
    is_v6: bool,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    pub(crate) options: Options,
    error: Option<Errno>,
    shut_read: bool,
    shut_write: bool,
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
    queued: usize,
}

impl Udp {
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    fn takes_both(&self) -> bool {
        self.is_v6 && !self.options.v6_only
    }

    /// How well it fits a datagram: nothing if it does not.
    fn fit(&self, from: SocketAddr, to: SocketAddr) -> Option<u32> {
        let local = self.local?;
        if !overlap((local, self.takes_both()), (to, false)) {
            return None;
        }
        match self.peer {
            Some(peer) if peer != from => None,
            Some(_) => Some(2),
            None => Some(u32::from(!local.ip().is_unspecified())),
        }
    }
}

impl Host {
    pub(crate) fn udp_socket(&mut self, is_v6: bool, flags: i32) -> Result<Fd, Errno> {
        let socket = self.net.udp.add(Udp {
            open: None,
            is_v6,
            local: None,
            peer: None,
            options: Options::new(&self.settings),
            error: None,
            shut_read: false,
            shut_write: false,
            queue: VecDeque::new(),
            queued: 0,
        });
        let fd = self.add_open(Kind::Udp(socket), both_ways(flags));
        match fd {
            Ok(fd) => self.net.udp[socket].open = Some(self.open_of(fd)?),
            Err(_) => drop(self.net.udp.remove(socket)),
        }
        fd
    }

    pub(crate) fn udp_local(&self, id: Id<Udp>) -> SocketAddr {
        let socket = &self.net.udp[id];
        let none: IpAddr = match socket.is_v6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        shown(socket.local.unwrap_or(SocketAddr::new(none, 0)), socket.is_v6)
    }

    pub(crate) fn udp_peer(&self, id: Id<Udp>) -> Result<SocketAddr, Errno> {
        let socket = &self.net.udp[id];
        Ok(shown(socket.peer.ok_or(Errno::ENOTCONN)?, socket.is_v6))
    }

    pub(crate) fn udp_bind(&mut self, id: Id<Udp>, to: SocketAddr) -> Result<(), Errno> {
        self.check_bindable(to.ip())?;
        if self.net.udp[id].local.is_some() {
            return Err(Errno::EINVAL);
        }
        let port = match to.port() {
            0 => self.udp_free_port()?,
            port => port,
        };
        let to = SocketAddr::new(to.ip(), port);
        let me = &self.net.udp[id];
        let conflicts = |(other_id, other): (Id<Udp>, &Udp)| {
            let Some(theirs) = other.local.filter(|_| other_id != id) else { return false };
            let (a, b) = (&me.options, &other.options);
            let share = (a.reuse_address && b.reuse_address) || (a.reuse_port && b.reuse_port);
            overlap((to, me.takes_both()), (theirs, other.takes_both())) && !share
        };
        if self.net.udp.iter().any(conflicts) {
            return Err(Errno::EADDRINUSE);
        }
        let socket = &mut self.net.udp[id];
        socket.options.v6_only |= to.is_ipv6() && !to.ip().is_unspecified();
        socket.local = Some(to);
        Ok(())
    }

    fn udp_free_port(&mut self) -> Result<u16, Errno> {
        let is_used = |host: &Host, port: u16| {
            let mut sockets = host.net.udp.iter();
            sockets.any(|(_, other)| other.local.is_some_and(|at| at.port() == port))
        };
        self.ephemeral_port(is_used).ok_or(Errno::EADDRINUSE)
    }

    /// Gives a socket that has none an address of its own.
    pub(crate) fn udp_bind_any(&mut self, id: Id<Udp>) -> Result<SocketAddr, Errno> {
        if let Some(local) = self.net.udp[id].local {
            return Ok(local);
        }
        let unbound = self.udp_local(id);
        let local = SocketAddr::new(unbound.ip(), self.udp_free_port()?);
        self.net.udp[id].local = Some(local);
        Ok(local)
    }

    pub(crate) fn udp_connect(&mut self, id: Id<Udp>, to: SocketAddr) -> Result<(), Errno> {
        let to = self.destination(to);
        let source = self.source_for(to.ip())?;
        let local = self.udp_bind_any(id)?;
        let socket = &mut self.net.udp[id];
        if local.ip().is_unspecified() {
            socket.local = Some(SocketAddr::new(source, local.port()));
        }
        socket.peer = Some(to);
        Ok(())
    }

    pub(crate) fn udp_send(
        &mut self,
        id: Id<Udp>,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> Result<usize, Errno> {
        let local = self.udp_bind_any(id)?;
        if bytes.len() > LARGEST {
            return Err(Errno::EMSGSIZE);
        }
        if to.is_some_and(|to| to.port() == 0) {
            return Err(Errno::EINVAL);
        }
        let to = to.or(self.net.udp[id].peer).ok_or(Errno::EDESTADDRREQ)?;
        let to = self.destination(to);
        let source = self.source_for(to.ip())?;
        let socket = &mut self.net.udp[id];
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.shut_write {
            return Err(Errno::EPIPE);
        }
        let open = socket.open;
        let from = if local.ip().is_unspecified() { source } else { local.ip() };
        let from = SocketAddr::new(from, local.port());
        self.send_packet(from, to, Body::Datagram(bytes.to_vec()));
        self.settle_network();
        // The memory of the datagram is free again, which Linux reports as room.
        if let Some(open) = open.filter(|_| self.is_own(to.ip())) {
            self.notify(open, EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
        }
        Ok(bytes.len())
    }

    pub(crate) fn udp_receive(
        &mut self,
        fd: Fd,
        id: Id<Udp>,
        bytes: &mut [u8],
        flags: i32,
    ) -> Answer<Received> {
        let timeout = self.net.udp[id].options.receive_timeout.map(Deadline::After);
        self.begin(timeout);
        let socket = &mut self.net.udp[id];
        if let Some(error) = socket.error.take() {
            return Err(error.into());
        }
        let Some((from, datagram)) = socket.queue.front() else {
            let nonblocking = self.open[self.open_of(fd)?].nonblocking;
            if self.net.udp[id].shut_read && !nonblocking && flags & MSG_DONTWAIT == 0 {
                return Ok(Received::default());
            }
            return Err(self.await_unless(fd, flags, false));
        };
        let length = datagram.len();
        let count = length.min(bytes.len());
        bytes[..count].copy_from_slice(&datagram[..count]);
        let from = Some(Address::Ip(shown(*from, socket.is_v6)));
        if flags & MSG_PEEK == 0 {
            socket.queue.pop_front();
            socket.queued -= length + OVERHEAD;
        }
        Ok(Received { bytes: count, length, from })
    }

    pub(crate) fn udp_bytes_to_read(&self, id: Id<Udp>) -> usize {
        self.net.udp[id].queue.front().map_or(0, |(_, bytes)| bytes.len())
    }

    pub(crate) fn udp_readiness(&self, id: Id<Udp>) -> u32 {
        let socket = &self.net.udp[id];
        let mut events = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
        if socket.error.is_some() {
            events |= EPOLLERR;
        }
        if socket.shut_read {
            events |= EPOLLRDHUP | EPOLLIN | EPOLLRDNORM;
        }
        if socket.shut_read && socket.shut_write {
            events |= EPOLLHUP;
        }
        if !socket.queue.is_empty() {
            events |= EPOLLIN | EPOLLRDNORM;
        }
        events
    }

    pub(crate) fn udp_shutdown(&mut self, id: Id<Udp>, how: i32) -> Result<(), Errno> {
        let socket = &mut self.net.udp[id];
        socket.shut_read |= matches!(how, SHUT_RD | SHUT_RDWR);
        socket.shut_write |= matches!(how, SHUT_WR | SHUT_RDWR);
        let answer = if socket.peer.is_some() { Ok(()) } else { Err(Errno::ENOTCONN) };
        if let Some(open) = socket.open {
            self.notify(open, 0);
        }
        answer
    }

    pub(crate) fn udp_close(&mut self, id: Id<Udp>) {
        self.net.udp.remove(id);
    }

    /// The socket that a datagram reaches.
    fn udp_receiver(&self, from: SocketAddr, to: SocketAddr) -> Option<Id<Udp>> {
        let fits = self.net.udp.iter();
        let fits = fits.filter_map(|(id, socket)| Some((socket.fit(from, to)?, id)));
        fits.max_by_key(|(fit, id)| (*fit, std::cmp::Reverse(*id))).map(|(_, id)| id)
    }

    pub(crate) fn udp_arrives(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let Some(id) = self.udp_receiver(from, to) else {
            return self.send_packet(to, from, Body::Unreachable);
        };
        let socket = &mut self.net.udp[id];
        let size = bytes.len() + OVERHEAD;
        if socket.queued + size > socket.options.receive_buffer {
            return;
        }
        socket.queued += size;
        socket.queue.push_back((from, bytes));
        if let Some(open) = socket.open {
            self.notify(open, EPOLLIN | EPOLLRDNORM);
        }
    }

    /// A datagram found nobody; only a socket that is connected learns of it.
    pub(crate) fn udp_unreachable(&mut self, from: SocketAddr, to: SocketAddr) {
        let Some(id) = self.udp_receiver(from, to) else { return };
        let socket = &mut self.net.udp[id];
        if socket.peer.is_none() {
            return;
        }
        socket.error = Some(Errno::ECONNREFUSED);
        if let Some(open) = socket.open {
            self.notify(open, EPOLLERR);
        }
    }
}
