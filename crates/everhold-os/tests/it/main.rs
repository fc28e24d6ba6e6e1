//! Tests of the model: against the real kernel, and of what a single kernel cannot show.

mod crashes;
mod differences;
mod files;
mod hosts;
mod machine;
mod random;
mod sockets;
mod threads;
