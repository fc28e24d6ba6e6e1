//! Traces to properties: what always held, and what almost always did.
//!
//! - [`dictionary`]: each distinct value once, under a small number.
//! - [`variables`]: what the nodes of each kind show, as a tree of typed variables.
//! - [`states`]: each distinct local state once, its variables in columns, and where it occurred.
//! - [`almost`]: what held in all but a few cases, with the cases.
//! - [`decisions`], [`diff`](mod@diff): what people decided, and what changed.

pub mod almost;
mod bitmap;
pub mod decisions;
pub mod dictionary;
pub mod diff;
pub mod states;
mod stats;
pub mod variables;

pub use almost::{Accounting, Almost, AlmostInvariant, AlmostReport, Episode, Explanation, Score};
pub use decisions::{Decision, DecisionError, Decisions};
pub use dictionary::{Code, Dictionary};
pub use diff::Diff;
pub use states::{KindStates, NodeRun, Run, StateId, States, Step};
pub use stats::wilson;
pub use variables::{Access, Kind, KindId, Origin, Table, TableId, Variable, Variables};
