//! Traces to properties: what always held, and what almost always did.
//!
//! - [`dictionary`]: each distinct value once, under a small number.
//! - [`variables`]: what the nodes of each kind show, as a tree of typed variables.
//! - [`states`]: each distinct local state once, its variables in columns, and where it occurred.
//! - [`snapshots`]: large tables of whole numbers, read straight into columns.
//! - [`mod@always`]: what held wherever it was judged.
//! - [`almost`]: what held in all but a few cases, with the cases.
//! - [`decisions`], [`diff`](mod@diff): what people decided, and what changed.

pub mod almost;
pub mod always;
mod bitmap;
pub mod decisions;
pub mod dictionary;
pub mod diff;
mod evaluate;
mod outcome;
mod parallel;
mod relation;
pub mod snapshots;
pub mod states;
mod stats;
pub mod variables;

pub use almost::{
    Accounting, Almost, AlmostInvariant, AlmostReport, Episode, Exception, Explanation, Predicate,
    Score, Shared,
};
pub use always::{Always, Hidden, Line, Settings, always, always_snapshots};
pub use decisions::{Decision, DecisionError, DecisionErrorKind, Decisions};
pub use dictionary::{Code, Dictionary};
pub use diff::Diff;
pub use outcome::{
    Bound, CutClaims, LeftOut, NotShown, Omission, Premise, Reason, ReasonKind, WhyLeftOut,
};
pub use snapshots::Snapshots;
pub use states::{KindStates, NodeRun, Run, StateId, States, Step};
pub use stats::wilson;
pub use variables::{Access, Kind, KindId, Origin, Table, TableId, Variable, Variables};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/almost.md")]
struct AlmostDoctests;
