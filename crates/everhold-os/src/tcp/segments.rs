//! The segments of TCP: what is sent, what arrives, and what happens when nothing does.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::abi::Errno;
use crate::address::shown;
use crate::host::{Alarm, Host};
use crate::net::{Body, End, Flag, Segment, overlap};
use crate::slab::Id;

use super::transfer::DATA;
use super::{LONGEST_BACKLOG, Phase, State, Tcp};

/// How long the port of a connection that is over is held.
const TIME_WAIT: Duration = Duration::from_secs(60);

/// The longest time between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

impl Tcp {
    /// Whether something that was sent is not acknowledged.
    fn awaits_acknowledgement(&self) -> bool {
        let output = &self.output;
        matches!(self.state, State::SynSent | State::SynReceived)
            || output.sent > output.acknowledged
            || (output.end_sent && !output.end_acknowledged)
            || (!output.bytes.is_empty() && output.sent == output.room)
    }
}

impl Host {
    /// Whether the network never loses what a socket sends.
    fn is_reliable(&self, id: Id<Tcp>) -> bool {
        let local = |peer: SocketAddr| self.is_own(peer.ip());
        self.settings.retransmission.is_none() || self.net.tcp[id].peer.is_some_and(local)
    }

    /// Sends a segment without bytes.
    pub(super) fn tcp_send_segment(&mut self, id: Id<Tcp>, flag: Flag) {
        let at = self.net.tcp[id].output.sent;
        self.tcp_send_bytes(id, flag, at, Vec::new());
    }

    fn tcp_send_bytes(&mut self, id: Id<Tcp>, flag: Flag, at: u64, bytes: Vec<u8>) {
        let socket = &mut self.net.tcp[id];
        let (Some(from), Some(to)) = (socket.local, socket.peer) else { return };
        socket.input.room = socket.room();
        socket.dues.acknowledge = None;
        let (connection, seen, room) = (socket.connection, socket.input.end, socket.input.room);
        let segment = Segment { connection, flag, at, bytes, seen, room };
        self.send_packet(from, to, Body::Segment(segment));
        self.tcp_set_alarm(id);
    }

    /// Sends what can be sent.
    pub(super) fn tcp_push(&mut self, id: Id<Tcp>) {
        let is_reliable = self.is_reliable(id);
        loop {
            let output = &self.net.tcp[id].output;
            let unsent = (output.sent - output.acknowledged) as usize;
            let ready = output.bytes.len() - unsent;
            let count = ready.min(output.room.saturating_sub(output.sent) as usize);
            let at = output.sent;
            if count == 0 {
                let ends = output.ends && !output.end_sent && ready == 0;
                if ends {
                    self.tcp_send_end(id, is_reliable);
                }
                break;
            }
            let count = self.choose_size("bytes of a segment", count);
            let output = &mut self.net.tcp[id].output;
            let bytes = output.bytes.range(unsent..unsent + count).copied().collect();
            output.sent += count as u64;
            if is_reliable {
                output.bytes.drain(..count);
                output.acknowledged = output.sent;
            }
            self.tcp_send_bytes(id, Flag::Data, at, bytes);
        }
        if is_reliable {
            self.tcp_writable(id);
        }
    }

    fn tcp_send_end(&mut self, id: Id<Tcp>, is_reliable: bool) {
        self.net.tcp[id].output.end_sent = true;
        self.tcp_send_segment(id, Flag::Fin);
        if is_reliable {
            self.tcp_end_acknowledged(id);
        }
    }

    /// The peer knows that no bytes follow.
    fn tcp_end_acknowledged(&mut self, id: Id<Tcp>) {
        let socket = &mut self.net.tcp[id];
        socket.output.end_acknowledged = true;
        match socket.state {
            State::FinWait1 => {
                socket.state = State::FinWait2;
                if let Some(open) = socket.open {
                    self.notify(open, 0);
                }
            }
            State::Closing => self.tcp_time_wait(id),
            State::LastAck => self.tcp_done(id),
            _ => {}
        }
    }

