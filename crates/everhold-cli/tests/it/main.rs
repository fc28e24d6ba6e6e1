//! The program, as a user runs it, and the rules of the workspace.
//!
//! - `program`: commands, output, exit codes.
//! - `workspace`: what may depend on what; leftovers; what the documents mention exists.

mod program;
mod workspace;
