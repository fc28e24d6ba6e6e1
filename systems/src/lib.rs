//! Case studies: real protocols with their bugs as values, each a test.
//!
//! - [`storage`]: the replicating storage system of the P# paper.

pub mod storage;