    /// The connection is over, but its port is held.
    fn tcp_time_wait(&mut self, id: Id<Tcp>) {
        let socket = &self.net.tcp[id];
        if let (Some(local), Some(peer)) = (socket.local, socket.peer) {
            let (connection, seen) = (socket.connection, socket.input.end);
            let until = self.now() + TIME_WAIT;
            let end = End { local, peer, connection, seen, until };
            self.net.lingering.push(end);
        }
        self.tcp_done(id);
    }

    /// A segment arrives.
    pub(crate) fn tcp_arrives(&mut self, from: SocketAddr, to: SocketAddr, segment: Segment) {
        let known = self.net.connections.get(&(to, from)).copied();
        match known {
            Some(id) if self.net.tcp[id].connection == segment.connection => {
                self.tcp_segment(id, from, to, segment);
            }
            // Either side was started again and knows nothing of the connection.
            Some(id) if segment.flag == Flag::Syn => {
                self.tcp_reset(id);
                self.tcp_syn(from, to, segment);
            }
            _ if segment.flag == Flag::Reset => {}
            None if segment.flag == Flag::Syn => self.tcp_syn(from, to, segment),
            _ => self.tcp_stray(from, to, &segment),
        }
    }

    /// A segment of a connection that this host does not have.
    fn tcp_stray(&mut self, from: SocketAddr, to: SocketAddr, segment: &Segment) {
        let is_it =
            |end: &&End| (end.local, end.peer, end.connection) == (to, from, segment.connection);
        let lingering = self.net.lingering.iter().find(is_it);
        let (flag, seen) = match lingering {
            Some(end) => (Flag::Data, end.seen),
            None => (Flag::Reset, 0),
        };
        let (connection, at) = (segment.connection, segment.seen);
        let answer = Segment { connection, flag, at, bytes: Vec::new(), seen, room: seen };
        self.send_packet(to, from, Body::Segment(answer));
    }

    /// A connection begins: there is somebody who listens, or it is refused.
    fn tcp_syn(&mut self, from: SocketAddr, to: SocketAddr, segment: Segment) {
        let listens = |id: &&Id<Tcp>| {
            let socket = &self.net.tcp[**id];
            let local = socket.local.expect("a socket that listens has an address");
            overlap((local, socket.takes_both()), (to, false))
        };
        let fits = self.net.listeners.iter().filter(listens);
        let is_general =
            |id: &&Id<Tcp>| self.net.tcp[**id].local.is_some_and(|at| at.ip().is_unspecified());
        let Some(&listener) = fits.min_by_key(is_general) else {
            let Segment { connection, seen, .. } = segment;
            let bytes = Vec::new();
            let refusal =
                Segment { connection, flag: Flag::Reset, at: seen, bytes, seen: 0, room: 0 };
            return self.send_packet(to, from, Body::Segment(refusal));
        };
        let parked = &self.net.tcp[listener].parked;
        let is_full = self.net.tcp[listener].accepted.len() > self.net.tcp[listener].backlog;
        if !is_full {
            self.tcp_child(listener, from, to, &segment);
        } else if parked.len() < LONGEST_BACKLOG
            && !parked.iter().any(|(peer, local, _)| (peer, local) == (&from, &to))
        {
            self.net.tcp[listener].parked.push((from, to, segment));
        }
    }

    /// There is room for connections that found none.
    pub(super) fn tcp_take_parked(&mut self, listener: Id<Tcp>) {
        let socket = &mut self.net.tcp[listener];
        if !socket.parked.is_empty() && socket.accepted.len() <= socket.backlog {
            let (from, to, segment) = socket.parked.remove(0);
            self.tcp_child(listener, from, to, &segment);
        }
    }

    fn tcp_child(&mut self, id: Id<Tcp>, from: SocketAddr, to: SocketAddr, segment: &Segment) {
        let listener = &self.net.tcp[id];
        let options = listener.options.clone();
        let mut child = Tcp::new(listener.is_v6, options);
        child.state = State::SynReceived;
        child.phase = Phase::Connected;
        child.local = Some(to);
        child.peer = Some(from);
        child.connection = segment.connection;
        child.output.room = segment.room;
        child.listener = Some(id);
        let child = self.net.tcp.add(child);
        self.net.connections.insert((to, from), child);
        self.tcp_send_segment(child, Flag::SynAck);
        if self.is_reliable(child) {
            self.tcp_acceptable(child);
        }
    }

