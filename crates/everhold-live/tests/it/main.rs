//! The crate as its users see it, on real sockets and files.

mod checker; // a checker of a few lines
mod folder; // temporary folders
mod probe; // observations, loss, reconnecting, refusals
mod recording; // segments, a full disk, merging
