//! The crate as its users see it.

mod cuts; // every algorithm on cuts against brute force
mod native; // the native format: round trips, crashes, bad input
mod random; // seeded random values and executions
mod values; // values: JSON, differences, order
