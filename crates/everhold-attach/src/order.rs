//! From positions in byte streams to messages: which send a receive comes after.

use std::collections::{BTreeMap, VecDeque};

use everhold_trace::wire::What;
use everhold_trace::{MessageId, NodeId};

use crate::network::{Direction, Passage};

/// How many sends may wait for their receive. A stream of which more wait is read by nobody who is
/// observed.
const WAITING_MAX: usize = 256;

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
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: BTreeMap<Direction, Stream>,
    /// Of each node, how many events it had.
    events: BTreeMap<NodeId, u64>,
    /// Of each node, the count of its messages.
    sent: BTreeMap<NodeId, u64>,
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

    fn send(&mut self, node: NodeId, passage: &Passage) -> Option<What> {
        let now = self.events.get(&node).copied().unwrap_or(0);
        let stream = self.streams.entry(passage.direction).or_default();
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
        Some(What::Send { to: stream.to, seq: id.seq, label: "tcp".into() })
    }

    fn receive(&mut self, node: NodeId, passage: &Passage) -> Vec<What> {
        let stream = self.streams.entry(passage.direction).or_default();
        stream.to = Some(node);
        stream.is_outward = false;
        let mut found = Vec::new();
        // Positions wrap around, and are never two gibibytes apart.
        let is_before = |start: u32| start.wrapping_sub(passage.position).cast_signed() < 0;
        while stream.waiting.front().is_some_and(|(start, _)| is_before(*start)) {
            found.extend(stream.waiting.pop_front().map(|(_, id)| What::receive(id)));
        }
        if !found.is_empty() {
            self.event(node);
        }
        found
    }

    /// The connections of a process that is gone are never heard of again.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.streams.retain(|_, stream| {
            let sends = stream.sent_in.is_some_and(|(sender, _)| sender == node);
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
