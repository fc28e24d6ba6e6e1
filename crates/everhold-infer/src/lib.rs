//! Inference of properties from traces: those that always held, and those that almost always did.
//!
//! - [`dictionary`]: each distinct value once, under a small number.
//! - [`variables`]: the variables of each kind of node, as a tree with types.
//! - [`states`]: each distinct local state once, its variables in columns, and where it occurred.
//! - [`snapshots`]: large tables of whole numbers, read straight into columns.
//! - `relation`, `evaluate`: relations of values and their evaluation, the layer below both engines.
//! - [`mod@always`]: properties that held wherever they were judged.
//! - [`almost`]: properties that held in all but a few cases, with the cases.
//! - [`decisions`], [`diff`](mod@diff): decisions of people, and differences between two results.
//! - `arranged`: one text for all arrangements of a claim.
//! - `outcome`: the reasons and limits that a result comes with, as types.

pub mod almost;
pub mod always;
mod arranged;
mod bitmap;
pub mod decisions;
pub mod dictionary;
pub mod diff;
mod evaluate;
mod inferred;
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
pub use arranged::arranged;
pub use decisions::{Decision, DecisionError, DecisionErrorKind, Decisions};
pub use dictionary::{Code, Dictionary};
pub use diff::Diff;
pub use inferred::{Infer, Inferred};
pub use outcome::{
    Bound, CutClaims, LeftOut, NotShown, Omission, Premise, Reason, ReasonKind, Unjudged,
    WhyLeftOut, WhyUnjudged,
};
pub use snapshots::Snapshots;
pub use states::{KindStates, NodeRun, Run, StateId, States, Step};
pub use stats::wilson;
pub use variables::{Access, Kind, KindId, Origin, Table, TableId, Variable, Variables};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/almost.md")]
struct AlmostDoctests;
