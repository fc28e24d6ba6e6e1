//! Bytes in and out of a TCP socket, and how connections end.

use crate::abi::Errno;
use crate::abi::epoll::{
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLRDNORM, EPOLLWRNORM,
};
use crate::abi::socket::{MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL};
use crate::descriptor::Fd;
use crate::host::Host;
use crate::net::Flag;
use crate::slab::Id;
use crate::thread::{Answer, Deadline, Stop};

use super::{State, Tcp};

impl Tcp {
    /// The bytes that a writer may add.
    fn free(&self) -> usize {
        self.options.send_buffer.saturating_sub(self.output.bytes.len())
    }

    /// Whether there is so much room that a writer is told of it.
    fn is_writable(&self) -> bool {
        self.free() >= self.output.bytes.len() / 2 && self.free() > 0
    }

    /// The place before which it can take bytes.
    pub(super) fn room(&self) -> u64 {
        let free = self.options.receive_buffer.saturating_sub(self.input.bytes.len());
        (self.input.end + free as u64).max(self.input.room)
    }
}

impl Host {
    pub(crate) fn tcp_bytes_to_read(&self, id: Id<Tcp>) -> Result<usize, Errno> {
        let socket = &self.net.tcp[id];
        match socket.state {
            State::Listen => Err(Errno::EINVAL),
            _ => Ok(socket.input.bytes.len()),
        }
    }

    pub(crate) fn tcp_readiness(&self, id: Id<Tcp>) -> u32 {
        let socket = &self.net.tcp[id];
        if socket.state == State::Listen {
            return if socket.accepted.is_empty() { 0 } else { EPOLLIN | EPOLLRDNORM };
        }
        let mut events = 0;
        if (socket.shut_read && socket.shut_write) || socket.state == State::Closed {
            events |= EPOLLHUP;
        }
        if socket.shut_read {
            events |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
        }
        if !matches!(socket.state, State::SynSent | State::SynReceived) {
            if !socket.input.bytes.is_empty() {
                events |= EPOLLIN | EPOLLRDNORM;
            }
            if socket.shut_write || socket.is_writable() {
                events |= EPOLLOUT | EPOLLWRNORM;
            } else {
                socket.output.is_wanted.set(true);
            }
        }
        if socket.error.is_some() {
            events |= EPOLLERR;
        }
        events
    }

    pub(crate) fn tcp_send(
        &mut self,
        fd: Fd,
        id: Id<Tcp>,
        bytes: &[u8],
        flags: i32,
    ) -> Answer<usize> {
        let timeout = self.net.tcp[id].options.send_timeout.map(Deadline::After);
        self.begin(timeout);
        let moved = self.progress().moved;
        let partly = |stop: Stop| if moved > 0 { Ok(moved) } else { Err(stop) };
        let socket = &mut self.net.tcp[id];
        match socket.state {
            State::SynSent | State::SynReceived if socket.error.is_none() => {
                return Err(self.await_unless(fd, flags, true));
            }
            State::Established | State::CloseWait if !socket.shut_write => {}
            _ => return partly(socket.take_error().unwrap_or(Errno::EPIPE).into()),
        }
        if let Some(error) = socket.error.take() {
            return partly(error.into());
        }
        let part = socket.free().min(bytes.len() - moved);
        socket.output.bytes.extend(&bytes[moved..moved + part]);
        let moved = moved + part;
        let is_all = moved == bytes.len();
        self.tcp_push(id);
        if is_all {
            return Ok(moved);
        }
        self.net.tcp[id].output.is_wanted.set(true);
        self.progress().moved = moved;
        match self.await_unless(fd, flags, true) {
            Stop::Failed(_) if moved > 0 => Ok(moved),
            stop => Err(stop),
        }
    }

    /// Waits for data or room, unless a flag of the call says not to.
    pub(crate) fn await_unless(&mut self, fd: Fd, flags: i32, writes: bool) -> Stop {
        match writes {
            _ if flags & MSG_DONTWAIT != 0 => Errno::EAGAIN.into(),
            true => self.await_room(fd),
            false => self.await_data(fd),
        }
    }

    pub(crate) fn tcp_receive(
        &mut self,
        fd: Fd,
        id: Id<Tcp>,
        bytes: &mut [u8],
        flags: i32,
    ) -> Answer<usize> {
        let timeout = self.net.tcp[id].options.receive_timeout.map(Deadline::After);
        self.begin(timeout);
        let moved = self.progress().moved;
        let socket = &mut self.net.tcp[id];
        if socket.state == State::Listen {
            return Err(Errno::ENOTCONN.into());
        }
        let there = socket.input.bytes.len();
        if there > 0 {
            let moved = moved + self.tcp_take(id, &mut bytes[moved..], flags);
            let takes_all = flags & MSG_WAITALL != 0 && flags & MSG_PEEK == 0;
            if !takes_all || moved == bytes.len() {
                return Ok(moved);
            }
            self.progress().moved = moved;
        }
        let moved = self.progress().moved;
        match self.tcp_without_data(fd, id, flags) {
            Err(Stop::Failed(_)) if moved > 0 => Ok(moved),
            Err(stop) => Err(stop),
            Ok(()) => Ok(moved),
        }
    }

