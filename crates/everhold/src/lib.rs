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
    Report, Schedule, Search, Setup, Stop, System, Verdict, View, explore, history,
};
#[cfg(feature = "timed")]
pub use everhold_timed as timed;
#[cfg(feature = "timed")]
pub use everhold_timed::perf::{self, Perf, PerfReport, PerfVerdict};
#[cfg(feature = "timed")]
pub use everhold_timed::{Durations, Timed, TimedChannel};
pub use everhold_trace::Value;
#[cfg(feature = "watch")]
pub use everhold_watch as watch;

/// The items that most tests need, in one import.
pub mod prelude {
    pub use crate::{
        AsyncCx, Bounds, Channel, Clocks, CrashModel, Cx, Disk, Either, Elapsed, Explorer, Faults,
        Links, Monitor, Network, Node, NodeId, Reduction, Report, Schedule, Search, Setup, System,
        Ticket, Time, Timer, Verdict, View, explore,
    };
    #[cfg(feature = "timed")]
    pub use crate::{Durations, Perf, PerfVerdict, Timed, TimedChannel};
    pub use serde::{Deserialize, Serialize};
    pub use std::time::Duration;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

#[cfg(all(doctest, feature = "timed"))]
#[doc = include_str!("../../../docs/perf.md")]
struct PerfDoctests;
