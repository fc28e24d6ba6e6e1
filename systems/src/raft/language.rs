//! The same properties in the property language: text instead of closures and monitors.

use everhold::System;
use everhold::prelude::*;

use super::wire::Msg;
use super::{Bug, environment};

/// The path of the file, so that an error in it is reported with its place.
const PROPERTIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/raft/raft.prop");

/// Does the same as [`system`](super::system), with the properties and goals of `raft.prop`.
///
/// These refer to states only, and so detect less than the monitors of the typed version: a peer
/// that led in a term and no longer does, or that restarted since it applied an entry, is not
/// remembered.
pub fn system_in_language(
    peers: usize,
    bug: Bug,
    faults: Faults,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(system, peers, bug, &faults);
        system.property_file(PROPERTIES);
    }
}
