//! The same peers as processes that serve clients.

use everhold::prelude::*;
use everhold_live::host::{Codec, Config, Host};
use protobuf::Message as _;
use raft::prelude::Message;

use super::wire::{Call, Msg};
use super::{Bug, RaftNode};

/// Hosts some of the peers of a configured system in this process.
///
/// Timeouts differ between peers, so that elections end: the first peer waits 5 ticks, the next 7.
pub fn host(config: Config, here: &[NodeId], bug: Bug) -> Host<Msg> {
    let peers = config.nodes.len();
    let mut host = Host::new(config, codec());
    for id in here {
        let number = id.index();
        let make = move || RaftNode::new(number, peers, bug, 5 + 2 * number);
        host = host.node(*id, "raft", make);
    }
    host
}

/// The crate's messages are encoded in its own format, after a byte that gives the variant.
#[must_use]
pub fn codec() -> Codec<Msg> {
    Codec { encode, decode: |bytes| decode(bytes).ok_or_else(|| "it is not a message".to_owned()) }
}

fn encode(msg: &Msg, bytes: &mut Vec<u8>) {
    let number = |bytes: &mut Vec<u8>, kind, number: u64| {
        bytes.push(kind);
        bytes.extend_from_slice(&number.to_le_bytes());
    };
    match msg {
        Msg::Propose(command) => number(bytes, 0, *command),
        Msg::Request(call, message) => put_call(bytes, 1, call, message),
        Msg::Answer(call, message) => put_call(bytes, 2, call, message),
        Msg::Write(command) => number(bytes, 3, *command),
        Msg::Written(index) => number(bytes, 4, *index),
        Msg::Read => bytes.push(5),
        Msg::Applied(commands) => {
            bytes.push(6);
            for (index, command) in commands {
                bytes.extend_from_slice(&index.to_le_bytes());
                bytes.extend_from_slice(&command.to_le_bytes());
            }
        }
    }
}

fn put_call(bytes: &mut Vec<u8>, kind: u8, call: &Call, message: &Message) {
    bytes.push(kind);
    bytes.extend_from_slice(&call.incarnation.to_le_bytes());
    bytes.extend_from_slice(&call.number.to_le_bytes());
    bytes.extend(message.write_to_bytes().expect("the crate's messages can be written"));
}

fn decode(bytes: &[u8]) -> Option<Msg> {
    let (kind, rest) = bytes.split_first()?;
    let number = || rest.try_into().ok().map(u64::from_le_bytes);
    Some(match kind {
        0 => Msg::Propose(number()?),
        1 => take_call(rest).map(|(call, message)| Msg::Request(call, message))?,
        2 => take_call(rest).map(|(call, message)| Msg::Answer(call, message))?,
        3 => Msg::Write(number()?),
        4 => Msg::Written(number()?),
        5 if rest.is_empty() => Msg::Read,
        6 if rest.len() % 16 == 0 => Msg::Applied(rest.chunks(16).filter_map(pair).collect()),
        _ => return None,
    })
}

fn pair(bytes: &[u8]) -> Option<(u64, u64)> {
    let (first, second) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(second.try_into().ok()?)))
}

fn take_call(bytes: &[u8]) -> Option<(Call, Box<Message>)> {
    let (head, message) = bytes.split_at_checked(16)?;
    let (incarnation, number) = pair(head)?;
    let message = Message::parse_from_bytes(message).ok()?;
    Some((Call { incarnation, number }, Box::new(message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_damage_is_noticed() {
        let call = Call { incarnation: 2, number: 9 };
        let mut message = Message::default();
        message.set_term(7);
        message.set_to(3);
        let messages = [
            Msg::Propose(1),
            Msg::Request(call, Box::new(message.clone())),
            Msg::Answer(call, Box::new(message)),
            Msg::Write(u64::MAX),
            Msg::Written(3),
            Msg::Read,
            Msg::Applied(vec![(1, 2), (3, 4)]),
        ];
        for msg in messages {
            let mut bytes = Vec::new();
            encode(&msg, &mut bytes);
            assert_eq!(format!("{:?}", decode(&bytes)), format!("{:?}", Some(&msg)));
            bytes.truncate(bytes.len() - 1);
            assert_ne!(format!("{:?}", decode(&bytes)), format!("{:?}", Some(msg)));
        }
    }
}
