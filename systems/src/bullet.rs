//! Bullet' (Kostić and others, 2005) over RanSub (2003), with the two performance bugs that MacePC
//! found in it (FSE 2010, section 5.1).
//!
//! A source has a file of many blocks, and every other node wants it. A node asks the source for
//! candidates and those to become its senders; a sender takes a limited number of receivers and
//! rejects others. Senders tell their receivers by *diffs* which blocks they have got since the
//! last one, receivers request blocks. Every five seconds RanSub brings each node a random subset
//! of all nodes, from which it takes new senders in place of those that have nothing for it.
//!
//! There are two transports. The one for control buffers as much as is sent. The one for data
//! buffers one block, so that requests can still change what is sent next; a block that finds it
//! full is sent again by a timer.
//!
//! The first bug: diffs travel with the data, and one that finds the buffer full is gone, while
//! the sender counts its blocks as told. A receiver that never hears who has its last blocks
//! waits for RanSub. The second bug: a node that all candidates reject waits for RanSub as well.
//! The fix is to name one's own peers when rejecting.
//!
//! There is no public source of Bullet'. What the paper does not say was chosen here, looking at
//! its figures: blocks of 16 and 100 KB, two requests under way to each sender, first for blocks
//! that no other sender has, a new diff when nothing more can be requested; five senders, six
//! receivers and five candidates at most. RanSub's tree is given, not built. With 27 Mbit/s, where
//! 20 MB take the 9 to 10 s of the paper, normal executions end at RanSub's second epoch too; 40
//! show the difference.
//!
//! - `node`: a node; `blocks`: sets of blocks; `ransub`: random subsets; `wire`: messages.

mod blocks;
mod node;
mod ransub;
mod wire;

use everhold::prelude::*;
use everhold::timed::{Link, Net, Timed, Transport};

pub use blocks::Blocks;
pub use node::Bullet;
pub use ransub::EPOCH;
pub use wire::{Msg, size};

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// Diffs travel with the data, and are lost when the buffer is full.
    DiffsWithData,
    /// Who rejects a node does not name others.
    BareRejection,
}

/// What is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// How many blocks it has.
    pub blocks: u32,
    /// How large each of them is.
    pub block_bytes: u32,
}

impl File {
    /// The file of the paper's first experiment: 20 MB.
    pub const LARGE: File = File { blocks: 200, block_bytes: 100_000 };
    /// The file of the second: 2 MB.
    pub const SMALL: File = File { blocks: 125, block_bytes: 16_000 };
}

/// The node that has the file, and the root of RanSub's tree.
pub const SOURCE: NodeId = NodeId(0);

/// So many nodes, the source included.
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

/// The network of the experiments. Bandwidth is not the paper's default, with which 20 MB take
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

/// How long it takes until every node has the file.
#[must_use]
pub fn timed(nodes: usize, file: File, bug: Bug, mbits: f64) -> Timed<Msg> {
    Timed::new(system(nodes, file, bug))
        .network(net(file, bug, mbits))
        .durations(crate::timed::handlers())
        .message_size(size)
        .stop_when_each(Bullet::is_complete)
        .unchecked()
}
