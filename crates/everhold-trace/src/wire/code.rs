//! The bytes that stand for kinds; shared by both directions.

/// Kinds of frames.
pub(super) mod frame {
    pub(in super::super) const GREETING: u8 = 1;
    pub(in super::super) const HELLO: u8 = 2;
    pub(in super::super) const BATCH: u8 = 3;
    pub(in super::super) const HEARTBEAT: u8 = 4;
    pub(in super::super) const BYE: u8 = 5;
    pub(in super::super) const ACK: u8 = 6;
    pub(in super::super) const REFUSE: u8 = 7;
    pub(in super::super) const PING: u8 = 8;
    pub(in super::super) const PONG: u8 = 9;
    pub(in super::super) const CLOCK: u8 = 10;
}

/// Kinds of records; the high bit says that cursors follow.
pub(super) mod what {
    pub(in super::super) const OBSERVE: u8 = 1;
    pub(in super::super) const STATE: u8 = 2;
    pub(in super::super) const ADD: u8 = 3;
    pub(in super::super) const REMOVE: u8 = 4;
    pub(in super::super) const SEND: u8 = 5;
    pub(in super::super) const START: u8 = 6;
    pub(in super::super) const DELIVER: u8 = 7;
    pub(in super::super) const TIMER: u8 = 8;
    pub(in super::super) const INPUT: u8 = 9;
    pub(in super::super) const CRASH: u8 = 10;
    pub(in super::super) const RESTART: u8 = 11;
    pub(in super::super) const LOCAL: u8 = 12;
    pub(in super::super) const NOTE: u8 = 13;
    pub(in super::super) const REFRESH: u8 = 14;
    pub(in super::super) const WHOLE: u8 = 15;
    pub(in super::super) const CURSORS: u8 = 0x80;
}

/// Kinds of values.
pub(super) mod value {
    pub(in super::super) const NULL: u8 = 0;
    pub(in super::super) const FALSE: u8 = 1;
    pub(in super::super) const TRUE: u8 = 2;
    pub(in super::super) const INT: u8 = 3;
    pub(in super::super) const FLOAT: u8 = 4;
    pub(in super::super) const TEXT: u8 = 5;
    pub(in super::super) const BYTES: u8 = 6;
    pub(in super::super) const LIST: u8 = 7;
    pub(in super::super) const SET: u8 = 8;
    pub(in super::super) const MAP: u8 = 9;
    pub(in super::super) const RECORD: u8 = 10;
    pub(in super::super) const VARIANT: u8 = 11;
    pub(in super::super) const NODE: u8 = 12;
}

/// Every greeting and hello begins so, in every version.
pub(super) const MAGIC: [u8; 4] = *b"EVHD";

use super::Refusal;

impl Refusal {
    pub(super) fn code(self) -> u8 {
        match self {
            Refusal::Version => 1,
            Refusal::Secret => 2,
            Refusal::NodeInUse => 3,
            Refusal::System => 4,
            Refusal::Garbage => 5,
            Refusal::Busy => 6,
            Refusal::Other(code) => code,
        }
    }

    pub(super) fn from_code(code: u8) -> Refusal {
        match code {
            1 => Refusal::Version,
            2 => Refusal::Secret,
            3 => Refusal::NodeInUse,
            4 => Refusal::System,
            5 => Refusal::Garbage,
            6 => Refusal::Busy,
            other => Refusal::Other(other),
        }
    }
}
