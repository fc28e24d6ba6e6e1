//! Traces to properties: what always held, and what almost always did.
//!
//! - [`dictionary`]: each distinct value once, under a small number.
//! - [`variables`]: what the nodes of each kind show, as a tree of typed variables.
//! - [`states`]: each distinct local state once, its variables in columns, and where it occurred.

pub mod dictionary;
pub mod states;
pub mod variables;

pub use dictionary::{Code, Dictionary};
pub use states::{KindStates, NodeRun, Run, StateId, States, Step};
pub use variables::{Access, Kind, KindId, Origin, Table, TableId, Variable, Variables};
