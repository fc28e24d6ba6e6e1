//! The explorer, from outside.
//!
//! - `toys`: small systems that the other modules explore.
//! - `exhaustive`: reductions against plain search: same verdicts, same final states.
//! - `replay`: tokens, regressions, schedules that no longer fit, programs that are not functions
//!   of their schedules.
//! - `nodes`: what nodes can do: guards, async programs, disks, timers, spawning.
//! - `faults`: every fault happens, within its budget, and shrinks away when it is not needed.
//! - `liveness`: hot for ever, quiet but hot, deadlock; fair tails and lassos.
//! - `strategies`: each finds what it is known for; results do not depend on workers.
//! - `limits`: what the explorer cannot see, pinned.

mod exhaustive;
mod toys;
