//! The messages between peers: calls, and answers that omit what the caller knows.

use std::fmt;

use everhold::prelude::*;
use raft::prelude::{Message, MessageType};
use serde::Serializer;
use serde::ser::SerializeStruct;

use super::store::LogEntry;

/// The identity of a call, which its answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The number of times that the caller had been started before the call.
    pub incarnation: u64,
    /// The number of the call in its incarnation, from zero.
    pub number: u64,
}

/// The messages between nodes.
#[derive(Clone)]
pub enum Msg {
    /// Driver to peer: put this command into the log.
    Propose(u64),
    /// Peer to peer: a message that asks for something.
    Request(Call, Box<Message>),
    /// Peer to peer: a message that answers a request. If it agrees, its term equals that of the
    /// request and is therefore omitted.
    Answer(Call, Box<Message>),
    /// Client to peer: put this command into the log, and answer when this peer has applied it.
    Write(u64),
    /// The answer: applied at this index.
    Written(u64),
    /// Client to peer: a request for all applied commands.
    Read,
    /// The answer: commands with their indices.
    Applied(Vec<(u64, u64)>),
}

/// Whether a message of the crate is an answer to another message.
pub(super) fn is_answer(message: &Message) -> bool {
    match message.msg_type {
        MessageType::MsgRequestVoteResponse
        | MessageType::MsgAppendResponse
        | MessageType::MsgHeartbeatResponse => true,
        MessageType::MsgRequestVote
        | MessageType::MsgAppend
        | MessageType::MsgHeartbeat
        | MessageType::MsgPropose => false,
        other => unreachable!("nobody asked the crate for what needs {other:?}"),
    }
}

/// Removes the term of an answer that agrees.
pub(super) fn shorten(message: &mut Message) {
    if !message.reject {
        message.term = 0;
    }
}

/// Restores the term of an answer: `term` is that of the call.
pub(super) fn complete(message: &mut Message, term: u64) {
    if !message.reject {
        message.term = term;
    }
}

fn name(message: &Message) -> (u32, &'static str) {
    match message.msg_type {
        MessageType::MsgPropose => (1, "Forward"),
        MessageType::MsgRequestVote => (2, "Vote"),
        MessageType::MsgRequestVoteResponse => (3, "Voted"),
        MessageType::MsgAppend => (4, "Append"),
        MessageType::MsgAppendResponse => (5, "Appended"),
        MessageType::MsgHeartbeat => (6, "Heartbeat"),
        MessageType::MsgHeartbeatResponse => (7, "Heard"),
        _ => (8, "Other"),
    }
}

/// One line for pictures; the serialised form has all fields.
impl fmt::Debug for Msg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, message) = match self {
            Msg::Propose(command) => return write!(f, "Propose({command})"),
            Msg::Write(command) => return write!(f, "Write({command})"),
            Msg::Written(index) => return write!(f, "Written({index})"),
            Msg::Read => return f.write_str("Read"),
            Msg::Applied(commands) => return write!(f, "Applied({} commands)", commands.len()),
            Msg::Request(call, message) | Msg::Answer(call, message) => (call, message),
        };
        write!(f, "{}(call {}.{}", name(message).1, call.incarnation, call.number)?;
        if message.term > 0 {
            write!(f, ", term {}", message.term)?;
        }
        if !message.entries.is_empty() {
            write!(f, ", {} entries", message.entries.len())?;
        }
        f.write_str(if message.reject { ", refused)" } else { ")" })
    }
}

/// Each kind of message of the crate is serialised as a variant of its own.
impl Serialize for Msg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Msg::Propose(command) => {
                serializer.serialize_newtype_variant("Msg", 0, "Propose", command)
            }
            Msg::Write(command) => serializer.serialize_newtype_variant("Msg", 9, "Write", command),
            Msg::Written(index) => {
                serializer.serialize_newtype_variant("Msg", 10, "Written", index)
            }
            Msg::Read => serializer.serialize_unit_variant("Msg", 11, "Read"),
            Msg::Applied(commands) => {
                serializer.serialize_newtype_variant("Msg", 12, "Applied", commands)
            }
            Msg::Request(call, message) | Msg::Answer(call, message) => {
                let (index, name) = name(message);
                let shown = Shown { call, message };
                serializer.serialize_newtype_variant("Msg", index, name, &shown)
            }
        }
    }
}

struct Shown<'a> {
    call: &'a Call,
    message: &'a Message,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shown { call, message } = self;
        let entries: Vec<LogEntry> = message.entries.iter().map(LogEntry::of).collect();
        let mut shown = serializer.serialize_struct("Message", 7)?;
        shown.serialize_field("call", &(call.incarnation, call.number))?;
        shown.serialize_field("term", &message.term)?;
        shown.serialize_field("index", &message.index)?;
        shown.serialize_field("log_term", &message.log_term)?;
        shown.serialize_field("commit", &message.commit)?;
        shown.serialize_field("entries", &entries)?;
        shown.serialize_field("reject", &message.reject)?;
        shown.end()
    }
}
