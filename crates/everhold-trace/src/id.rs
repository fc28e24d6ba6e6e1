//! Names of the participants.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The serde name under which a [`NodeId`] travels, so that a value keeps it apart from a number.
pub const NODE_ID_TOKEN: &str = "$everhold::NodeId";

/// A participant: the index of a node in its system, in order of creation.
///
/// ```
/// use everhold_trace::NodeId;
/// assert_eq!(NodeId(3).to_string(), "n3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The position of this node in tables indexed by node.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(NODE_ID_TOKEN, &self.0)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(NodeId)
    }
}
