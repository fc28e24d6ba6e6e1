//! Unix sockets that carry streams, with paths, abstract names or none.

use std::collections::{BTreeMap, VecDeque};

use crate::abi::Errno;
use crate::abi::epoll::{
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLRDNORM, EPOLLWRBAND, EPOLLWRNORM,
};
use crate::abi::socket::{MSG_PEEK, MSG_WAITALL, SHUT_RD, SHUT_RDWR, SHUT_WR};
use crate::address::{Address, UnixAddress};
use crate::descriptor::{Fd, Kind, Open, both_ways};
use crate::host::Host;
use crate::slab::{Id, Slab};
use crate::socket::Options;
use crate::thread::{Answer, Deadline, Reason, Stop};

/// The events of room.
const ROOM: u32 = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;

/// All Unix sockets of a host, and their names.
#[derive(Debug, Default)]
pub(crate) struct UnixSockets {
    pub(crate) sockets: Slab<Unix>,
    /// A path stays taken when its socket is closed, until it is unlinked.
    names: BTreeMap<UnixAddress, Option<Id<Unix>>>,
    unnamed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Listening,
    Connected,
}

/// A Unix socket.
#[derive(Debug)]
pub(crate) struct Unix {
    open: Option<Id<Open>>,
    state: State,
    name: UnixAddress,
    peer: Option<Id<Unix>>,
    peer_name: UnixAddress,
    pub(crate) options: Options,
    error: Option<Errno>,
    shut_read: bool,
    shut_write: bool,
    /// The data that the peer has written, write by write.
    chunks: VecDeque<VecDeque<u8>>,
    backlog: usize,
    accepted: VecDeque<Id<Unix>>,
}

impl Unix {
    fn new(options: Options) -> Self {
        Unix {
            open: None,
            state: State::New,
            name: UnixAddress::Unnamed,
            peer: None,
            peer_name: UnixAddress::Unnamed,
            options,
            error: None,
            shut_read: false,
            shut_write: false,
            chunks: VecDeque::new(),
            backlog: 0,
            accepted: VecDeque::new(),
        }
    }

    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    fn bytes(&self) -> usize {
        self.chunks.iter().map(VecDeque::len).sum()
    }
}

impl Host {
    pub(crate) fn unix_socket(&mut self, flags: i32) -> Result<Fd, Errno> {
        let socket = self.unix.sockets.add(Unix::new(Options::new(&self.settings)));
        let fd = self.add_open(Kind::Unix(socket), both_ways(flags));
        match fd {
            Ok(fd) => self.unix.sockets[socket].open = Some(self.open_of(fd)?),
            Err(_) => drop(self.unix.sockets.remove(socket)),
        }
        fd
    }

    pub(crate) fn unix_pair(&mut self, flags: i32) -> Result<(Fd, Fd), Errno> {
        self.check_room(2)?;
        let (one, other) = (self.unix_socket(flags)?, self.unix_socket(flags)?);
        let (Kind::Unix(a), Kind::Unix(b)) =
            (&self.open[self.open_of(one)?].kind, &self.open[self.open_of(other)?].kind)
        else {
            unreachable!("both are Unix sockets")
        };
        let (a, b) = (*a, *b);
        for (me, peer) in [(a, b), (b, a)] {
            self.unix.sockets[me].state = State::Connected;
            self.unix.sockets[me].peer = Some(peer);
        }
        Ok((one, other))
    }

    pub(crate) fn unix_bind(&mut self, id: Id<Unix>, address: &Address) -> Result<(), Errno> {
        let Address::Unix(name) = address else { return Err(Errno::EINVAL) };
        if self.unix.sockets[id].name != UnixAddress::Unnamed {
            let asks_for_any = *name == UnixAddress::Unnamed;
            return if asks_for_any { Ok(()) } else { Err(Errno::EINVAL) };
        }
        let name = match name {
            UnixAddress::Unnamed => {
                self.unix.unnamed += 1;
                UnixAddress::Abstract(format!("{:05x}", self.unix.unnamed).into_bytes())
            }
            name => name.clone(),
        };
        if self.unix.names.contains_key(&name) {
            return Err(Errno::EADDRINUSE);
        }
        if let UnixAddress::Path(path) = &name {
            self.check_socket_path(path)?;
        }
        self.unix.names.insert(name.clone(), Some(id));
        if let Some(peer) = self.unix.sockets[id].peer {
            self.unix.sockets[peer].peer_name = name.clone();
        }
        self.unix.sockets[id].name = name;
        Ok(())
    }

