//! Crates that people use, under Everhold: a harness and its specification for each.
//!
//! `docs/found.md` says what was found; the package `alone` reproduces it without Everhold.

pub mod foca;
pub mod noraft;
pub mod omnipaxos;
pub mod replicated_map;
pub mod replicated_set;
pub mod viewstamped;
