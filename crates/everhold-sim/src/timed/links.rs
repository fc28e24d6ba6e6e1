//! The links that were used so far, found by sender, receiver and transport.

use everhold_node::NodeId;

/// Bits of a node in a link's key.
const NODE_BITS: u32 = 26;
/// No link.
const NONE: u32 = u32::MAX;
const FIRST_PLACES: usize = 64;
/// How far apart the matrices of two transports begin; odd, so that they fold differently.
const TRANSPORTS_APART: u64 = 0x2545_F491;

/// The key of a link. Below 2^60, so that no other stream of draws has it.
#[inline]
pub(crate) fn key(from: NodeId, to: NodeId, transport: u8) -> u64 {
    (u64::from(from.0) << (NODE_BITS + 8)) | (u64::from(to.0) << 8) | u64::from(transport)
}

/// What an execution knows of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkState {
    pub(crate) key: u64,
    /// When the last message arrives that keeps its place.
    pub(crate) last_arrival: u64,
    /// Bytes that have not arrived.
    pub(crate) bytes: u64,
    /// Messages that have not arrived.
    pub(crate) messages: u32,
    /// Messages sent so far.
    pub(crate) sent: u32,
    /// The number of its way.
    pub(crate) way: u32,
    /// Some of its draws are changed.
    pub(crate) changed: bool,
}

/// All links, in the order of their first use, with an open table over their keys.
///
/// The table is a matrix of senders and receivers, folded if it is smaller than that: few nodes
/// have it without collisions, and many nodes that talk to few do not pay for all pairs.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    states: Vec<LinkState>,
    places: Vec<u32>,
    /// The bits of a row of the matrix.
    row: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { states: Vec::new(), places: vec![NONE; FIRST_PLACES], row: 0 }
    }
}

impl Links {
    /// The number of a link that was used before.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let mut place = self.place(key);
        loop {
            let link = self.places[place];
            if link == NONE {
                return None;
            }
            if self.states[link as usize].key == key {
                return Some(link);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, link: u32) -> &mut LinkState {
        &mut self.states[link as usize]
    }

    pub(crate) fn add(&mut self, state: LinkState) -> u32 {
        self.states.push(state);
        if self.states.len() * 2 > self.places.len() {
            let places = self.places.len() * 2;
            self.places.clear();
            self.places.resize(places, NONE);
            (0..self.states.len()).for_each(|link| self.put(link as u32));
        } else {
            self.put(self.states.len() as u32 - 1);
        }
        self.states.len() as u32 - 1
    }

    /// Forgets all links, for an execution with about so many nodes.
    pub(crate) fn clear(&mut self, nodes: usize) {
        self.row = nodes.next_power_of_two().trailing_zeros();
        self.states.clear();
        self.places.fill(NONE);
    }

    fn put(&mut self, link: u32) {
        let mut place = self.place(self.states[link as usize].key);
        while self.places[place] != NONE {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = link;
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        let (from, to) = (key >> (NODE_BITS + 8), (key >> 8) & ((1 << NODE_BITS) - 1));
        let transport = (key & 0xFF) * TRANSPORTS_APART;
        ((from << self.row) + to + transport) as usize & (self.places.len() - 1)
    }
}
