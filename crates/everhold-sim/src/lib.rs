//! Nodes under control: a strategy decides what happens next, and executions that fail are
//! replayed, shrunk and explained.
//!
//! Start with [`explore()`]; use an [`Explorer`] for budgets, strategies and seeds.
//!
//! In reading order:
//!
//! - [`system`]: the system under test; [`fault`]: its faults; [`links`]: rules for single links;
//!   [`view`]: the state that properties see.
//! - `properties`: properties in the language, checked while an execution runs.
//! - `env`, `world`: the surroundings and the nodes of one execution; a step function.
//! - `moves`: the steps that can happen next; [`strategy`]: the choice among them.
//! - `execute`: an execution from start to end; `liveness`: executions that repeat a state for
//!   ever.
//! - [`schedule`]: the choices of an execution as a token; [`record`]: the recording of an
//!   execution.
//! - [`explore()`](mod@explore), `worker`, `portfolio`: many executions on all cores.
//! - `investigate`, `shrink`: from a failing execution to a finding; `recorded`: from the
//!   recordings of hosted nodes.
//! - [`attack`]: candidates for properties, and the executions that break them.
//! - [`report`], [`coverage`], [`sketch`], `picture`, `regressions`: the results, and how they are
//!   shown and kept.
//! - [`history`]: a linearizability checker.
//!
//! The crate `everhold-timed` runs the same systems on a virtual clock; `engine` is its interface
//! to this crate.

mod artifacts;
mod circles;
mod clock;
mod differ;
#[doc(hidden)]
pub mod engine;
mod env;
mod execute;
mod exhaust;
mod inline;
mod interrupt;
mod investigate;
mod liveness;
mod monitor;
mod moves;
mod owed;
mod picture;
mod portfolio;
mod profile;
mod progress;
mod properties;
mod recorded;
mod regressions;
mod repeated;
mod scene;
mod shrink;
mod stuck;
mod tail;
mod to_trace;
mod untested;
mod variants;
mod worker;
mod world;

pub mod attack;
pub mod coverage;
pub mod explore;
pub mod failure;
pub mod fault;
mod halt;
pub mod history;
pub mod links;
pub mod record;
pub mod report;
pub mod rng;
pub mod schedule;
pub mod sketch;
pub mod strategy;
pub mod system;
pub mod view;

pub use attack::{Attack, Fallen};
pub use everhold_node::{CrashModel, NodeId};
pub use execute::Bounds;
pub use explore::{Explorer, explore};
pub use failure::{Cause, Failure};
pub use fault::{Fault, FaultKind, Faults, MessageName, Side};
pub use links::{Channel, Links};
pub use record::RunRecord;
pub use recorded::{BadRecording, Decode};
pub use report::{FASTER_TESTS, Finding, Report, SimVerdict, Stop};
pub use schedule::{Choice, Schedule, TokenError};
pub use strategy::{Reduction, Search};
pub use system::{Answer, Clocks, Network, Setup, System};
pub use untested::Untested;
pub use view::View;