    /// The connection exists, and can be accepted.
    fn tcp_acceptable(&mut self, child: Id<Tcp>) {
        self.net.tcp[child].state = State::Established;
        self.net.tcp[child].dues.attempts = 0;
        self.tcp_set_alarm(child);
        let Some(listener) = self.net.tcp[child].listener else { return };
        self.net.tcp[listener].accepted.push_back(child);
        if let Some(open) = self.net.tcp[listener].open {
            self.notify(open, DATA);
        }
    }

    /// A segment of a connection that this host has.
    fn tcp_segment(&mut self, id: Id<Tcp>, from: SocketAddr, to: SocketAddr, segment: Segment) {
        self.net.tcp[id].dues.probes = 0;
        self.net.tcp[id].dues.keep_alive = None;
        match (self.net.tcp[id].state, segment.flag) {
            (_, Flag::Reset) => return self.tcp_reset(id),
            (State::SynSent, Flag::SynAck) => return self.tcp_established(id, &segment),
            (State::SynSent, _) => return,
            // The acknowledgement of the connection, or of what it sent, was lost.
            (State::SynReceived, Flag::Syn) => return self.tcp_send_segment(id, Flag::SynAck),
            (_, Flag::Syn) => return,
            (_, Flag::SynAck) => return self.tcp_send_segment(id, Flag::Data),
            (State::SynReceived, Flag::Data | Flag::Fin) => self.tcp_acceptable(id),
            _ => {}
        }
        self.tcp_acknowledged(id, segment.seen, segment.room);
        if self.net.connections.get(&(to, from)) == Some(&id) {
            self.tcp_input(id, segment);
        }
    }

    fn tcp_established(&mut self, id: Id<Tcp>, segment: &Segment) {
        let socket = &mut self.net.tcp[id];
        socket.state = State::Established;
        socket.output.room = segment.room;
        socket.dues.attempts = 0;
        socket.dues.resend = None;
        if let Some(open) = socket.open {
            self.notify(open, 0);
        }
        if self.is_reliable(id) {
            self.tcp_set_alarm(id);
        } else {
            self.tcp_send_segment(id, Flag::Data);
        }
    }

    /// The peer has seen everything before a place, and has room before another.
    fn tcp_acknowledged(&mut self, id: Id<Tcp>, seen: u64, room: u64) {
        let output = &mut self.net.tcp[id].output;
        let end = output.acknowledged + output.bytes.len() as u64;
        let known = seen.min(output.sent).saturating_sub(output.acknowledged);
        let is_end = output.end_sent && !output.end_acknowledged && seen > end;
        output.bytes.drain(..known as usize);
        output.acknowledged += known;
        let has_more_room = room > output.room;
        output.room = output.room.max(room);
        if known > 0 || is_end || has_more_room {
            self.net.tcp[id].dues.attempts = 0;
            self.net.tcp[id].dues.resend = None;
            self.tcp_push(id);
            self.tcp_writable(id);
            self.tcp_set_alarm(id);
        }
        if is_end {
            self.tcp_end_acknowledged(id);
        }
    }

    /// Takes the bytes of a segment, in their order.
    fn tcp_input(&mut self, id: Id<Tcp>, segment: Segment) {
        let input = &mut self.net.tcp[id].input;
        let is_empty = segment.bytes.is_empty() && segment.flag == Flag::Data;
        if is_empty && segment.at == input.end {
            return;
        }
        if segment.at > input.end && !is_empty {
            // An earlier one was delayed or lost. The later one is kept.
            input.early.entry(segment.at).or_insert(segment);
            return self.tcp_send_segment(id, Flag::Data);
        }
        let is_old = segment.at + (segment.bytes.len() as u64) < input.end
            || (segment.at < input.end
                && segment.at + segment.bytes.len() as u64 == input.end
                && segment.flag != Flag::Fin);
        if is_empty || is_old {
            return self.tcp_send_segment(id, Flag::Data);
        }
        let mut next = Some(segment);
        while let Some(segment) = next {
            if !self.tcp_in_order(id, segment) {
                return;
            }
            let input = &mut self.net.tcp[id].input;
            let due = input.early.first_key_value().filter(|(at, _)| **at <= input.end);
            let due = due.map(|(at, _)| *at);
            next = due.and_then(|at| input.early.remove(&at));
        }
    }

