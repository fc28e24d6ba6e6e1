//! The crate as its users see it.

mod cuts; // every algorithm on cuts against brute force
mod export; // other formats, and back
#[cfg(feature = "import")]
mod import; // logs of other tools
mod native; // the native format: round trips, crashes, bad input
mod random; // seeded random values and executions
mod values; // values: JSON, differences, order
mod wire; // between probes and checkers: round trips, noise
