//! Attaching to programs that are compiled here. Where the kernel does not allow it, or a compiler is
//! missing, a test says so and leaves the rest out; with `CI` set it fails instead.

mod c;
mod order;
mod safety;
mod support;
mod unwinding;
mod watched;
