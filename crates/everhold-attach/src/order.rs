//! From positions in byte streams to messages: which send a receive comes after.

use std::collections::{BTreeMap, VecDeque};

use everhold_trace::wire::What;
use everhold_trace::{MessageId, NodeId};

use crate::network::{Direction, Passage};

/// How many sends may wait for their receive. A stream of which more wait is read by nobody who is
/// observed.
const WAITING_MAX: usize = 256;

/// How far behind the newest send one may wait, in bytes. Positions are compared within two gibibytes.
const BEHIND_MAX: u32 = 1 << 30;

/// One direction of a connection.
#[derive(Debug, Default)]
struct Stream {
    /// Sends that were not received yet: the number of the first byte, and the message.
    waiting: VecDeque<(u32, MessageId)>,
    /// The event of the sender at its last send: further sends without another event between them
    /// tell nothing new.
    sent_in: Option<(NodeId, u64)>,
    /// Who receives, once that is known.
    to: Option<NodeId>,
    /// Whether nobody who is observed seems to receive.
    is_outward: bool,
    /// Whether the process that sent has ended. Further sends are those of another connection with
    /// the same addresses and ports.
    has_ended: bool,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: BTreeMap<Direction, Stream>,
    /// Of each node, how many events it had.
    events: BTreeMap<NodeId, u64>,
    /// Of each node, the count of its messages.
    sent: BTreeMap<NodeId, u64>,
    /// Sends that were shown, and those of them whose receive was seen.
    shown: u64,
    matched: u64,
    /// Receives of streams of which no send was seen.
    pub(crate) unsent: u64,
}

impl Streams {
    /// Something happened at a node that later messages come after.
    pub(crate) fn event(&mut self, node: NodeId) {
        *self.events.entry(node).or_default() += 1;
    }

    /// A send or a receive of a node, in the words of the tuple protocol.
    pub(crate) fn passage(&mut self, node: NodeId, passage: &Passage) -> Vec<What> {
        match passage.is_send {
            true => self.send(node, passage).into_iter().collect(),
            false => self.receive(node, passage),
        }
    }

    /// Sends that were shown and whose receive was not seen.
    pub(crate) fn unread(&self) -> u64 {
        self.shown - self.matched
    }

    fn send(&mut self, node: NodeId, passage: &Passage) -> Option<What> {
        let now = self.events.get(&node).copied().unwrap_or(0);
        let stream = self.streams.entry(passage.direction).or_default();
        if stream.has_ended {
            *stream = Stream::default();
        }
        let behind = |start: u32| passage.position.wrapping_sub(start);
        while stream.waiting.front().is_some_and(|(start, _)| behind(*start) > BEHIND_MAX) {
            stream.waiting.pop_front();
        }
        if stream.is_outward || stream.sent_in == Some((node, now)) {
            return None;
        }
        stream.sent_in = Some((node, now));
        if stream.waiting.len() >= WAITING_MAX {
            if stream.to.is_none() {
                stream.is_outward = true;
                stream.waiting.clear();
                return None;
            }
            stream.waiting.pop_front();
        }
        let count = self.sent.entry(node).or_default();
        let id = MessageId { sender: node, seq: *count };
        *count += 1;
        stream.waiting.push_back((passage.position, id));
        self.shown += 1;
        Some(What::Send { to: stream.to, seq: id.seq, label: "tcp".into() })
    }

    fn receive(&mut self, node: NodeId, passage: &Passage) -> Vec<What> {
        let stream = self.streams.entry(passage.direction).or_default();
        stream.to = Some(node);
        stream.is_outward = false;
        self.unsent += u64::from(stream.sent_in.is_none());
        let mut found = Vec::new();
        // Positions wrap around, and are never two gibibytes apart.
        let is_before = |start: u32| start.wrapping_sub(passage.position).cast_signed() < 0;
        while stream.waiting.front().is_some_and(|(start, _)| is_before(*start)) {
            found.extend(stream.waiting.pop_front().map(|(_, id)| What::receive(id)));
        }
        self.matched += found.len() as u64;
        if !found.is_empty() {
            self.event(node);
        }
        found
    }

