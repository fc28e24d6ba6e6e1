//! The compiled evaluator, which judges states as fast as they come.
//!
//! - [`Program`]: a property compiled. Variables are registers, fields are slots, quantifiers are
//!   loops.
//! - [`Row`]: what a program needs of one node's state, looked up once. Rows can be made ahead
//!   and shared.
//! - [`Evaluator`]: the rows of all nodes and the cached results. After a node changed, only the
//!   bindings that contain it are judged again.
//!
//! The meaning is that of the plain evaluator, against which it is tested.

mod compile;
mod evaluator;
mod folding;
mod ir;
mod row;
mod run;

pub use compile::Program;
pub use evaluator::{Evaluator, Tuples};
pub use row::Row;
