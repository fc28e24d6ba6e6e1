//! The messages between nodes.

use everhold::prelude::*;

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// To the source: who could send to me?
    Hello,
    /// The source's answer.
    Candidates(Vec<NodeId>),
    /// Be my sender.
    Join,
    /// I am your sender, and have these blocks.
    JoinAccept(Vec<u32>),
    /// I have enough receivers.
    JoinReject {
        /// The fix: others to ask.
        peers: Vec<NodeId>,
    },
    /// I do not need you any more.
    Leave,
    /// Send me a block.
    Request {
        /// The block.
        block: u32,
    },
    /// I know of nothing more that you have for me: send me a diff.
    More,
    /// Blocks that I have got since the last diff.
    Diff(Vec<u32>),
    /// A block. Its content is left out, but its size counts.
    Block {
        /// The block.
        block: u32,
        /// Its size.
        bytes: u32,
    },
    /// RanSub, down the tree: a random subset of all nodes.
    Distribute {
        /// The epoch.
        epoch: u32,
        /// The subset.
        members: Vec<NodeId>,
        /// The number of nodes that it represents.
        count: u32,
    },
    /// RanSub, up the tree: a random subset of the nodes below.
    Collect {
        /// The epoch.
        epoch: u32,
        /// The subset.
        members: Vec<NodeId>,
        /// The number of nodes that it represents.
        count: u32,
    },
}

/// The size of a message in bytes.
#[must_use]
pub fn size(msg: &Msg) -> u64 {
    let content = match msg {
        Msg::Block { bytes, .. } => return u64::from(*bytes),
        Msg::Candidates(nodes) | Msg::JoinReject { peers: nodes } => 8 * nodes.len(),
        Msg::Distribute { members, .. } | Msg::Collect { members, .. } => 8 * members.len(),
        Msg::JoinAccept(blocks) | Msg::Diff(blocks) => 4 * blocks.len(),
        Msg::Hello | Msg::Join | Msg::Leave | Msg::Request { .. } | Msg::More => 0,
    };
    40 + content as u64
}
