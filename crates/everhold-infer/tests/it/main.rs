//! Inference from whole executions.
//!
//! - `twin`: what is inferred holds by the evaluator of the language, on small random executions;
//!   and what holds by it is inferred or hidden with a reason.
//! - `real`: traces of other projects.
//! - `templates`: each template finds what it is for.
//! - `layers`: the two engines do not use each other.
//! - `bad_input`: too little, too mixed or too odd to say anything.

mod bad_input;
mod doubts;
mod layers;
mod random;
mod real;
mod templates;
mod twin;
