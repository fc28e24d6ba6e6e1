//! Tests of the virtual clock and the analysis of slow executions through the public interface.
//!
//! - `timed`: the same nodes on a virtual clock; `clocks`, `links`, `network`, `inputs`: the rules
//!   that a system sets also apply there.
//! - `sleeps`: the timers behind sleeps; `runtimes`: the runtimes, random numbers and formats of
//!   other crates. Both also explore.
//! - `progress`: what is owed at the end, judged by virtual time.
//! - `perf`: slow executions are found, named and explained; a healthy system has no findings.
//! - `slow`: slow executions are replayed until they are fast.
//! - `halts`: handlers without an end, closures that panic, checkers that give up.
//! - `limits`: known limitations of the virtual clock.

mod clocks;
mod halts;
mod inputs;
mod limits;
mod links;
mod network;
mod perf;
mod progress;
mod runtimes;
mod sleeps;
mod slow;
mod timed;
