//! A way for observations of a service to reach a test in the same process at once, instead of a
//! checker elsewhere.

use std::sync::OnceLock;

use crate::id::NodeId;
use crate::wire::What;

/// Takes what a node shows.
pub type Tap = fn(NodeId, What);

static TAP: OnceLock<Tap> = OnceLock::new();

/// Lets all probes that start from now on in this program show everything to `tap`, and to nobody
/// else. Only the first call has an effect.
pub fn set(tap: Tap) {
    // A program that runs again in the same process sets the same tap.
    let _ = TAP.set(tap);
}

/// The tap, if there is one.
#[must_use]
pub fn get() -> Option<Tap> {
    TAP.get().copied()
}
