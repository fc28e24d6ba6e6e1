//! What a probe or an agent tells a checker while the system runs.
//!
//! A stream of frames in both directions, over TCP or anything else that keeps order. The checker
//! speaks first with a [`Greeting`], the probe introduces itself with a [`Hello`], the checker
//! answers [`Frame::Ack`] or [`Frame::Refuse`], and then batches and heartbeats follow. One
//! connection is one incarnation of one node; a process with several nodes has several.
//!
//! From version 2 on a probe measures the checker's clock with [`Frame::Ping`] and
//! [`Frame::Pong`], stamps its records in the checker's time, and says in [`Frame::Clock`] how
//! exactly. A checker of version 2 takes probes of version 1, whose stamps are their own wall
//! clocks; a probe of version 1 refuses a checker of version 2 and says so.
//!
//! ```text
//! frame    length (u32, little endian, of what follows; at most FRAME_MAX), kind (u8), body
//! numbers  unsigned: base-128, low groups first; signed: zigzag first
//! text     its length in bytes, UTF-8
//! names    0 text            a name for this once
//!          1 text            a name that gets the next number of this connection, from 0
//!          2 + n             the name with number n
//! ```
//!
//! Loss is visible: batches are numbered by their sender from 1 and say how many records were
//! dropped before them, so a gap or a count makes the affected snapshots unknown.
//!
//! - [`Encoder`] and [`Decoder`] hold the names of one direction of one connection.
//! - [`Stamp`] is a hybrid logical clock in eight bytes, [`Clock`] the clock of one node.
//! - [`Shown`] is what records say of the state of their node; tuples become maps.
//! - An agent that sees a process only from outside has no clock in its messages; it places its
//!   records with [`Cursor`]s into byte streams instead.
//!
//! ```
//! use everhold_trace::wire::{Decoder, Encoder, Frame, Stamp};
//!
//! let mut bytes = Vec::new();
//! let heartbeat = Frame::Heartbeat { at: Stamp::from_micros(1_000_000) };
//! Encoder::default().frame(&heartbeat, &mut bytes)?;
//! let mut decoder = Decoder::default();
//! decoder.feed(&bytes);
//! assert_eq!(decoder.next_frame()?, Some(heartbeat));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use crate::event::EventKind;
use crate::{MessageId, NodeId, Value};

mod clock;
mod code;
mod decode;
mod encode;
#[cfg(feature = "secret")]
pub mod secret;
mod shown;

pub use clock::{Clock, ClockJump, Stamp};
pub use decode::{Decoder, WireError};
pub use encode::{Encoder, TooLarge};
pub use shown::{Shown, relate, relation, settle};

/// The version of the protocol. A peer of a version that is not understood is refused by name, not
/// by garbage.
pub const VERSION: u16 = 2;

/// The oldest version that is still understood.
pub const VERSION_MIN: u16 = 1;

/// The first version with [`Frame::Ping`], [`Frame::Pong`] and [`Frame::Clock`].
pub const VERSION_CLOCKS: u16 = 2;

/// The longest frame, its kind included.
pub const FRAME_MAX: usize = 1 << 20;

/// How deep a value may nest.
pub const DEPTH_MAX: usize = 64;

/// How many names a connection may number; later ones are spelled out each time.
pub const NAMES_MAX: usize = 1 << 16;

/// A variable, relation or label. Cheap to copy: a connection names many records alike.
pub type Name = Arc<str>;

/// One unit of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The checker's first words.
    Greeting(Greeting),
    /// The probe's first words.
    Hello(Hello),
    /// What happened at the node.
    Batch(Batch),
    /// Everything with a stamp below `at` has been sent: the node's clock passed it.
    Heartbeat {
        /// How far the node's clock has come.
        at: Stamp,
    },
    /// The node leaves for good, cleanly.
    Bye {
        /// Its last time.
        at: Stamp,
    },
    /// The probe asks what time it is. The checker answers at once.
    Ping {
        /// The probe's own time, which comes back in the answer.
        sent: Stamp,
    },
    /// What time it is.
    Pong {
        /// The time in the question.
        sent: Stamp,
        /// The checker's clock when the question was read.
        at: Stamp,
    },
    /// How well the node's stamps are known; it holds until the next such frame.
    Clock {
        /// How many microseconds the node's wall clock is ahead of the checker's. Its stamps are
        /// corrected by that; it is for people, who may want to set the clock.
        ahead: i64,
        /// How many microseconds a stamp may differ from the checker's time, either way.
        error: u64,
    },
    /// The checker has the batches up to this number; 0 accepts the [`Hello`].
    Ack {
        /// The last batch.
        batch: u64,
    },
    /// The checker will not listen, and says why. It closes the connection.
    Refuse {
        /// For programs.
        reason: Refusal,
        /// For people: what is wrong and what to do.
        text: String,
    },
}

