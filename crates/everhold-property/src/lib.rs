//! What should hold: the property language.

mod ast;
mod checker;
mod diagnostic;
mod eval;
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

pub use ast::*;
pub use checker::{Changed, Checker, End, Outcome, Rule, Tally, Violation};
pub use diagnostic::{Diagnostic, Span, nearest, render_all};
pub use eval::{evaluate, evaluate_expr};
pub use fast::{Evaluator, Program, Row, Tuples};
pub use library::{Function, Library, Signature};
pub use parse::{Parsed, parse, parse_expr};
pub use print::{print, print_all, print_expr};
pub use state::{Member, Snapshot, State};
pub use types::{Schema, Type};
pub use verdict::{Unknown, Verdict};
pub use witness::{Shown, Witness, explain, mentioned};
