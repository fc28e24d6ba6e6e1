//! The README's program, run: what the README prints is what it prints.

mod readme;
