//! The property language: claims about what must hold in a distributed system.
//!
//! Text becomes a tree ([`parse`]), is checked against the known types of the states ([`check`]),
//! and is judged: in one state ([`evaluate`], [`explain`]), over a sequence of states
//! ([`Checker`]), or over a recorded execution ([`check_execution`]). [`print()`] gives a tree its
//! one canonical text. The language itself is described in [`REFERENCE`].
//!
//! ```
//! use everhold_property::{Changed, Checker, End, Library, Rule, Snapshot, Value, parse};
//!
//! let text = r#"
//! always "one leader per term":
//!   forall a, b in nodes where a != b:
//!     not (a.role == "leader" and b.role == "leader" and a.term == b.term)
//! "#;
//! let properties = parse(text).into_result().unwrap();
//! let rule = Rule::new(&properties[0], &Library::new());
//!
//! let mut checker = Checker::new(&rule);
//! let mut state = Snapshot::default();
//! let nodes = [state.add("s0", "server"), state.add("s1", "server")];
//! for node in nodes {
//!     state.set(node, Value::record([("role", "leader".into()), ("term", Value::Int(3))]));
//!     checker.step(&state, Changed::Node(node), 0);
//! }
//! let violation = checker.finish(End::Cut).violation.unwrap();
//! assert_eq!(violation.witness.to_string(), "\
//! a = s0
//! b = s1
//! a.role = \"leader\"
//! b.role = \"leader\"
//! a.term = 3
//! b.term = 3
//! ");
//! ```
//!
//! In the order of reading:
//!
//! - `ast`, `lex`, `parse`, `print`, `diagnostic`: text and trees.
//! - `library`, `types`, `check`: names and types.
//! - `state`, `verdict`, `ops`, `eval`, `witness`: the meaning.
//! - `fast`: the same, compiled and incremental.
//! - `checker`, `execution`: sequences of states and recorded executions.

mod ast;
mod check;
mod checker;
mod diagnostic;
mod eval;
mod execution;
mod fast;
mod lex;
mod library;
mod ops;
mod parse;
mod print;
mod state;
mod types;
mod verdict;
mod witness;

pub use everhold_trace::{NodeId, Value};

/// The language on one page, in Markdown.
pub const REFERENCE: &str = include_str!("../reference.md");

pub use ast::*;
pub use check::{check, check_all};
pub use checker::{Changed, Checker, End, Outcome, Point, Progress, Rule, Tally, Violation};
pub use diagnostic::{Diagnostic, Span, nearest, render_all};
pub use eval::{evaluate, evaluate_expr};
pub use execution::{
    CutViolation, ExecutionOutcome, Limits, Method, Untested, check_execution, check_ordered,
    check_recorded, untested,
};
pub use fast::{Evaluator, Program, Row, Tuples};
pub use library::{Function, Library, Signature};
pub use ops::relate;
pub use parse::{Parsed, parse, parse_expr};
pub use print::{print, print_all, print_expr, sampling_text};
pub use state::{Member, Snapshot, State};
pub use types::{Schema, Type};
pub use verdict::{Reason, Unknown, Verdict};
pub use witness::{Shown, Witness, explain, mentioned};