    /// The connections of a process that is gone are never heard of again.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.streams.retain(|_, stream| {
            let sends = stream.sent_in.is_some_and(|(sender, _)| sender == node);
            stream.has_ended |= sends;
            !(sends && stream.waiting.is_empty()) && stream.to != Some(node)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn passage(is_send: bool, position: u32) -> Passage {
        let direction = Direction {
            from: "127.0.0.1:1000".parse().unwrap(),
            to: "127.0.0.1:2000".parse().unwrap(),
            within: None,
        };
        Passage { direction, is_send, position }
    }

    fn received(whats: &[What]) -> Vec<u64> {
        let seq = |what: &What| match what {
            What::Event(everhold_trace::EventKind::Deliver { message }) => message.seq,
            other => panic!("{other:?}"),
        };
        whats.iter().map(seq).collect()
    }

    #[test]
    fn a_receive_comes_after_every_send_that_began_before_its_end() {
        let mut streams = Streams::default();
        for position in [u32::MAX - 9, 0, 90] {
            streams.event(A);
            assert_eq!(streams.passage(A, &passage(true, position)).len(), 1);
        }
        // The first byte of the second send was read, and the number of bytes has wrapped.
        assert_eq!(received(&streams.passage(B, &passage(false, 1))), [0, 1]);
        assert_eq!(received(&streams.passage(B, &passage(false, 90))), [0_u64; 0]);
        assert_eq!(received(&streams.passage(B, &passage(false, 91))), [2]);
    }

    #[test]
    fn sends_with_nothing_between_them_are_one() {
        let mut streams = Streams::default();
        assert_eq!(streams.passage(A, &passage(true, 10)).len(), 1);
        assert_eq!(streams.passage(A, &passage(true, 20)).len(), 0);
        streams.event(A);
        assert_eq!(streams.passage(A, &passage(true, 30)).len(), 1);
        assert_eq!(received(&streams.passage(B, &passage(false, 25))), [0]);
    }

    #[test]
    fn a_new_connection_on_the_same_ports_has_nothing_to_do_with_the_old_one() {
        let mut streams = Streams::default();
        streams.event(A);
        streams.passage(A, &passage(true, 10));
        streams.forget(A);
        let other = NodeId(3);
        streams.event(other);
        streams.passage(other, &passage(true, 20));
        let whats = streams.passage(B, &passage(false, 30));
        assert_eq!(whats, [What::receive(MessageId { sender: other, seq: 0 })]);
        assert_eq!((streams.unread(), streams.unsent), (1, 0));
    }

    #[test]
    fn what_a_process_sent_before_it_ended_still_arrives() {
        let mut streams = Streams::default();
        streams.event(A);
        streams.passage(A, &passage(true, 10));
        streams.forget(A);
        assert_eq!(received(&streams.passage(B, &passage(false, 30))), [0]);
        assert_eq!(streams.unread(), 0);
    }

    #[test]
    fn sends_too_far_behind_are_not_compared() {
        let mut streams = Streams::default();
        for position in [0, 3 << 29, 3 << 30] {
            streams.event(A);
            streams.passage(A, &passage(true, position));
        }
        assert_eq!(received(&streams.passage(B, &passage(false, (3 << 30) + 1))), [2]);
        assert_eq!(streams.unread(), 2);
    }

    #[test]
    fn receives_of_what_nobody_was_seen_to_send_are_counted() {
        let mut streams = Streams::default();
        assert_eq!(streams.passage(B, &passage(false, 30)).len(), 0);
        assert_eq!((streams.unread(), streams.unsent), (0, 1));
    }

    #[test]
    fn a_stream_that_nobody_reads_is_left_alone_until_somebody_does() {
        let mut streams = Streams::default();
        let send = |streams: &mut Streams, position| {
            streams.event(A);
            streams.passage(A, &passage(true, position)).len()
        };
        let shown: usize = (0..1_000).map(|position| send(&mut streams, position)).sum();
        assert_eq!(shown, WAITING_MAX);
        streams.passage(B, &passage(false, 1_000));
        assert_eq!(send(&mut streams, 1_000), 1);
        assert_eq!(received(&streams.passage(B, &passage(false, 1_001))), [WAITING_MAX as u64]);
    }
}
