//! Unmodified programs as simulated hosts.
//!
//! Each host is one node of the explorer: its threads are the node's tasks, what it sends are the
//! node's messages, its next deadline is the node's timer. So every strategy, fault, replay and
//! shrinking of the explorer works on hosts. The host's kernel is the model in `everhold-os`; the
//! machinery that lets a program meet it instead of the real one is `everhold-sys`.

mod body;
mod kernel;
mod link;
mod machine;
mod net;
mod operator;
mod packet;
mod process;
mod run;
mod shown;

pub use net::Net;
pub use operator::{Signal, signal, start};
pub use packet::Packet;
pub use run::{Hosts, Outcome, Preemption, hosts};
pub use shown::{Shown, show, shown};
