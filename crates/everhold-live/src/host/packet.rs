//! The messages between nodes of a system, on a stream or in a datagram.
//!
//! ```text
//! stream    preface, then frames: length (u32, little endian), packet
//! datagram  "EVHD", then a packet
//! preface   "EVHN", version (u8), system (u8 length, text), node (u32), incarnation (u64),
//!           1 for a client, else 0
//! packet    envelope, receiver, tag (0, 1 request, 2 answer), its number, message
//! ```

use std::io::{self, Read};

use everhold_node::Tag;
use everhold_trace::NodeId;

use crate::probe::Envelope;
use crate::probe::envelope::{put_number, take_number};

/// Since version 2, calls are numbered with 64 bits instead of 32.
const VERSION: u8 = 2;
const STREAM: [u8; 4] = *b"EVHN";
const DATAGRAM: [u8; 4] = *b"EVHD";

/// The longest packet on a stream.
pub(super) const PACKET_MAX: usize = 16 << 20;
/// The longest datagram, a little below what UDP can carry.
pub(super) const DATAGRAM_MAX: usize = 60_000;

/// The sender of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) system: String,
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
    pub(super) is_client: bool,
}

impl Identity {
    pub(super) fn preface(&self) -> Vec<u8> {
        let system = &self.system.as_bytes()[..self.system.len().min(255)];
        let mut bytes = STREAM.to_vec();
        bytes.extend_from_slice(&[VERSION, system.len() as u8]);
        bytes.extend_from_slice(system);
        bytes.extend_from_slice(&self.node.0.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.push(self.is_client.into());
        bytes
    }

    /// Reads a preface; the error describes the problem.
    pub(super) fn read(stream: &mut impl Read) -> Result<Identity, String> {
        let io = |error: io::Error| format!("no preface ({error})");
        let mut head = [0; 6];
        stream.read_exact(&mut head).map_err(io)?;
        let [a, b, c, d, version, length] = head;
        if [a, b, c, d] != STREAM {
            return Err("it does not speak Everhold's protocol for nodes".to_owned());
        }
        if version != VERSION {
            return Err(format!("it speaks version {version} for nodes, this host {VERSION}"));
        }
        let mut rest = vec![0; usize::from(length) + 13];
        stream.read_exact(&mut rest).map_err(io)?;
        let (system, rest) = rest.split_at(length.into());
        let system = String::from_utf8(system.to_owned()).map_err(|_| "its system is not text")?;
        let node = u32::from_le_bytes(rest[..4].try_into().expect("four bytes"));
        let incarnation = u64::from_le_bytes(rest[4..12].try_into().expect("eight bytes"));
        Ok(Identity { system, node: NodeId(node), incarnation, is_client: rest[12] == 1 })
    }
}

/// A message with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) envelope: Envelope,
    pub(super) to: NodeId,
    pub(super) tag: Tag,
    pub(super) message: Vec<u8>,
}

impl Packet {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.envelope.to_bytes());
        put_number(bytes, self.to.0.into());
        let (kind, number) = match self.tag {
            Tag::None => (0, 0),
            Tag::Request(number) => (1, number),
            Tag::Reply(number) => (2, number),
        };
        bytes.push(kind);
        put_number(bytes, number);
        bytes.extend_from_slice(&self.message);
    }

    pub(super) fn frame(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        self.put(&mut bytes);
        let length = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    pub(super) fn datagram(&self) -> Vec<u8> {
        let mut bytes = DATAGRAM.to_vec();
        self.put(&mut bytes);
        bytes
    }

    pub(super) fn from_datagram(bytes: &[u8]) -> Option<Packet> {
        Packet::parse(bytes.strip_prefix(&DATAGRAM)?)
    }

    /// Reads the next packet of a stream; returns `None` at its end.
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Option<Packet>> {
        let mut length = [0; 4];
        match stream.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > PACKET_MAX {
            let text = format!("a packet of {length} bytes is announced, {PACKET_MAX} are allowed");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        // The buffer grows as bytes arrive, so an announced length alone allocates no memory.
        let mut bytes = Vec::new();
        stream.take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Ok(None);
        }
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "a damaged packet");
        Packet::parse(&bytes).map(Some).ok_or_else(malformed)
    }

    fn parse(bytes: &[u8]) -> Option<Packet> {
        let (envelope, mut rest) = Envelope::from_bytes(bytes).ok()?;
        let to = NodeId(u32::try_from(take_number(&mut rest).ok()?).ok()?);
        let (kind, mut rest) = rest.split_first()?;
        let number = take_number(&mut rest).ok()?;
        let tag = match kind {
            0 => Tag::None,
            1 => Tag::Request(number),
            2 => Tag::Reply(number),
            _ => return None,
        };
        Some(Packet { envelope, to, tag, message: rest.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_trace::wire::Stamp;

    #[test]
    fn packets_and_prefaces_come_back_and_damage_is_noticed() {
        let identity = Identity {
            system: "bank".to_owned(),
            node: NodeId(7),
            incarnation: 3,
            is_client: true,
        };
        let preface = identity.preface();
        assert_eq!(Identity::read(&mut &preface[..]), Ok(identity));
        for length in 0..preface.len() {
            assert!(Identity::read(&mut &preface[..length]).is_err());
        }
        let envelope = Envelope { at: Stamp(9), sender: NodeId(7), seq: 1 << 40 };
        for tag in [Tag::None, Tag::Request(7), Tag::Reply(u64::MAX)] {
            let packet = Packet { envelope, to: NodeId(3), tag, message: b"hello".to_vec() };
            assert_eq!(Packet::read(&mut &packet.frame()[..]).unwrap(), Some(packet.clone()));
            assert_eq!(Packet::from_datagram(&packet.datagram()), Some(packet.clone()));
            for length in 0..packet.frame().len() {
                assert_eq!(Packet::read(&mut &packet.frame()[..length]).unwrap(), None);
            }
        }
        assert!(Packet::read(&mut &[0xff; 32][..]).is_err());
        assert!(Packet::read(&mut &[4, 0, 0, 0, 9, 9, 9, 9][..]).is_err());
        assert_eq!(Packet::from_datagram(b"EVHD"), None);
    }
}