    /// A path leads to no socket any more. False if it led to none.
    pub(crate) fn unix_unlink(&mut self, path: &[u8]) -> bool {
        self.unix.names.remove(&UnixAddress::Path(path.to_vec())).is_some()
    }

    /// Whether a path leads to a socket.
    pub(crate) fn unix_has(&self, path: &[u8]) -> bool {
        self.unix.names.contains_key(&UnixAddress::Path(path.to_vec()))
    }

    pub(crate) fn unix_listens(&self, id: Id<Unix>) -> bool {
        self.unix.sockets[id].state == State::Listening
    }

    pub(crate) fn unix_listen(&mut self, id: Id<Unix>, backlog: i32) -> Result<(), Errno> {
        let socket = &mut self.unix.sockets[id];
        if socket.name == UnixAddress::Unnamed || socket.state == State::Connected {
            return Err(Errno::EINVAL);
        }
        socket.state = State::Listening;
        socket.backlog = (backlog as u32 as usize).min(4096);
        Ok(())
    }

    pub(crate) fn unix_connect(&mut self, fd: Fd, id: Id<Unix>, to: &Address) -> Answer<()> {
        let timeout = self.unix.sockets[id].options.send_timeout.map(Deadline::After);
        self.begin(timeout);
        let Address::Unix(name) = to else { return Err(Errno::EINVAL.into()) };
        let found = match self.unix.names.get(name) {
            Some(found) => *found,
            None if matches!(name, UnixAddress::Path(_)) => return Err(Errno::ENOENT.into()),
            None if *name == UnixAddress::Unnamed => return Err(Errno::EINVAL.into()),
            None => None,
        };
        // One that was shut down for reading takes no connections.
        let is_shut = |found: Id<Unix>| self.unix.sockets[found].shut_read;
        let listens = |found: &Id<Unix>| self.unix_listens(*found) && !is_shut(*found);
        let Some(listener) = found.filter(listens) else {
            return Err(Errno::ECONNREFUSED.into());
        };
        match self.unix.sockets[id].state {
            State::Connected => return Err(Errno::EISCONN.into()),
            State::Listening => return Err(Errno::EINVAL.into()),
            State::New => {}
        }
        let queue = &self.unix.sockets[listener];
        if queue.accepted.len() > queue.backlog {
            let nonblocking = self.open[self.open_of(fd)?].nonblocking;
            let Some(open) = queue.open.filter(|_| !nonblocking) else {
                return Err(Errno::EAGAIN.into());
            };
            let wait = Reason::Descriptor("room in the queue of connections", fd);
            return Err(self.park(wait, &[(open, EPOLLOUT | EPOLLHUP)], Errno::EAGAIN));
        }
        self.unix_join(id, listener);
        Ok(())
    }

    /// Connects a socket with a new one in the queue of a socket that listens.
    fn unix_join(&mut self, id: Id<Unix>, listener: Id<Unix>) {
        let UnixSockets { sockets, .. } = &mut self.unix;
        let mut child = Unix::new(sockets[listener].options.clone());
        child.state = State::Connected;
        child.name = sockets[listener].name.clone();
        child.peer = Some(id);
        child.peer_name = sockets[id].name.clone();
        let name = child.name.clone();
        let child = sockets.add(child);
        let socket = &mut sockets[id];
        socket.state = State::Connected;
        socket.peer = Some(child);
        socket.peer_name = name;
        sockets[listener].accepted.push_back(child);
        if let Some(open) = sockets[listener].open {
            self.notify(open, EPOLLIN | EPOLLRDNORM);
        }
    }

    pub(crate) fn unix_accept(
        &mut self,
        fd: Fd,
        id: Id<Unix>,
        flags: i32,
    ) -> Answer<(Fd, Address)> {
        let timeout = self.unix.sockets[id].options.receive_timeout.map(Deadline::After);
        self.begin(timeout);
        if self.unix.sockets[id].state != State::Listening {
            return Err(Errno::EINVAL.into());
        }
        self.check_room(1)?;
        let Some(&child) = self.unix.sockets[id].accepted.front() else {
            return Err(self.await_event(fd, EPOLLIN, "a connection"));
        };
        let listener = self.open_of(fd)?;
        let fd = self.add_open(Kind::Unix(child), both_ways(flags))?;
        self.unix.sockets[id].accepted.pop_front();
        let open = self.open_of(fd)?;
        let socket = &mut self.unix.sockets[child];
        socket.open = Some(open);
        let peer = socket.peer_name.clone();
        self.notify(listener, EPOLLOUT);
        Ok((fd, Address::Unix(peer)))
    }

