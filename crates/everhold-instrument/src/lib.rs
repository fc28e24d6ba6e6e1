//! The library behind `everhold instrument`.
//!
//! A front end turns the source of a package into [`Facts`](facts::Facts): variables, flows of
//! values between them, calls that communicate, and places where statements can be inserted.
//! [`Slices`] finds from these, for every language alike, the variables that interact with the
//! network.

pub mod cargo;
pub mod copy;
mod entries;
pub mod facts;
mod files;
pub mod go;
pub mod insert;
pub mod list;
mod plan;
pub mod rust;
mod slice;

pub use entries::Entries;
pub use plan::{Node, Nodes, Places, Plan, Statement};
pub use slice::{Hop, Slices};
