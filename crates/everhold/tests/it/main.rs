//! What people meet first, run: the README and the test that `everhold init` writes.

mod first;
mod readme;
