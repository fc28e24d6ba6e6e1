//! State and order of unmodified, running processes.
//!
//! A probe file names functions of a program and what to see at them. The kernel sets breakpoints at
//! well-chosen instructions and runs generated programs there, which write what they read into a ring
//! buffer; records become what a probe inside the process would have sent to a watch, or written into
//! a recording. The program is not changed, restarted or stopped.
//!
//! - [`ProbeFile`]: the language.
//! - [`Binary`], [`resolve()`]: from names to instructions and registers, with debug information, with
//!   symbols alone, or with the function table of stripped Go programs.
//! - [`Plan`]: what attaching would do, before anything is touched.
//! - [`Attached`]: breakpoints in force.

mod assemble;
mod binary;
mod btf;
mod capture;
mod code;
mod dwarf;
mod error;
mod golang;
mod hook;
mod language;
mod network;
mod nodes;
mod order;
mod owners;
mod plan;
mod processes;
mod program;
mod record;
mod resolve;
mod session;

pub use binary::Binary;
pub use error::{AttachError, AttachErrorKind};
pub use language::{
    Action, BUDGET, Comparison, Condition, Expr, Identity, Kind, LanguageError, Literal, Path,
    Probe, ProbeFile, Root, Step, When,
};
pub use plan::{Plan, Target, Targets, missing_capabilities};
pub use resolve::{Problem, Resolution, Resolved, Site, resolve};
pub use session::{Attached, Options, Totals};
