//! Runs the test that `everhold init` writes.

mod first;
