#![doc = include_str!("../tour.md")]

#[cfg(feature = "infer")]
mod inferred;

#[cfg(feature = "infer")]
pub use everhold_infer as infer;
#[cfg(feature = "infer")]
pub use inferred::{Infer, Inferred};

#[cfg(feature = "live")]
pub use everhold_live as live;
pub use everhold_node as node;
pub use everhold_property as property;
pub use everhold_report as report;
pub use everhold_sim as sim;
pub use everhold_trace as trace;

pub use everhold_node::{
    AsyncCx, Choices, Codec, CrashModel, Cx, Disk, DiskError, Either, Elapsed, Encoded, Monitor,
    Node, NodeId, Random, Ticket, Time, Timer,
};
pub use everhold_sim::{
    Bounds, Cause, Channel, Clocks, Explorer, Failure, Faults, Finding, Links, Network, Reduction,
    Report, Schedule, Search, Setup, Stop, System, Verdict, View, explore, history, perf, timed,
};
pub use everhold_trace::Value;
pub use perf::{Perf, PerfReport, PerfVerdict};
pub use timed::{Durations, Timed};

/// The items that most tests need, in one import.
pub mod prelude {
    pub use crate::{
        AsyncCx, Bounds, Channel, Clocks, CrashModel, Cx, Disk, Durations, Either, Elapsed,
        Explorer, Faults, Links, Monitor, Network, Node, NodeId, Perf, PerfVerdict, Reduction,
        Report, Schedule, Search, Setup, System, Ticket, Time, Timed, Timer, Verdict, View,
        explore,
    };
    pub use serde::{Deserialize, Serialize};
    pub use std::time::Duration;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/perf.md")]
struct PerfDoctests;