    /// Takes a segment whose time has come. False if that was the end of the connection.
    fn tcp_in_order(&mut self, id: Id<Tcp>, segment: Segment) -> bool {
        let Segment { flag, at, bytes, .. } = segment;
        let socket = &mut self.net.tcp[id];
        let known = (socket.input.end - at).min(bytes.len() as u64) as usize;
        let bytes = &bytes[known..];
        let is_closing = !matches!(socket.state, State::Established | State::CloseWait);
        if !bytes.is_empty() && is_closing && socket.shut_read && !socket.is_done {
            // Nobody will read this.
            self.tcp_send_segment(id, Flag::Reset);
            self.tcp_reset(id);
            return false;
        }
        socket.input.bytes.extend(bytes);
        socket.input.end += bytes.len() as u64;
        if !bytes.is_empty() {
            if let Some(open) = socket.open {
                self.notify(open, DATA);
            }
            self.tcp_acknowledge_later(id);
        }
        flag != Flag::Fin || self.tcp_peer_ended(id)
    }

    fn tcp_acknowledge_later(&mut self, id: Id<Tcp>) {
        if self.is_reliable(id) {
            return;
        }
        let after = self.settings.retransmission.unwrap_or_default().delayed_ack;
        let due = self.now() + after;
        self.net.tcp[id].dues.acknowledge.get_or_insert(due);
        self.tcp_set_alarm(id);
    }

    /// The peer sends nothing more. False if that was the end of the connection.
    fn tcp_peer_ended(&mut self, id: Id<Tcp>) -> bool {
        let is_reliable = self.is_reliable(id);
        let socket = &mut self.net.tcp[id];
        if socket.is_done {
            return true;
        }
        socket.input.end += 1;
        socket.is_done = true;
        socket.shut_read = true;
        let open = socket.open;
        let state = socket.state;
        match state {
            State::Established => socket.state = State::CloseWait,
            State::FinWait1 => socket.state = State::Closing,
            _ => {}
        }
        if !is_reliable {
            self.tcp_send_segment(id, Flag::Data);
        }
        if let Some(open) = open {
            self.notify(open, 0);
        }
        if state == State::FinWait2 {
            self.tcp_time_wait(id);
            return false;
        }
        true
    }

    /// The peer has ended the connection with a reset.
    fn tcp_reset(&mut self, id: Id<Tcp>) {
        let socket = &mut self.net.tcp[id];
        let error = match socket.state {
            State::SynSent => Errno::ECONNREFUSED,
            State::CloseWait => Errno::EPIPE,
            _ => Errno::ECONNRESET,
        };
        if socket.state == State::SynReceived {
            socket.listener = None;
        }
        self.tcp_fail(id, error);
    }

    /// Resets every connection with a peer, as if each had received a reset.
    pub(crate) fn tcp_reset_peer(&mut self, peer: IpAddr) {
        let connections = self.net.connections.iter();
        let theirs: Vec<Id<Tcp>> =
            connections.filter(|((_, to), _)| to.ip() == peer).map(|(_, id)| *id).collect();
        for id in theirs {
            self.tcp_reset(id);
        }
    }

    /// Something is due at a connection.
    pub(crate) fn tcp_alarm(&mut self, id: Id<Tcp>) {
        let now = self.now();
        if self.net.tcp.get(id).is_none() {
            return;
        }
        let dues = &mut self.net.tcp[id].dues;
        dues.alarm = None;
        let is_due = |due: Option<everhold_node::Time>| due.is_some_and(|due| due <= now);
        let (resend, acknowledge) = (is_due(dues.resend), is_due(dues.acknowledge));
        let keep_alive = is_due(dues.keep_alive);
        if resend {
            self.tcp_resend(id);
        } else if keep_alive {
            self.tcp_probe(id);
        } else if acknowledge {
            self.tcp_send_segment(id, Flag::Data);
        }
        if self.net.tcp.get(id).is_some() {
            self.tcp_set_alarm(id);
        }
    }

