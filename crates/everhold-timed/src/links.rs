//! The table of the links used so far, by sender, receiver and transport.

use everhold_node::NodeId;

/// The number of bits of a node's number in a link's key.
const NODE_BITS: u32 = 26;
/// An entry of the table without a link.
const VACANT: u32 = u32::MAX;
/// The table has at least this many places per link. More room would cost more memory than it saves
/// in searching: with many links, the table competes with everything else for the cache.
const ROOM: usize = 2;
/// A multiplier that spreads keys over the marks.
const MARKS: u64 = 0x9E37_79B9_7F4A_7C15;
const FIRST_PLACES: usize = 64;
/// The distance between the matrices of two transports; odd, so that they fold differently.
const TRANSPORTS_APART: u64 = 0x2545_F491;

/// Returns the key of a link. It is below 2^60, so no other stream of draws has the same key.
#[inline]
pub(crate) fn key(from: NodeId, to: NodeId, transport: u8) -> u64 {
    (u64::from(from.0) << (NODE_BITS + 8)) | (u64::from(to.0) << 8) | u64::from(transport)
}

/// The state of a link in an execution.
#[derive(Clone, Debug)]
pub(crate) struct LinkState {
    pub(crate) key: u64,
    /// The arrival time of the last message on an ordered transport.
    pub(crate) last_arrival: u64,
    /// The number of bytes under way.
    pub(crate) bytes: u64,
    /// The number of messages under way.
    pub(crate) messages: u32,
    /// The number of messages sent so far.
    pub(crate) sent: u32,
    /// The number of the way (the settings between two nodes) that its messages take.
    pub(crate) way: u32,
    /// Whether some of its draws are changed.
    pub(crate) changed: bool,
    /// Whether this is a stream that was used since it last broke.
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

/// All links in the order of their first use, with a hash table over their keys that uses open
/// addressing.
///
/// The table is laid out as a matrix of senders and receivers, which is folded if the table is
/// smaller than the matrix. Few nodes have no collisions, and many nodes that talk to few others do
/// not pay for all pairs.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    states: Vec<LinkState>,
    /// The number of a link in each place; the bits that no number needs hold a mark, a hash of the
    /// key. With many links, most of the cost of a search would be to load a link's state only to
    /// see that it is the wrong one.
    places: Vec<u32>,
    /// The number of bits of a row of the matrix.
    row: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links { states: Vec::new(), places: vec![VACANT; FIRST_PLACES], row: 0 }
    }
}

impl Links {
    /// Returns the number of a link that was used before.
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

    /// Returns the links from one node to another, one for each transport.
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

    /// Forgets all links, for an execution with about this many nodes.
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

/// Returns the bits beside those of the numbers. A number is at most half of `numbers`, so no entry
/// has all bits set.
#[inline]
fn mark(key: u64, numbers: u32) -> u32 {
    (key.wrapping_mul(MARKS) >> 32) as u32 & !numbers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use everhold_sim::rng::Rng;

    /// Compares with a map, with few and with many nodes, on two transports.
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
