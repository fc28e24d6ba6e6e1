//! The virtual clock and the analysis of slow executions, from outside.
//!
//! - `timed`: the same nodes on a virtual clock; `clocks`, `links`, `network`, `inputs`: a system's own
//!   rules hold there as well.
//! - `sleeps`: the timers behind sleeps; `runtimes`: what crates bring along. Both also explore.
//! - `perf`: slow executions: found, named, explained; silence where there is nothing.
//! - `slow`: slow executions come back, until they are fast.
//! - `limits`: what the virtual clock cannot see, pinned.

mod clocks;
mod inputs;
mod limits;
mod links;
mod network;
mod perf;
mod runtimes;
mod sleeps;
mod slow;
mod timed;
