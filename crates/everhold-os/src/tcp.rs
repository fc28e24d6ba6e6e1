//! TCP sockets: how connections begin. States, errors and readiness are those of Linux.

mod segments;
mod transfer;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use everhold_node::Time;

use crate::abi::Errno;
use crate::abi::epoll::{EPOLLIN, EPOLLOUT};
use crate::abi::socket::SHUT_RDWR;
use crate::address::shown;
use crate::descriptor::{Fd, Kind, Open, both_ways};
use crate::host::Host;
use crate::net::{Flag, Segment, overlap};
use crate::slab::Id;
use crate::socket::Options;
use crate::thread::{Answer, Deadline, Reason, Stop};

/// The longest queue of connections that wait to be accepted.
const LONGEST_BACKLOG: usize = 4096;

/// The state of a TCP connection, as RFC 9293 names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    CloseWait,
    FinWait1,
    FinWait2,
    Closing,
    LastAck,
}

/// How far `connect` has come, which outlives the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unconnected,
    Connecting,
    Connected,
    /// It was shut down on the way.
    Disconnecting,
}

/// The bytes that a socket sends.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Those that the peer has not acknowledged, and those that were not sent.
    bytes: VecDeque<u8>,
    /// The place of the first of them.
    acknowledged: u64,
    /// The place of the first one that was not sent.
    sent: u64,
    /// The peer takes what is before this place.
    room: u64,
    /// No bytes will follow.
    ends: bool,
    end_sent: bool,
    end_acknowledged: bool,
    /// Somebody found no room and wants to know when there is some again.
    is_wanted: std::cell::Cell<bool>,
}

/// The bytes that a socket receives.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: VecDeque<u8>,
    /// The place of the byte that comes next.
    end: u64,
    /// The peer was told that bytes before this place are taken.
    room: u64,
    /// Segments that arrived before their time.
    early: BTreeMap<u64, Segment>,
}

/// The times at which a connection has to do something by itself.
#[derive(Debug, Default)]
pub(crate) struct Dues {
    resend: Option<Time>,
    acknowledge: Option<Time>,
    keep_alive: Option<Time>,
    /// The alarm that is set.
    alarm: Option<Time>,
    attempts: u32,
    probes: u32,
}

/// A TCP socket. It lives on after it was closed, until the peer has everything.
#[derive(Debug)]
pub(crate) struct Tcp {
    open: Option<Id<Open>>,
    is_v6: bool,
    pub(crate) state: State,
    phase: Phase,
    local: Option<SocketAddr>,
    /// The address that `bind` was asked for.
    asked: Option<SocketAddr>,
    /// The port is held although there is no connection.
    is_bound: bool,
    /// The port of the last connection, which is shown although it is free again.
    former_port: u16,
    peer: Option<SocketAddr>,
    connection: u64,
    pub(crate) options: Options,
    error: Option<Errno>,
    shut_read: bool,
    shut_write: bool,
    /// The peer has ended its direction.
    is_done: bool,
    output: Output,
    input: Input,
    backlog: usize,
    accepted: VecDeque<Id<Tcp>>,
    /// Connections that find the queue full.
    parked: Vec<(SocketAddr, SocketAddr, Segment)>,
    /// The socket that will accept it.
    listener: Option<Id<Tcp>>,
    dues: Dues,
}

impl Tcp {
    fn new(is_v6: bool, options: Options) -> Self {
        Tcp {
            open: None,
            is_v6,
            state: State::Closed,
            phase: Phase::Unconnected,
            local: None,
            asked: None,
            is_bound: false,
            former_port: 0,
            peer: None,
            connection: 0,
            options,
            error: None,
            shut_read: false,
            shut_write: false,
            is_done: false,
            output: Output { acknowledged: 1, sent: 1, ..Output::default() },
            input: Input { end: 1, ..Input::default() },
            backlog: 0,
            accepted: VecDeque::new(),
            parked: Vec::new(),
            listener: None,
            dues: Dues::default(),
        }
    }

    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    /// Whether packets of both families reach it when it is bound to no address.
    fn takes_both(&self) -> bool {
        self.is_v6 && !self.options.v6_only
    }