/// What a checker says when somebody connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its version of the protocol.
    pub version: u16,
    /// A number never used before, to be proven with; all zero if no proof is asked for.
    pub nonce: [u8; 16],
}

/// Who connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its version of the protocol.
    pub version: u16,
    /// The system that the node belongs to; a checker may watch several.
    pub system: String,
    /// The node's number in its system.
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// Its kind: `server`, `client`.
    pub kind: String,
    /// Larger after every restart. The same node with the same incarnation, twice, is a mistake
    /// in somebody's configuration.
    pub incarnation: u64,
    /// How its records are placed in time.
    pub order: Ordering,
    /// That it knows the shared secret; see `secret` (feature `secret`).
    pub proof: Option<[u8; 32]>,
}

/// How the records of a connection are placed in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// By stamps that also travel in the system's own messages.
    #[default]
    Clocks,
    /// By cursors into byte streams, from an agent outside the process. Its stamps are its own
    /// readings of a clock that no message carries.
    Cursors,
}

/// Why a checker refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It speaks another version.
    Version,
    /// The proof is missing or wrong.
    Secret,
    /// A node with this number and incarnation is connected already, or a newer one is known.
    NodeInUse,
    /// It does not watch this system.
    System,
    /// What came is not the protocol.
    Garbage,
    /// It has too much to do.
    Busy,
    /// A reason of a later version.
    Other(u8),
}

/// Records of one node, in the order of their stamps as far as the sender knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The sender's count of batches, from 1.
    pub number: u64,
    /// How many records were dropped since the previous batch.
    pub dropped: u64,
    /// What happened.
    pub records: Vec<Record>,
}

/// One thing that happened at a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When, by the sender's clock.
    pub at: Stamp,
    /// Where in its byte streams, for agents; empty otherwise.
    pub cursors: Vec<Cursor>,
    /// What.
    pub what: What,
}

impl Record {
    /// A record placed by its stamp alone.
    #[must_use]
    pub fn new(at: Stamp, what: What) -> Record {
        Record { at, cursors: Vec::new(), what }
    }
}

/// How far a process has come in one byte stream: this record happens after every send whose
/// first byte the process had received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The stream, the same number at both ends.
    pub stream: u64,
    /// How many bytes had been sent.
    pub sent: u64,
    /// How many bytes had been received.
    pub received: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// These variables have these values from now on; the others keep theirs.
    Observe(Vec<(Name, Value)>),
    /// These are all the variables; those not named are gone.
    State(Vec<(Name, Value)>),
    /// A tuple begins to hold.
    Add(Tuple),
    /// A tuple ceases to hold.
    Remove(Tuple),
    /// A message leaves.
    Send {
        /// For whom; `None` if the sender cannot know.
        to: Option<NodeId>,
        /// The sender's count of messages.
        seq: u64,
        /// What kind of message it is.
        label: Name,
    },
    /// A line for people about the present step.
    Note(String),
    /// The node begins to tell everything that it shows.
    Refresh,
    /// It has: variables and tuples that were not told since [`What::Refresh`] are gone.
    Whole,
    /// A step begins: the records up to the next step belong to it. The arrival of a message is
    /// [`EventKind::Deliver`].
    Event(EventKind),
}

impl What {
    /// A message arrives.
    #[must_use]
    pub fn receive(message: MessageId) -> What {
        What::Event(EventKind::Deliver { message })
    }
}

/// A fact of a node: `holds(lock 7, exclusive)`. In the node's state a relation is a map from keys to
/// values; see [`Shown`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Which relation.
    pub relation: Name,
    /// What partitions it.
    pub key: Value,
    /// The rest: any value. Null cannot be told from no tuple in `n.holds[key]`; let a tuple whose key
    /// says all have the value true.
    pub value: Value,
}
