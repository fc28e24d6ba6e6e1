//! The ring of keys.

use everhold::Value;
use everhold::prelude::*;

/// The number of keys.
const RING: u64 = 1 << 32;

/// The position of a node on the ring: a hash of its number (the finalizer of MurmurHash3).
#[must_use]
pub fn key(node: NodeId) -> u32 {
    let mut hash = node.0.wrapping_add(1);
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// The clockwise distance from one key to another; from a key to itself it is one full turn.
pub(super) fn ahead(from: u32, to: u32) -> u64 {
    match to.wrapping_sub(from) {
        0 => RING,
        distance => u64::from(distance),
    }
}

/// The keys between those of two nodes; all keys if the two nodes are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The node just before the first key.
    pub after: NodeId,
    /// The node just behind the last key.
    pub before: NodeId,
}

impl Range {
    /// Whether the node's key is in the range.
    #[must_use]
    pub fn has(self, node: NodeId) -> bool {
        let distance = |to| ahead(key(self.after), key(to));
        self.after == self.before || distance(node) < distance(self.before)
    }
}

/// The function `in_range(node, range)` of the property language.
pub(super) fn in_range(arguments: &[Value]) -> Result<Value, String> {
    let [Value::Node(node), range] = arguments else {
        return Err("in_range takes a node and a range".to_owned());
    };
    match (range.get("after"), range.get("before")) {
        (Some(Value::Node(after)), Some(Value::Node(before))) => {
            Ok(Value::Bool(Range { after: *after, before: *before }.has(*node)))
        }
        _ => Err("a range is a record of two nodes, `after` and `before`".to_owned()),
    }
}
