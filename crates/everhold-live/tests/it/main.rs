//! The crate as its users see it, on real sockets and files.

mod assertion; // snapshots at an agreed moment, clocks that disagree
mod checker; // a checker of a few lines
mod folder; // temporary folders
mod host; // nodes on sockets and disks, and what they are sent
mod probe; // observations, loss, reconnecting, refusals
mod recording; // segments, a full disk, merging
