#![doc = include_str!("../tour.md")]

#[cfg(feature = "infer")]
mod suggest;

#[cfg(feature = "infer")]
pub use everhold_infer as infer;
#[cfg(feature = "infer")]
/// Properties that the executions of a search suggest.
///
/// The whole loop: explore, infer, attack. What falls is not a property of the system, or it is
/// one and the execution that breaks it shows a bug that no one specified.
///
/// ```
/// use everhold::prelude::*;
/// use everhold::{Infer, System};
///
/// /// Adds what it is sent, and keeps the largest.
/// #[derive(Clone, Default, Serialize)]
/// struct Adder { largest: u32, total: u32 }
///
/// impl Node for Adder {
///     type Msg = u32;
///     fn start(&mut self, cx: &mut Cx<u32>) {
///         for number in 1..=5 {
///             cx.send(cx.id(), number);
///         }
///     }
///     fn message(&mut self, _: &mut Cx<u32>, _: NodeId, number: u32) {
///         self.largest = self.largest.max(number);
///         self.total += number;
///     }
/// }
///
/// fn adders(system: &mut System<u32>) {
///     system.nodes("adder", 2, |_| Adder::default());
/// }
///
/// // 1. Explore, and keep what was seen.
/// let report = Explorer::new().executions(20).traces(20).run(adders);
/// // 2. Infer: it prints as a file of properties, with what speaks for each.
/// let inferred = report.infer();
/// println!("{inferred}");
/// let candidates = inferred.candidates();
/// assert!(candidates.iter().any(|p| p.name == "n.total <= 15"), "{inferred}");
/// // 3. Attack: search for executions that break the candidates.
/// let attack = Explorer::new().executions(2_000).attack(&candidates, adders);
/// println!("{} of {} candidates fell", attack.fell.len(), candidates.len());
/// assert!(attack.stood.iter().any(|p| p.name == "n.total <= 15"), "{attack}");
/// # assert_eq!(attack.fell.len() + attack.stood.len() + attack.unjudged.len(), candidates.len());
/// ```
pub use everhold_infer::Infer;
#[cfg(feature = "infer")]
pub use everhold_infer::Inferred;
#[cfg(feature = "infer")]
pub use suggest::{Attacked, InferExecutions};

#[cfg(feature = "hosts")]
pub use everhold_host as host;
#[cfg(feature = "hosts")]
pub use everhold_host::{Hosts, Net, hosts};
#[cfg(feature = "live")]
pub use everhold_live as live;
pub use everhold_node as node;
pub use everhold_property as property;
pub use everhold_report as pages;
pub use everhold_sim as sim;
pub use everhold_trace as trace;

pub use everhold_node::{
    AsyncCx, Choices, Codec, CrashModel, Cx, Disk, DiskError, Either, Elapsed, Encoded, Monitor,
    Node, NodeId, Random, Ticket, Time, Timer,
};
pub use everhold_sim::{
    Bounds, Cause, Channel, Clocks, Explorer, FASTER_TESTS, Failure, Faults, Finding, Links,
    Network, Reduction, Report, Schedule, Search, Setup, SimVerdict, Stop, System, View, explore,
    history,
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
///
/// [`System`], [`Network`] and [`Time`] are not among them, because many programs have types of these names.
pub mod prelude {
    pub use crate::{
        AsyncCx, Bounds, Channel, Clocks, CrashModel, Cx, Disk, Either, Elapsed, Explorer, Faults,
        Links, Monitor, Node, NodeId, Reduction, Report, Schedule, Search, Setup, SimVerdict,
        Ticket, Timer, View, explore,
    };
    #[cfg(feature = "timed")]
    pub use crate::{Durations, Perf, PerfVerdict, Timed, TimedChannel};
    pub use serde::{Deserialize, Serialize};
    pub use std::time::Duration;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

#[cfg(all(doctest, feature = "hosts", feature = "live"))]
#[doc = include_str!("../../../docs/existing.md")]
struct ExistingDoctests;

#[cfg(all(doctest, feature = "timed"))]
#[doc = include_str!("../../../docs/perf.md")]
struct PerfDoctests;
