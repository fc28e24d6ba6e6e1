//! Nodes, which users write, and the context through which they meet the world.
//!
//! A node is ordinary Rust in one of two forms. A [`Node`] has handlers and is the natural
//! wrapper for a state machine; an *async node* is an `async` program over an [`AsyncCx`] and is
//! the natural form for a protocol that is a sequence of requests. Everything that is not a
//! function of the node's own state goes through the context, so the same node runs under a
//! strategy, on a virtual clock, or on real sockets: whoever implements [`Runtime`] decides.
//!
//! In reading order:
//!
//! - [`node`]: the [`Node`] trait.
//! - [`context`]: [`Cx`], what a handler may do.
//! - [`task`]: [`AsyncCx`], the same for async nodes, and their small executor.
//! - [`timer`], [`disk`], [`monitor`], [`random`]: what the context hands out.
//! - [`encoded`]: messages that are bytes.
//! - [`volume`]: the files under a disk, and what of them a crash can leave.
//! - [`runtime`]: the seam between nodes and whatever runs them.
//! - [`process`]: a node with its type erased, as a runtime holds it.
//! - [`fingerprint`]: hashes and names of serialised values, without allocating.

pub mod context;
pub mod disk;
pub mod encoded;
pub mod fingerprint;
pub mod monitor;
pub mod node;
pub mod process;
pub mod random;
pub mod runtime;
pub mod task;
pub mod timer;
pub mod volume;
pub mod weights;

pub use context::Cx;
pub use disk::{Disk, DiskError, DiskUse};
pub use encoded::{Codec, Encoded};
pub use everhold_trace::NodeId;
pub use monitor::Monitor;
pub use node::{Message, Node};
pub use process::{Blueprint, Process, TaskId, Waiting};
pub use random::{Choices, Random};
pub use runtime::{Handle, Runtime, Tag, Ticket};
pub use task::{AsyncCx, Either, Elapsed};
pub use timer::{Time, Timer};
pub use volume::CrashModel;
pub use weights::Weights;
