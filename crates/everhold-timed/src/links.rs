//! The links that were used so far, found by sender, receiver and transport.

use everhold_node::NodeId;

/// Bits of a node in a link's key.
const NODE_BITS: u32 = 26;
/// A place without a link.
const VACANT: u32 = u32::MAX;
/// At most one place in so many is taken. More room would cost more memory than it saves searching:
/// with many links the table competes with everything else for the cache.
const ROOM: usize = 2;
/// Spreads a key over a mark.
const MARKS: u64 = 0x9E37_79B9_7F4A_7C15;
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
    /// A stream that was used since it last broke.
    pub(crate) open: bool,
}

impl LinkState {
    pub(crate) fn from(&self) -> NodeId {
        NodeId((self.key >> (NODE_BITS + 8)) as u32)
    }

    pub(crate) fn to(&self) -> NodeId {
        NodeId((self.key >> 8) as u32 & ((1 << NODE_BITS) - 1))
    }
}

/// All links, in the order of their first use, with an open table over their keys.
///
/// The table is a matrix of senders and receivers, folded if it is smaller than that: few nodes
/// have it without collisions, and many nodes that talk to few do not pay for all pairs.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    states: Vec<LinkState>,
    /// The number of a link; the bits that no number needs hold a mark of its key. With many links,
    /// looking at a state only to see that it is another one would be what a search costs.
    places: Vec<u32>,
    /// The bits of a row of the matrix.
    row: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { states: Vec::new(), places: vec![VACANT; FIRST_PLACES], row: 0 }
    }
}

impl Links {
    /// The number of a link that was used before.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let numbers = self.places.len() as u32 - 1;
        let (mut place, mark) = (self.place(key), mark(key, numbers));
        loop {
            let entry = self.places[place];
            if entry == VACANT {
                return None;
            }
            let link = entry & numbers;
            if entry & !numbers == mark && self.states[link as usize].key == key {
                return Some(link);
            }
            place = (place + 1) & numbers as usize;
        }
    }

    #[inline]
    pub(crate) fn get(&self, link: u32) -> &LinkState {
        &self.states[link as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, link: u32) -> &mut LinkState {
        &mut self.states[link as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LinkState> {
        self.states.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LinkState> {
        self.states.iter_mut()
    }

    /// The links from one node to another, one for each transport.
    pub(crate) fn between(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = &LinkState> {
        self.states.iter().filter(move |link| link.from() == from && link.to() == to)
    }

    pub(crate) fn add(&mut self, state: LinkState) -> u32 {
        self.states.push(state);
        if self.states.len() * ROOM > self.places.len() {
            let places = self.places.len() * 2;
            self.places.clear();
            self.places.resize(places, VACANT);
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
        self.places.fill(VACANT);
    }

    fn put(&mut self, link: u32) {
        let numbers = self.places.len() as u32 - 1;
        let key = self.states[link as usize].key;
        let mut place = self.place(key);
        while self.places[place] != VACANT {
            place = (place + 1) & numbers as usize;
        }
        self.places[place] = mark(key, numbers) | link;
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        let (from, to) = (key >> (NODE_BITS + 8), (key >> 8) & ((1 << NODE_BITS) - 1));
        let transport = (key & 0xFF) * TRANSPORTS_APART;
        ((from << self.row) + to + transport) as usize & (self.places.len() - 1)
    }
}

/// The bits beside those of the numbers. A number is at most half of `numbers`, so no entry is all
/// ones.
#[inline]
fn mark(key: u64, numbers: u32) -> u32 {
    (key.wrapping_mul(MARKS) >> 32) as u32 & !numbers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use everhold_sim::rng::Rng;

    /// Against a map, with few and with many nodes, on two transports.
    #[test]
    fn it_is_a_map() {
        for (nodes, links) in [(2, 20), (20, 2_000), (3_000, 20_000)] {
            let mut rng = Rng::new(u64::from(nodes));
            let (mut table, mut map) = (Links::default(), BTreeMap::new());
            table.clear(nodes as usize);
            for _ in 0..links {
                let mut node = || NodeId(rng.below(nodes));
                let (from, to) = (node(), node());
                let key = key(from, to, rng.below(2) as u8);
                assert_eq!(table.find(key), map.get(&key).copied());
                map.entry(key).or_insert_with(|| {
                    let (last_arrival, bytes, messages, sent) = (0, 0, 0, 0);
                    let (way, changed, open) = (0, false, false);
                    let state =
                        LinkState { key, last_arrival, bytes, messages, sent, way, changed, open };
                    table.add(state)
                });
            }
            assert!(map.iter().all(|(key, link)| table.find(*key) == Some(*link)));
        }
    }
}