    /// There is no connection any more: a port that nobody asked for is free again.
    fn free_port(&mut self) {
        self.is_bound &= self.asked.is_some_and(|asked| asked.port() != 0);
    }

    /// An attempt to connect is over, and the address that it found is shown no longer.
    fn forget_address(&mut self) {
        if !self.is_bound {
            self.former_port = self.local.take().map_or(0, |local| local.port());
        }
    }

    /// The address that other sockets cannot have.
    pub(crate) fn holds(&self) -> Option<SocketAddr> {
        self.local.filter(|_| self.is_bound || self.state != State::Closed)
    }

    fn unspecified(&self) -> IpAddr {
        if self.is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
    }
}

impl Host {
    pub(crate) fn tcp_socket(&mut self, is_v6: bool, flags: i32) -> Result<Fd, Errno> {
        let socket = self.net.tcp.add(Tcp::new(is_v6, Options::new(&self.settings)));
        let fd = self.add_open(Kind::Tcp(socket), both_ways(flags));
        match fd {
            Ok(fd) => self.net.tcp[socket].open = Some(self.open_of(fd)?),
            Err(_) => drop(self.net.tcp.remove(socket)),
        }
        fd
    }

    pub(crate) fn tcp_bind(&mut self, id: Id<Tcp>, to: SocketAddr) -> Result<(), Errno> {
        let socket = &self.net.tcp[id];
        self.check_bindable(to.ip())?;
        if socket.state != State::Closed || socket.holds().is_some() {
            return Err(Errno::EINVAL);
        }
        let port = match to.port() {
            0 => self.tcp_free_port()?,
            port => port,
        };
        let local = SocketAddr::new(to.ip(), port);
        if let Err(taken) = self.tcp_check_free(id, local, false) {
            // The address of a connection that is over is not shown after that either.
            let socket = &mut self.net.tcp[id];
            let none = socket.unspecified();
            socket.local.iter_mut().for_each(|local| local.set_ip(none));
            return Err(taken);
        }
        let socket = &mut self.net.tcp[id];
        socket.options.v6_only |= to.is_ipv6() && !to.ip().is_unspecified();
        socket.asked = Some(to);
        socket.local = Some(local);
        socket.is_bound = true;
        Ok(())
    }

    fn tcp_free_port(&mut self) -> Result<u16, Errno> {
        let is_used = |host: &Host, port: u16| {
            let mut sockets = host.net.tcp.iter();
            let lingering = host.net.lingering.iter().any(|end| end.local.port() == port);
            lingering || sockets.any(|(_, other)| other.holds().is_some_and(|at| at.port() == port))
        };
        self.ephemeral_port(is_used).ok_or(Errno::EADDRINUSE)
    }

    /// EADDRINUSE if another socket has the address and one of the two does not share it.
    fn tcp_check_free(&mut self, id: Id<Tcp>, at: SocketAddr, listens: bool) -> Result<(), Errno> {
        let now = self.now();
        self.net.lingering.retain(|end| end.until > now);
        let me = &self.net.tcp[id];
        let mine = (at, me.takes_both());
        let conflicts = |(other_id, other): (Id<Tcp>, &Tcp)| {
            let Some(theirs) = other.holds().filter(|_| other_id != id) else { return false };
            let (a, b) = (&me.options, &other.options);
            let share = (a.reuse_address && b.reuse_address && other.state != State::Listen)
                || (a.reuse_port && b.reuse_port);
            let share = share && !(listens && other.state == State::Listen && !a.reuse_port);
            overlap(mine, (theirs, other.takes_both())) && !share
        };
        let lingers = self.net.lingering.iter().any(|end| overlap(mine, (end.local, false)));
        let taken = self.net.tcp.iter().any(conflicts);
        if taken || (lingers && !me.options.reuse_address) {
            return Err(Errno::EADDRINUSE);
        }
        Ok(())
    }

