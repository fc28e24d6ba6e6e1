//! Bullet' (Kostić and others, 2005) over RanSub (2003), with the two performance bugs that MacePC
//! found in it (FSE 2010, section 5.1).
//!
//! A source has a file of many blocks, and every other node wants it. A node asks the source for
//! candidates, and asks these to become its senders; a sender accepts a limited number of receivers
//! and rejects the others. Senders inform their receivers by *diffs* about the blocks that they
//! have received since the last diff, and receivers request blocks. Every five seconds RanSub gives
//! each node a random subset of all nodes, from which the node replaces senders that have nothing
//! for it.
//!
//! There are two transports. The control transport buffers everything that is sent. The data
//! transport buffers one block, so that requests can still change what is sent next; a block that
//! finds the buffer full is sent again by a timer.
//!
//! The first bug: diffs use the data transport, and a diff that finds the buffer full is lost,
//! although the sender counts its blocks as announced. A receiver that never hears who has its last
//! blocks waits for RanSub. The second bug: a node that all candidates reject waits for RanSub as
//! well. The fix is that a rejection names the rejecting node's own peers.
//!
//! There is no public source of Bullet'. Details that the paper omits were chosen to match its
//! figures: blocks of 16 and 100 KB, two outstanding requests to each sender, first for blocks that
//! no other sender has, a new diff when nothing more can be requested, and at most five senders,
//! six receivers and five candidates. RanSub's tree is given, not built. With 27 Mbit/s, at which
//! 20 MB take the 9 to 10 s of the paper, normal executions end at RanSub's second epoch too; 40
//! Mbit/s show the difference.
//!
//! - `node`: a node; `blocks`: sets of blocks; `ransub`: random subsets; `wire`: messages.

mod blocks;
mod node;
mod ransub;
mod wire;

use everhold::prelude::*;
use everhold::timed::{Link, Net, Timed, Transport};
use everhold::{Network, System};

pub use blocks::Blocks;
pub use node::Bullet;
pub use ransub::EPOCH;
pub use wire::{Msg, size};

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bug {
    /// No bug.
    None,
    /// Diffs use the data transport, and are lost when its buffer is full.
    DiffsWithData,
    /// A rejection names no other nodes.
    BareRejection,
}

/// The file that is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// The number of blocks.
    pub blocks: u32,
    /// The size of each block.
    pub block_bytes: u32,
}

impl File {
    /// The file of the paper's first experiment: 20 MB.
    pub const LARGE: File = File { blocks: 200, block_bytes: 100_000 };
    /// The file of the paper's second experiment: 2 MB.
    pub const SMALL: File = File { blocks: 125, block_bytes: 16_000 };
}

/// The node that has the file, and the root of RanSub's tree.
pub const SOURCE: NodeId = NodeId(0);

/// A system of `nodes` nodes, including the source.
pub fn system(
    nodes: usize,
    file: File,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.network(Network::Streams);
        system.nodes("bullet", nodes, |number| Bullet::new(number, nodes, file, bug));
        system.sometimes("every node has the file", |view| {
            view.all::<Bullet>().all(|(_, node)| node.is_complete())
        });
    }
}

/// The network of the experiments. The bandwidth is not the paper's default, with which 20 MB take
/// longer than it reports.
#[must_use]
pub fn net(file: File, bug: Bug, mbits: f64) -> Net {
    let data: &[&str] = if bug == Bug::DiffsWithData { &["Block", "Diff"] } else { &["Block"] };
    Net::default()
        .link(Link::default().mbits(mbits))
        .transport(Transport::stream("control"))
        .transport(
            Transport::stream("data")
                .bytes_max(u64::from(file.block_bytes))
                .carries(data.iter().copied()),
        )
}

/// The system until every node has the file.
#[must_use]
pub fn timed(nodes: usize, file: File, bug: Bug, mbits: f64) -> Timed<Msg> {
    Timed::new(system(nodes, file, bug))
        .network(net(file, bug, mbits))
        .durations(crate::timed::handlers())
        .message_size(size)
        .stop_when_each(Bullet::is_complete)
        .unchecked()
}
