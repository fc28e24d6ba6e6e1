//! The explorer, from outside.
//!
//! - `toys`: small systems that the other modules explore.
//! - `disks`: crashes in the middle of an event, and the contents that they leave on a disk.
//! - `nodes`: the abilities of nodes: guards, async programs, disks, timers, spawning, assertions.
//! - `halts`: handlers that do not return or do too much, checkers that give up.
//! - `findings`: nothing that was found is lost, whatever fails while it is shown.
//! - `faults`: every fault happens, within its budget, and shrinks away when it is not needed.
//! - `network`: streams and their connections, links, one-way partitions, mailboxes.
//! - `liveness`: hot for ever, quiet but hot, deadlock; fair tails and lassos.
//! - `bounds`: idle ticks do not count, and the bound on steps follows the system.
//! - `fairness`: correct systems with timers are left alone in the fair tail, whatever their size.
//! - `clocks`: clocks that drift within their bound, and no further.
//! - `links`: rules for links and kinds of messages, channels and mailboxes that are full.
//! - `strategies`: each finds what it is known for; results do not depend on workers.
//! - `circles`: an exhaustive search judges circles of states in which progress stays owed.
//! - `exhaustive`: reductions against plain search: same verdicts, same final states.
//! - `replay`: tokens and regressions from a real failing process; schedules that no longer fit;
//!   programs that are not functions of their schedules; handlers that do not return.
//! - `recorded`: recordings of hosted nodes.
//! - `inputs`: weighted choices, setups that functions return, budgets that the environment raises.
//! - `language`: properties in the language.
//! - `attack`: traces that are kept, candidates that fall or stand.
//! - `place`: tests of this binary in processes and folders of their own.
//! - `limits`: the limits of the explorer, pinned.

mod attack;
mod bounds;
mod calls;
mod circles;
mod clocks;
mod determinism;
mod disks;
mod exhaustive;
mod fairness;
mod faults;
mod findings;
mod halts;
mod inputs;
mod language;
mod limits;
mod links;
mod liveness;
mod network;
mod nodes;
mod place;
mod recorded;
mod replay;
mod setups;
mod strategies;
mod toys;
mod untested;
