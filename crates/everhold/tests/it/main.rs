//! What people meet first, run: the test that `everhold init` writes.

mod first;
