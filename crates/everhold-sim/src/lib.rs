//! Nodes under control: a strategy decides what happens next, and what breaks is replayed,
//! shrunk and explained.
//!
//! Start with [`explore()`]; use an [`Explorer`] for budgets, strategies and seeds.
//!
//! In reading order:
//!
//! - [`system`]: what is tested; [`fault`]: what may go wrong; [`links`]: on which links; [`view`]: what properties see.
//! - `properties`: properties in the language, checked while an execution runs.
//! - `env`, `world`: one execution's surroundings and nodes; a step function.
//! - [`moves`]: what can happen next; [`strategy`]: who decides.
//! - `execute`: an execution from start to end; `liveness`: going round for ever.
//! - [`schedule`]: the choices of an execution as a token; [`record`]: what happened in it.
//! - [`explore()`](mod@explore), `worker`, `portfolio`: many executions on all cores.
//! - `investigate`, `shrink`: from a failing execution to a finding; `recorded`: from what hosted
//!   nodes recorded.
//! - [`attack`]: candidates for properties, and the executions that break them.
//! - [`report`], [`coverage`], [`sketch`], `picture`, `regressions`: what is said in the end.
//! - [`history`]: a linearizability checker.
//!
//! The crate `everhold-timed` runs the same systems on a virtual clock. `engine` is the seam between the two.

mod artifacts;
mod clock;
mod differ;
#[doc(hidden)]
pub mod engine;
mod env;
mod execute;
mod exhaust;
mod interrupt;
mod investigate;
mod liveness;
mod monitor;
mod owed;
mod picture;
mod portfolio;
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
pub mod moves;
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
pub use fault::{Fault, FaultKind, Faults, MessageId, Side};
pub use links::{Channel, Links};
pub use record::Recording;
pub use recorded::{BadRecording, Decode};
pub use report::{Finding, Report, Stop, Verdict};
pub use schedule::{Choice, Schedule, TokenError};
pub use strategy::{Reduction, Search};
pub use system::{Answer, Clocks, Network, Setup, System};
pub use untested::Untested;
pub use view::View;
