//! Services on crates of others, as one would write them without Everhold.

pub mod counter;