    /// Sends again what was not acknowledged, until that was tried too often.
    fn tcp_resend(&mut self, id: Id<Tcp>) {
        let retransmission = self.settings.retransmission.unwrap_or_default();
        let socket = &mut self.net.tcp[id];
        socket.dues.attempts += 1;
        socket.dues.resend = None;
        let is_new = matches!(socket.state, State::SynSent | State::SynReceived);
        let most = if is_new { retransmission.connect_retries } else { retransmission.retries };
        if socket.dues.attempts > most {
            return self.tcp_fail(id, Errno::ETIMEDOUT);
        }
        let output = &socket.output;
        let (at, sent) = (output.acknowledged, (output.sent - output.acknowledged) as usize);
        let ended = output.end_sent && !output.end_acknowledged;
        match socket.state {
            State::SynSent => self.tcp_send_segment(id, Flag::Syn),
            State::SynReceived => self.tcp_send_segment(id, Flag::SynAck),
            _ => {
                let bytes: Vec<u8> = output.bytes.range(..sent).copied().collect();
                if !bytes.is_empty() {
                    self.tcp_send_bytes(id, Flag::Data, at, bytes);
                } else if !ended {
                    // The peer has no room, or what it said about it was lost.
                    self.tcp_send_bytes(id, Flag::Data, at - 1, Vec::new());
                }
                if ended {
                    self.tcp_send_segment(id, Flag::Fin);
                }
            }
        }
    }

    /// Asks the peer of a connection without traffic whether it is there.
    fn tcp_probe(&mut self, id: Id<Tcp>) {
        let socket = &mut self.net.tcp[id];
        socket.dues.probes += 1;
        socket.dues.keep_alive = None;
        if socket.dues.probes > socket.options.keep_alive.count {
            return self.tcp_fail(id, Errno::ETIMEDOUT);
        }
        let before = socket.output.sent - 1;
        self.tcp_send_bytes(id, Flag::Data, before, Vec::new());
    }

    /// Sets the alarm for whatever is due first.
    pub(super) fn tcp_set_alarm(&mut self, id: Id<Tcp>) {
        let now = self.now();
        let is_gone = self.net.tcp.get(id).is_none_or(|socket| socket.state == State::Closed);
        if is_gone || self.settings.retransmission.is_none() || self.is_reliable(id) {
            return;
        }
        let first = self.settings.retransmission.unwrap_or_default().first;
        let socket = &mut self.net.tcp[id];
        let factor = 1_u32 << socket.dues.attempts.min(16);
        let wait = first.saturating_mul(factor).min(LONGEST_WAIT);
        if socket.awaits_acknowledgement() {
            socket.dues.resend.get_or_insert(now + wait);
        } else {
            socket.dues.resend = None;
        }
        let keeps = socket.options.keep_alive;
        let is_idle = matches!(socket.state, State::Established | State::CloseWait);
        if keeps.is_on && is_idle && socket.dues.resend.is_none() {
            let after = if socket.dues.probes == 0 { keeps.idle } else { keeps.interval };
            socket.dues.keep_alive.get_or_insert(now + after);
        } else {
            socket.dues.keep_alive = None;
        }
        let dues = &mut socket.dues;
        let first = [dues.resend, dues.acknowledge, dues.keep_alive].into_iter().flatten().min();
        if first != dues.alarm {
            let before = std::mem::replace(&mut dues.alarm, first);
            before.map(|due| self.alarms.remove(&(due, Alarm::Tcp(id))));
            first.map(|due| self.alarms.insert((due, Alarm::Tcp(id))));
        }
    }

    /// A program has changed options, maybe those of questions to a silent peer.
    pub(crate) fn tcp_options_changed(&mut self, id: Id<Tcp>) {
        self.net.tcp[id].dues.keep_alive = None;
        self.tcp_set_alarm(id);
    }

    pub(super) fn tcp_clear_alarm(&mut self, id: Id<Tcp>) {
        if let Some(due) = self.net.tcp[id].dues.alarm.take() {
            self.alarms.remove(&(due, Alarm::Tcp(id)));
        }
        self.net.tcp[id].dues = super::Dues::default();
    }

    /// The connections of the host with the addresses of both sides, for reports.
    pub fn connections(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> + '_ {
        let all = self.net.connections.iter();
        all.map(|((local, peer), id)| (shown(*local, self.net.tcp[*id].is_v6), *peer))
    }
}
