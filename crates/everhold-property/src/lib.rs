//! What should hold: the property language.

mod ast;
mod diagnostic;
mod lex;
mod parse;
mod print;

pub use ast::*;
pub use diagnostic::{Diagnostic, Span, nearest, render_all};
pub use parse::{Parsed, parse, parse_expr};
pub use print::{print, print_all, print_expr};
