//! Clients, which send requests to nodes from outside the system.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use everhold_node::Tag;
use everhold_trace::NodeId;
use everhold_trace::wire::Clock;

use super::codec::Codec;
use super::core::CLIENTS;
use super::packet::{Identity, Packet};
use crate::probe::Envelope;

/// A connection to one node of a hosted system, which sees the client as another node.
#[derive(Debug)]
pub struct Client<M> {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    codec: Codec<M>,
    id: NodeId,
    node: NodeId,
    clock: Clock,
    sent: u64,
}

impl<M> Client<M> {
    /// Connects to a node.
    ///
    /// # Errors
    ///
    /// If no node listens there.
    pub fn connect(
        system: &str,
        node: NodeId,
        address: SocketAddr,
        codec: Codec<M>,
    ) -> io::Result<Client<M>> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
        stream.set_nodelay(true)?;
        // The port distinguishes clients of one machine, and the time those of several machines.
        let port = u32::from(stream.local_addr()?.port());
        let time = crate::time::micros();
        let id = NodeId(CLIENTS | (time as u32 & 0x7fff) << 16 | port);
        let identity =
            Identity { system: system.to_owned(), node: id, incarnation: time, is_client: true };
        stream.write_all(&identity.preface())?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Client { stream, reader, codec, id, node, clock: Clock::default(), sent: 0 })
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    ///
    /// If the connection ends or no answer comes in time; the request may have been carried out.
    pub fn call(&mut self, request: &M, patience: Duration) -> io::Result<M> {
        let number = self.sent;
        self.send(request, Tag::Request(number))?;
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            let packet = Packet::read(&mut self.reader).map_err(|error| match error.kind() {
                // The kind of error after a timeout depends on the operating system.
                io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
                _ => error,
            })?;
            let Some(packet) = packet else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            // Answers to earlier calls that timed out are skipped.
            if packet.tag == Tag::Reply(number) {
                return (self.codec.decode)(&packet.message)
                    .map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
    }

    /// Sends a message without waiting for an answer.
    ///
    /// # Errors
    ///
    /// If the connection ends.
    pub fn tell(&mut self, message: &M) -> io::Result<()> {
        self.send(message, Tag::None)
    }

    fn send(&mut self, msg: &M, tag: Tag) -> io::Result<()> {
        let envelope = Envelope { at: self.clock.tick(), sender: self.id, seq: self.sent };
        self.sent += 1;
        let mut message = Vec::new();
        (self.codec.encode)(msg, &mut message);
        self.stream.write_all(&Packet { envelope, to: self.node, tag, message }.frame())
    }
}
