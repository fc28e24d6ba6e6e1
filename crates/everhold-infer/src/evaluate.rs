//! Evaluation of relations on columns of codes: the layer below both engines.
//!
//! - `truth`: three truth values, and sets of rows by their truth value.
//! - `vectors`, `compare`: comparisons of whole columns with vector instructions.
//! - `code`: number codes, which have the order of the numbers, and value codes, which have none.

mod code;
mod compare;
mod truth;
mod vectors;

pub(crate) use code::{Cell, Column, NumberCode, Numbers, distinct, few};
pub(crate) use truth::{Truth, TruthBits};
pub(crate) use vectors::Vectors;
