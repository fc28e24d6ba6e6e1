//! The compiled evaluator, which keeps up with a stream of states.
//!
//! - [`Program`]: a property compiled. Variables are registers, fields are slots, quantifiers are
//!   loops.
//! - [`Row`]: the values that a program reads from one node's state, looked up once. Rows can be
//!   prepared in advance and shared.
//! - [`Evaluator`]: the rows of all nodes and the cached results. After a node changed, only the
//!   bindings that contain it are judged again.
//!
//! The meaning is that of the plain evaluator, against which it is tested.

mod compile;
mod evaluator;
mod folding;
mod ir;
mod measure;
mod row;
mod run;

pub use compile::Program;
pub use evaluator::{Evaluator, Tuples};
pub(crate) use measure::Measure;
pub use row::Row;