    /// A read finds nothing: that is the end, an error, or a reason to wait.
    fn tcp_without_data(&mut self, fd: Fd, id: Id<Tcp>, flags: i32) -> Answer<()> {
        let moved = self.progress().moved;
        let socket = &mut self.net.tcp[id];
        if socket.is_done {
            return Ok(());
        }
        if let Some(error) = socket.error.take_if(|_| moved == 0) {
            return Err(error.into());
        }
        match socket.state {
            _ if socket.shut_read => Ok(()),
            State::Closed => Err(Errno::ENOTCONN.into()),
            _ => Err(self.await_unless(fd, flags, false)),
        }
    }

    /// Moves what is there, or less if that is a choice.
    fn tcp_take(&mut self, id: Id<Tcp>, bytes: &mut [u8], flags: i32) -> usize {
        let there = self.net.tcp[id].input.bytes.len().min(bytes.len());
        let count = self.choose_size("bytes of a read", there);
        let input = &mut self.net.tcp[id].input;
        for (to, from) in bytes.iter_mut().zip(input.bytes.iter().take(count)) {
            *to = *from;
        }
        if flags & MSG_PEEK == 0 {
            input.bytes.drain(..count);
            self.tcp_reopen(id);
        }
        count
    }

    /// Tells a peer that found no room that there is some again.
    fn tcp_reopen(&mut self, id: Id<Tcp>) {
        let socket = &self.net.tcp[id];
        let was_full = socket.input.end == socket.input.room;
        let half = (socket.options.receive_buffer / 2) as u64;
        let is_live =
            matches!(socket.state, State::Established | State::FinWait1 | State::FinWait2);
        if is_live && was_full && socket.room() - socket.input.room >= half {
            self.tcp_send_segment(id, Flag::Data);
        }
    }

    /// A writer is told of room that it wanted.
    pub(super) fn tcp_writable(&mut self, id: Id<Tcp>) {
        // The end of the output may have been the end of the socket.
        let Some(socket) = self.net.tcp.get(id) else { return };
        if socket.output.is_wanted.get() && socket.is_writable() {
            socket.output.is_wanted.set(false);
            if let Some(open) = socket.open {
                self.notify(open, EPOLLOUT | EPOLLWRNORM);
            }
        }
    }

    /// No bytes follow.
    pub(super) fn tcp_end(&mut self, id: Id<Tcp>) {
        let socket = &mut self.net.tcp[id];
        socket.state = match socket.state {
            State::Established | State::SynReceived => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return,
        };
        socket.output.ends = true;
        self.tcp_push(id);
    }

    /// The last descriptor of a socket was closed.
    pub(crate) fn tcp_close(&mut self, id: Id<Tcp>) {
        let socket = &mut self.net.tcp[id];
        socket.open = None;
        socket.shut_read = true;
        socket.shut_write = true;
        let loses_data = !socket.input.bytes.is_empty();
        let lingers_not = socket.options.linger.is_some_and(|time| time.is_zero());
        match socket.state {
            State::Closed => drop(self.net.tcp.remove(id)),
            State::Listen | State::SynSent => {
                self.tcp_disconnect(id);
                self.net.tcp.remove(id);
            }
            _ if loses_data || lingers_not => self.tcp_abort(id),
            _ => {
                self.tcp_end(id);
                self.tcp_forget_if_over(id);
            }
        }
    }

    /// Ends a connection with a reset. The socket is gone.
    pub(super) fn tcp_abort(&mut self, id: Id<Tcp>) {
        if self.net.tcp[id].state != State::Closed {
            self.tcp_send_segment(id, Flag::Reset);
        }
        self.tcp_leave(id);
        self.net.tcp.remove(id);
    }

    /// A socket that is closed and needs nothing more from its peer is gone.
    pub(super) fn tcp_forget_if_over(&mut self, id: Id<Tcp>) {
        let Some(socket) = self.net.tcp.get(id) else { return };
        if socket.open.is_none() && socket.listener.is_none() && socket.state == State::Closed {
            self.tcp_leave(id);
            self.net.tcp.remove(id);
        }
    }

    /// The connection is over for both sides, or failed.
    pub(super) fn tcp_done(&mut self, id: Id<Tcp>) {
        self.tcp_leave(id);
        let socket = &mut self.net.tcp[id];
        socket.state = State::Closed;
        socket.shut_read = true;
        socket.shut_write = true;
        socket.output.bytes.clear();
        socket.output.acknowledged = socket.output.sent;
        socket.free_port();
        if let Some(open) = socket.open {
            self.notify(open, 0);
        }
        self.tcp_forget_if_over(id);
    }

    /// The connection failed.
    pub(super) fn tcp_fail(&mut self, id: Id<Tcp>, error: Errno) {
        let socket = &mut self.net.tcp[id];
        socket.error = Some(error);
        if let Some(open) = socket.open {
            self.notify(open, EPOLLERR);
        }
        self.tcp_done(id);
    }
}

/// The events of data.
pub(super) const DATA: u32 = EPOLLIN | EPOLLRDNORM;
