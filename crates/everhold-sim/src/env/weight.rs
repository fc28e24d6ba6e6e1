//! The memory that messages under way take, with everything that they point to.

use everhold_node::Message;
use everhold_node::fingerprint::size;

use super::Env;
use crate::halt::{self, UNDER_WAY_BYTES_MAX};

/// As long as messages are small, one in this many is weighed, for all of them.
const WEIGHED_ONE_IN: u64 = 4;
/// From this size on, every message is weighed.
const BIG: u64 = 64 << 10;
/// When so many bytes were sent, the messages that are still under way are weighed.
const SENT_MAX: u64 = (UNDER_WAY_BYTES_MAX / 4) as u64;

/// The bytes of the messages that were sent, as far as they were weighed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scales {
    messages: u64,
    is_big: bool,
    /// Since the messages under way were weighed.
    bytes: u64,
}

impl<M: Message> Env<M> {
    /// Ends the execution if a message, or all that are under way, take more memory than they
    /// should: a message may grow at every hop, or a node send more than others can take.
    #[inline]
    pub(super) fn weigh(&mut self, msg: &M) {
        self.scales.messages += 1;
        if self.scales.is_big || self.scales.messages.is_multiple_of(WEIGHED_ONE_IN) {
            self.weigh_one(msg);
        }
    }

    fn weigh_one(&mut self, msg: &M) {
        let bytes = size(msg);
        bound(bytes, "a message");
        let stands_for = if self.scales.is_big { 1 } else { WEIGHED_ONE_IN };
        self.scales.is_big |= bytes >= BIG;
        self.scales.bytes += bytes * stands_for;
        if self.scales.bytes > SENT_MAX {
            self.scales.bytes = 0;
            let under_way = self.state.flights.iter().filter_map(|flight| flight.msg.as_ref());
            bound(bytes + under_way.map(size).sum::<u64>(), "messages under way");
        }
    }
}

fn bound(bytes: u64, what: &str) {
    if bytes > UNDER_WAY_BYTES_MAX as u64 {
        halt::too_much(format!("sent {what} of {} MiB", bytes >> 20));
    }
}