    pub(crate) fn unix_local(&self, id: Id<Unix>) -> UnixAddress {
        self.unix.sockets[id].name.clone()
    }

    pub(crate) fn unix_peer(&self, id: Id<Unix>) -> Result<UnixAddress, Errno> {
        let socket = &self.unix.sockets[id];
        let is_connected = socket.state == State::Connected;
        is_connected.then(|| socket.peer_name.clone()).ok_or(Errno::ENOTCONN)
    }

    pub(crate) fn unix_bytes_to_read(&self, id: Id<Unix>) -> Result<usize, Errno> {
        match self.unix.sockets[id].state {
            State::Listening => Err(Errno::EINVAL),
            State::New | State::Connected => Ok(self.unix.sockets[id].bytes()),
        }
    }

    /// The bytes that a socket has written and its peer has not read.
    fn unix_on_the_way(&self, id: Id<Unix>) -> usize {
        let peer = self.unix.sockets[id].peer.and_then(|peer| self.unix.sockets.get(peer));
        peer.map_or(0, Unix::bytes)
    }

    fn unix_is_writable(&self, id: Id<Unix>) -> bool {
        let socket = &self.unix.sockets[id];
        socket.state != State::Listening
            && self.unix_on_the_way(id) * 4 <= socket.options.send_buffer
    }

    pub(crate) fn unix_readiness(&self, id: Id<Unix>) -> u32 {
        let socket = &self.unix.sockets[id];
        let mut events = 0;
        if socket.error.is_some() {
            events |= EPOLLERR;
        }
        if (socket.shut_read && socket.shut_write) || socket.state == State::New {
            events |= EPOLLHUP;
        }
        if socket.shut_read {
            events |= EPOLLRDHUP | EPOLLIN | EPOLLRDNORM;
        }
        if !socket.chunks.is_empty() || !socket.accepted.is_empty() {
            events |= EPOLLIN | EPOLLRDNORM;
        }
        events | if self.unix_is_writable(id) { ROOM } else { 0 }
    }

    pub(crate) fn unix_send(
        &mut self,
        fd: Fd,
        id: Id<Unix>,
        bytes: &[u8],
        flags: i32,
        is_addressed: bool,
    ) -> Answer<usize> {
        let timeout = self.unix.sockets[id].options.send_timeout.map(Deadline::After);
        self.begin(timeout);
        let moved = self.progress().moved;
        let partly = |stop: Stop| if moved > 0 { Ok(moved) } else { Err(stop) };
        let socket = &self.unix.sockets[id];
        if socket.state != State::Connected {
            let errno = if is_addressed { Errno::EOPNOTSUPP } else { Errno::ENOTCONN };
            return Err(errno.into());
        }
        if is_addressed {
            return Err(Errno::EISCONN.into());
        }
        if socket.shut_write {
            return partly(Errno::EPIPE.into());
        }
        let free = socket.options.send_buffer.saturating_sub(self.unix_on_the_way(id));
        let part = free.min(bytes.len() - moved);
        let peer = socket.peer.expect("a connected socket has a peer");
        let Some(receiver) = self.unix.sockets.get(peer).filter(|peer| !peer.shut_read) else {
            return partly(Errno::EPIPE.into());
        };
        let open = receiver.open;
        if part > 0 {
            let chunk = bytes[moved..moved + part].iter().copied().collect();
            self.unix.sockets[peer].chunks.push_back(chunk);
            open.into_iter().for_each(|open| self.notify(open, EPOLLIN | EPOLLRDNORM));
        }
        let moved = moved + part;
        if moved == bytes.len() {
            return Ok(moved);
        }
        self.progress().moved = moved;
        match self.await_unless(fd, flags, true) {
            Stop::Failed(_) if moved > 0 => Ok(moved),
            stop => Err(stop),
        }
    }

