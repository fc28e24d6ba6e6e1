//! Tests of the crate through its public interface, on real sockets and files.

mod assertion; // snapshots at an agreed moment, clocks that disagree
mod checker; // a minimal checker
mod folder; // temporary folders
mod host; // nodes on sockets and disks, and the bytes that are sent to them
mod probe; // observations, loss, reconnecting, refusals
mod recording; // segments, a full disk, merging