    pub(crate) fn tcp_listen(&mut self, id: Id<Tcp>, backlog: i32) -> Result<(), Errno> {
        let socket = &self.net.tcp[id];
        let may = matches!(socket.state, State::Closed | State::Listen);
        if !may || socket.phase != Phase::Unconnected {
            return Err(Errno::EINVAL);
        }
        let local = match socket.holds() {
            Some(local) => local,
            None => {
                let ip = socket.unspecified();
                SocketAddr::new(ip, self.tcp_free_port()?)
            }
        };
        if self.net.tcp[id].state != State::Listen {
            self.tcp_check_free(id, local, true)?;
            self.net.listeners.push(id);
        }
        let socket = &mut self.net.tcp[id];
        socket.local = Some(local);
        socket.state = State::Listen;
        socket.shut_read = false;
        socket.shut_write = false;
        // Negative ones count as very large.
        socket.backlog = (backlog as u32 as usize).min(LONGEST_BACKLOG);
        Ok(())
    }

    pub(crate) fn tcp_connect(
        &mut self,
        fd: Fd,
        id: Id<Tcp>,
        to: Result<SocketAddr, Errno>,
    ) -> Answer<()> {
        let timeout = self.net.tcp[id].options.send_timeout.map(Deadline::After);
        self.begin(timeout);
        match self.net.tcp[id].phase {
            Phase::Connected => return Err(Errno::EISCONN.into()),
            Phase::Disconnecting => return Err(Errno::EINVAL.into()),
            Phase::Connecting => {}
            Phase::Unconnected if self.net.tcp[id].state != State::Closed => {
                return Err(Errno::EISCONN.into());
            }
            Phase::Unconnected => {
                self.tcp_begin(id, to?)?;
                self.settle_at_once(fd)?;
            }
        }
        let late = if self.progress().resumed { Errno::EINPROGRESS } else { Errno::EALREADY };
        self.tcp_connected(fd, id, late)
    }

    /// Whatever happens in this host happens before a call ends, but a socket that does not block
    /// learns of it later.
    fn settle_at_once(&mut self, fd: Fd) -> Result<(), Stop> {
        let open = self.open_of(fd)?;
        let is_nonblocking = self.open[open].nonblocking;
        self.settle_network();
        if is_nonblocking { Err(Errno::EINPROGRESS.into()) } else { Ok(()) }
    }

    /// The outcome of a connection that was begun.
    fn tcp_connected(&mut self, fd: Fd, id: Id<Tcp>, late: Errno) -> Answer<()> {
        let open = self.open_of(fd)?;
        let socket = &mut self.net.tcp[id];
        match socket.state {
            State::SynSent | State::SynReceived if self.open[open].nonblocking => Err(late.into()),
            State::SynSent | State::SynReceived => {
                let wait = Reason::Descriptor("a connection", fd);
                Err(self.park(wait, &[(open, EPOLLIN | EPOLLOUT)], Errno::EINPROGRESS))
            }
            State::Closed => {
                let error = socket.take_error().unwrap_or(Errno::ECONNABORTED);
                socket.phase = Phase::Unconnected;
                socket.shut_read = false;
                socket.shut_write = false;
                socket.peer = None;
                socket.forget_address();
                Err(error.into())
            }
            _ => {
                socket.phase = Phase::Connected;
                Ok(())
            }
        }
    }

    fn tcp_begin(&mut self, id: Id<Tcp>, to: SocketAddr) -> Result<(), Errno> {
        let to = self.destination(to);
        if self.net.tcp[id].options.v6_only && to.is_ipv4() && self.net.tcp[id].is_v6 {
            return Err(Errno::ENETUNREACH);
        }
        let source = self.source_for(to.ip())?;
        let local = match self.net.tcp[id].local {
            Some(local) if local.ip().is_unspecified() => SocketAddr::new(source, local.port()),
            Some(local) => local,
            None => {
                let asked = self.net.tcp[id].asked.map(|asked| asked.ip());
                let source = asked.filter(|ip| !ip.is_unspecified()).unwrap_or(source);
                SocketAddr::new(source, self.tcp_free_port()?)
            }
        };
        if self.net.connections.contains_key(&(local, to)) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let connection = self.net.new_connection();
        let mut fresh = Tcp::new(false, Options::new(&self.settings));
        let socket = &mut self.net.tcp[id];
        std::mem::swap(&mut socket.output, &mut fresh.output);
        std::mem::swap(&mut socket.input, &mut fresh.input);
        socket.is_done = false;
        socket.local = Some(local);
        socket.peer = Some(to);
        socket.connection = connection;
        socket.state = State::SynSent;
        socket.phase = Phase::Connecting;
        self.net.connections.insert((local, to), id);
        self.tcp_send_segment(id, Flag::Syn);
        Ok(())
    }