    pub(crate) fn unix_receive(
        &mut self,
        fd: Fd,
        id: Id<Unix>,
        bytes: &mut [u8],
        flags: i32,
    ) -> Answer<usize> {
        let timeout = self.unix.sockets[id].options.receive_timeout.map(Deadline::After);
        self.begin(timeout);
        if self.unix.sockets[id].state != State::Connected {
            return Err(Errno::EINVAL.into());
        }
        let moved = self.progress().moved;
        let is_there = moved > 0 || !self.unix.sockets[id].chunks.is_empty();
        let moved = moved + self.unix_take(id, &mut bytes[moved..], flags & MSG_PEEK != 0);
        let takes_all = flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0;
        if is_there && (moved == bytes.len() || !takes_all) {
            return Ok(moved);
        }
        self.progress().moved = moved;
        let socket = &mut self.unix.sockets[id];
        if let Some(error) = socket.error.take_if(|_| moved == 0) {
            return Err(error.into());
        }
        if socket.shut_read {
            return Ok(moved);
        }
        match self.await_unless(fd, flags, false) {
            Stop::Failed(_) if moved > 0 => Ok(moved),
            stop => Err(stop),
        }
    }

    /// Moves what is there. Whenever a write was read to its end, its writer learns of room.
    fn unix_take(&mut self, id: Id<Unix>, into: &mut [u8], peeks: bool) -> usize {
        let there = self.unix.sockets[id].bytes().min(into.len());
        let count = self.choose_size("bytes of a read", there);
        let socket = &mut self.unix.sockets[id];
        let bytes = socket.chunks.iter().flatten();
        for (to, from) in into.iter_mut().zip(bytes.take(count)) {
            *to = *from;
        }
        if peeks {
            return count;
        }
        let (mut left, mut freed) = (count, false);
        while let Some(chunk) = socket.chunks.front_mut() {
            let part = left.min(chunk.len());
            chunk.drain(..part);
            left -= part;
            if !chunk.is_empty() {
                break;
            }
            freed = true;
            socket.chunks.pop_front();
        }
        let peer = socket.peer.filter(|_| freed);
        if let Some(peer) = peer.filter(|peer| self.unix.sockets.get(*peer).is_some())
            && self.unix_is_writable(peer)
            && let Some(open) = self.unix.sockets[peer].open
        {
            self.notify(open, ROOM);
        }
        count
    }

    pub(crate) fn unix_shutdown(&mut self, id: Id<Unix>, how: i32) -> Result<(), Errno> {
        let (reads, writes) =
            (matches!(how, SHUT_RD | SHUT_RDWR), matches!(how, SHUT_WR | SHUT_RDWR));
        let socket = &mut self.unix.sockets[id];
        socket.shut_read |= reads;
        socket.shut_write |= writes;
        let (open, peer) = (socket.open, socket.peer);
        open.into_iter().for_each(|open| self.notify(open, 0));
        if let Some(peer) = peer.and_then(|peer| self.unix.sockets.get_mut(peer)) {
            peer.shut_read |= writes;
            peer.shut_write |= reads;
            let open = peer.open;
            open.into_iter().for_each(|open| self.notify(open, 0));
        }
        Ok(())
    }

    pub(crate) fn unix_close(&mut self, id: Id<Unix>) {
        let socket = self.unix.sockets.remove(id).expect("a socket that is closed exists");
        match &socket.name {
            UnixAddress::Unnamed => {}
            name if self.unix.names.get(name) != Some(&Some(id)) => {}
            UnixAddress::Path(_) => drop(self.unix.names.insert(socket.name.clone(), None)),
            UnixAddress::Abstract(_) => drop(self.unix.names.remove(&socket.name)),
        }
        for child in socket.accepted {
            self.unix_drop(child, true);
        }
        self.unix_leave(id, socket.peer, !socket.chunks.is_empty());
    }

    /// A connection that nobody accepted goes away.
    fn unix_drop(&mut self, id: Id<Unix>, resets: bool) {
        if let Some(socket) = self.unix.sockets.remove(id) {
            self.unix_leave(id, socket.peer, resets);
        }
    }

    /// The peer of a socket that is gone learns of it.
    fn unix_leave(&mut self, id: Id<Unix>, peer: Option<Id<Unix>>, resets: bool) {
        let Some(peer) = peer.and_then(|peer| self.unix.sockets.get_mut(peer)) else { return };
        if peer.peer != Some(id) {
            return;
        }
        peer.peer = None;
        peer.shut_read = true;
        peer.shut_write = true;
        if resets {
            peer.error = Some(Errno::ECONNRESET);
        }
        let open = peer.open;
        open.into_iter().for_each(|open| self.notify(open, 0));
    }
}