    pub(crate) fn tcp_accept(
        &mut self,
        fd: Fd,
        id: Id<Tcp>,
        flags: i32,
    ) -> Answer<(Fd, SocketAddr)> {
        let timeout = self.net.tcp[id].options.receive_timeout.map(Deadline::After);
        self.begin(timeout);
        if self.net.tcp[id].state != State::Listen {
            return Err(Errno::EINVAL.into());
        }
        self.check_room(1)?;
        let Some(&child) = self.net.tcp[id].accepted.front() else {
            return Err(self.await_event(fd, EPOLLIN, "a connection"));
        };
        let fd = self.add_open(Kind::Tcp(child), both_ways(flags))?;
        self.net.tcp[id].accepted.pop_front();
        let open = self.open_of(fd)?;
        let socket = &mut self.net.tcp[child];
        socket.open = Some(open);
        socket.listener = None;
        let peer = shown(socket.peer.expect("a connection has a peer"), socket.is_v6);
        self.tcp_take_parked(id);
        Ok((fd, peer))
    }

    pub(crate) fn tcp_local(&self, id: Id<Tcp>) -> SocketAddr {
        let socket = &self.net.tcp[id];
        let ip = socket.asked.map_or(socket.unspecified(), |asked| asked.ip());
        let none = SocketAddr::new(ip, socket.former_port);
        shown(socket.local.unwrap_or(none), socket.is_v6)
    }

    pub(crate) fn tcp_peer(&self, id: Id<Tcp>) -> Result<SocketAddr, Errno> {
        let socket = &self.net.tcp[id];
        match (socket.state, socket.peer) {
            (State::Closed | State::SynSent | State::Listen, _) | (_, None) => Err(Errno::ENOTCONN),
            (_, Some(peer)) => Ok(shown(peer, socket.is_v6)),
        }
    }

    pub(crate) fn tcp_shutdown(&mut self, id: Id<Tcp>, how: i32) -> Result<(), Errno> {
        let (reads, writes) = (how != 1, how == 1 || how == SHUT_RDWR);
        let socket = &mut self.net.tcp[id];
        if socket.phase == Phase::Connecting {
            socket.phase = match socket.state {
                State::Listen | State::SynSent | State::Closed => Phase::Disconnecting,
                _ => Phase::Connected,
            };
        }
        let answer = match socket.state {
            State::Listen if !reads => Ok(()),
            State::Listen | State::SynSent => {
                self.tcp_disconnect(id);
                Ok(())
            }
            state => {
                socket.shut_read |= reads;
                socket.shut_write |= writes;
                if writes {
                    self.tcp_end(id);
                }
                if state == State::Closed { Err(Errno::ENOTCONN) } else { Ok(()) }
            }
        };
        if let Some(open) = self.net.tcp[id].open {
            self.notify(open, 0);
        }
        answer
    }

    /// A socket that listens or connects does so no longer.
    fn tcp_disconnect(&mut self, id: Id<Tcp>) {
        self.tcp_leave(id);
        let socket = &mut self.net.tcp[id];
        socket.state = State::Closed;
        socket.phase = Phase::Unconnected;
        socket.peer = None;
        socket.free_port();
        socket.parked.clear();
        for child in std::mem::take(&mut socket.accepted) {
            self.tcp_abort(child);
        }
    }

    /// Segments do not reach a socket any more.
    fn tcp_leave(&mut self, id: Id<Tcp>) {
        self.net.listeners.retain(|listener| *listener != id);
        let socket = &self.net.tcp[id];
        if let (Some(local), Some(peer)) = (socket.local, socket.peer)
            && self.net.connections.get(&(local, peer)) == Some(&id)
        {
            self.net.connections.remove(&(local, peer));
        }
        self.tcp_clear_alarm(id);
    }
}
