//! Runs the same nodes on a virtual clock, to measure how long executions take.
//!
//! An execution is a sequence of `<node, event, start, duration>`. A node handles one event at a
//! time while others wait in its queue; durations come from [tables](Durations). The messages that
//! an event sends leave when the event ends, and cross a [network](Net) with propagation, bandwidth
//! and queues. Virtual time jumps from event to event, so idle nodes cost nothing.
//!
//! All randomness is [keyed](Draws) by link and index on the link, or by node and index at the
//! node, so one draw can be changed while the rest stay the same. A [`World`] whose nodes can be
//! copied can be [forked](World::fork).
//!
//! ```
//! use std::time::Duration;
//! use everhold_node::{Cx, Node, NodeId};
//! use everhold_timed::{Durations, Net, Timed};
//! use serde::Serialize;
//!
//! #[derive(Clone, Serialize)]
//! struct Ring { next: NodeId, seen: u32 }
//!
//! impl Node for Ring {
//!     type Msg = u32;
//!     fn start(&mut self, cx: &mut Cx<u32>) {
//!         if cx.id() == NodeId(0) { cx.send(self.next, 0); }
//!     }
//!     fn message(&mut self, cx: &mut Cx<u32>, _: NodeId, hops: u32) {
//!         self.seen += 1;
//!         cx.send(self.next, hops + 1);
//!     }
//! }
//!
//! let timed = Timed::new(|system| {
//!     system.nodes("ring", 4, |at| Ring { next: NodeId((at as u32 + 1) % 4), seen: 0 });
//! })
//! .network(Net::ideal(Duration::from_millis(5)))
//! .durations(Durations::none())
//! .stop_when_each(|node: &Ring| node.seen >= 1);
//!
//! let run = timed.run(7);
//! assert!(run.is_done());
//! assert_eq!(run.time, Duration::from_millis(20));
//! ```
//!
//! In reading order:
//!
//! - `queue`, `draw`, `links`, `kinds`: the building blocks; [`Durations`], [`Net`]: the settings.
//! - `env`, `network`, `fair`, `streams`, `upset`, `runtime`: the environment of one execution.
//! - `world`: the nodes in it, a step function, forks; `stop`: the stopping condition.
//! - [`Draws`]: the identity of an execution; [`Recorded`]: the record of one.
//! - [`perf`]: many executions, the slow ones among them, and the reasons why they are slow.

mod busy;
mod draw;
mod draws;
mod durations;
mod env;
mod fair;
mod fault;
mod kinds;
mod links;
mod model;
mod net;
mod network;
mod queue;
mod record;
mod run;
mod runtime;
mod stop;
mod streams;
mod to_trace;
mod train;
mod upset;
mod world;

pub mod perf;

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use everhold_node::Message;
use everhold_property::Modality;
use everhold_sim::engine::read_properties;
use everhold_sim::{Channel, System, View};
use everhold_trace::Execution;

pub use draws::{Change, Delay, Draws, OnLink};
pub use durations::{Durations, DurationsError, Quantiles};
pub use fault::{Driver, FaultTimes, TimedFault};
pub use model::{ClockModel, DiskModel};
pub use net::{Access, Link, Net, NetError, Queueing, Sharing, Transport};
pub use record::{Event, Fate, Recorded, Sent, TimerSet, Trigger};
pub use run::{Ended, TimedRun};
pub use world::World;

use kinds::Kinds;
use model::Model;
use record::Recorder;
use stop::Stopping;

/// The default bound on simulated time, beyond which an execution is given up.
const TIME_MAX: Duration = Duration::from_secs(1_000);
/// The default bound on events, beyond which an execution is given up.
const EVENTS_MAX: u64 = 10_000_000;

/// A [`Channel`] whose messages take time.
pub trait TimedChannel {
    /// Sets latency, bandwidth and loss on the virtual clock; the explorer ignores them. Without
    /// this, the link is that of the [`Net`].
    #[must_use]
    fn timed(self, link: Link) -> Self;
}

impl TimedChannel for Channel {
    fn timed(self, link: Link) -> Self {
        self.with_remark(link)
    }
}

/// A system with a network, handler durations and a stopping condition. It is cheap to clone and
/// can be shared by threads, each of which makes a [`Sim`] of its own.
pub struct Timed<M: Message> {
    setup: Arc<dyn Fn(&mut System<M>) + Send + Sync>,
    net: Net,
    durations: Durations,
    size: Option<Arc<dyn Fn(&M) -> u64 + Send + Sync>>,
    clock: ClockModel,
    disk: Option<DiskModel>,
    stopping: Stopping<M>,
    driver: Option<Arc<dyn Fn(&mut Driver<M>) + Send + Sync>>,
    fault_times: FaultTimes,
    time_max: Duration,
    events_max: u64,
    checked: bool,
}

impl<M: Message> Clone for Timed<M> {
    fn clone(&self) -> Self {
        Timed {
            setup: Arc::clone(&self.setup),
            net: self.net.clone(),
            durations: self.durations.clone(),
            size: self.size.clone(),
            clock: self.clock,
            disk: self.disk.clone(),
            stopping: self.stopping.clone(),
            driver: self.driver.clone(),
            ..*self
        }
    }
}

impl<M: Message> fmt::Debug for Timed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed").field("net", &self.net).finish_non_exhaustive()
    }
}

impl<M: Message> Timed<M> {
    /// Takes the system that `setup` describes, as [`explore`](everhold_sim::explore()) does.
    pub fn new(setup: impl Fn(&mut System<M>) + Send + Sync + 'static) -> Self {
        Timed {
            setup: Arc::new(setup),
            net: Net::default(),
            durations: Durations::default(),
            size: None,
            clock: ClockModel::default(),
            disk: None,
            stopping: Stopping::default(),
            driver: None,
            fault_times: FaultTimes::default(),
            time_max: TIME_MAX,
            events_max: EVENTS_MAX,
            checked: true,
        }
    }

    /// Sets the network.
    #[must_use]
    pub fn network(self, net: Net) -> Self {
        Timed { net, ..self }
    }

    /// Sets the durations of handlers.
    #[must_use]
    pub fn durations(self, durations: Durations) -> Self {
        Timed { durations, ..self }
    }

    /// Sets the function that gives the size of a message in bytes. By default this is the size of
    /// its [serialisation](everhold_node::fingerprint::size()).
    #[must_use]
    pub fn message_size(self, size: impl Fn(&M) -> u64 + Send + Sync + 'static) -> Self {
        Timed { size: Some(Arc::new(size)), ..self }
    }

    /// Sets the errors of clocks. By default clocks are exact.
    #[must_use]
    pub fn clocks(self, clock: ClockModel) -> Self {
        Timed { clock, ..self }
    }

    /// Sets the costs of disks. By default disks cost nothing.
    #[must_use]
    pub fn disks(self, disk: DiskModel) -> Self {
        Timed { disk: Some(disk), ..self }
    }

    /// Ends an execution when the condition is true. The condition is evaluated after every event.
    /// If it can be stated for single nodes, [`stop_when_each`](Timed::stop_when_each) is much
    /// cheaper; with both, this one is evaluated only while every node satisfies that one.
    #[must_use]
    pub fn stop_when(self, done: impl Fn(&View<'_, M>) -> bool + Send + Sync + 'static) -> Self {
        let stopping = Stopping { whole: Some(Arc::new(done)), ..self.stopping };
        Timed { stopping, ..self }
    }

    /// Ends an execution when the condition is true at every node of type `T`. After an event, only
    /// its node is evaluated. A node that has stopped for good is ignored: the remaining nodes must
    /// satisfy the condition. A node that is down for a while is awaited.
    #[must_use]
    pub fn stop_when_each<T: Any>(self, fine: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        let local = move |state: &dyn Any| state.downcast_ref::<T>().map(&fine);
        let stopping = Stopping { each: Some(Arc::new(local)), ..self.stopping };
        Timed { stopping, ..self }
    }

    /// Ends an execution when a condition in the property language is true, such as
    /// `forall n in nodes: n.joined`.
    ///
    /// # Panics
    ///
    /// If the text has errors, or is more than one property.
    #[must_use]
    #[track_caller]
    pub fn stop_when_property(self, text: &str) -> Self {
        let caller = std::panic::Location::caller().to_string();
        let whole = if text.contains('"') && text.trim_start().starts_with("sometimes") {
            text.to_owned()
        } else {
            format!("sometimes \"done\": {text}")
        };
        let mut read = read_properties(&whole, &caller).unwrap_or_else(|errors| panic!("{errors}"));
        let goal = read.pop().filter(|p| p.modality == Modality::Sometimes && read.is_empty());
        let goal = goal.expect("a stopping condition is one condition, or one `sometimes`");
        let stopping = Stopping { property: Some(goal), ..self.stopping };
        Timed { stopping, ..self }
    }

    /// Sets the external events: inputs, late starts and faults at given times.
    #[must_use]
    pub fn driver(self, driver: impl Fn(&mut Driver<M>) + Send + Sync + 'static) -> Self {
        Timed { driver: Some(Arc::new(driver)), ..self }
    }

    /// Sets the period in which the faults of the system's budget happen.
    #[must_use]
    pub fn fault_times(self, fault_times: FaultTimes) -> Self {
        Timed { fault_times, ..self }
    }

    /// Sets the bound on simulated time, beyond which an execution is given up; 1,000 s by default.
    #[must_use]
    pub fn time_max(self, time_max: Duration) -> Self {
        Timed { time_max, ..self }
    }

    /// Sets the bound on events, beyond which an execution is given up; 10 million by default.
    #[must_use]
    pub fn events_max(self, events_max: u64) -> Self {
        Timed { events_max, ..self }
    }

    /// Disables the system's `always` rules and properties, so that only time is measured.
    #[must_use]
    pub fn unchecked(self) -> Self {
        Timed { checked: false, ..self }
    }

    /// Returns true if there is no stopping condition: the outcome of every execution is then
    /// unknown.
    #[must_use]
    pub fn never_stops(&self) -> bool {
        self.stopping.is_never()
    }

    /// Checks the settings for contradictions and impossible values.
    ///
    /// # Errors
    ///
    /// Returns the first problem found.
    pub fn check(&self) -> Result<(), NetError> {
        self.net.check()
    }

    /// Makes a simulator for this thread.
    ///
    /// # Panics
    ///
    /// If the settings are invalid; see [`check`](Timed::check).
    #[must_use]
    pub fn sim(&self) -> Sim<M> {
        let model = Model::new(self).unwrap_or_else(|error| panic!("{error}"));
        Sim { model: Rc::new(model), world: None, kinds: Kinds::default() }
    }

    /// Runs one execution. For many, make one [`Sim`] and keep it.
    ///
    /// # Panics
    ///
    /// If the settings are invalid; see [`check`](Timed::check).
    #[must_use]
    pub fn run(&self, draws: impl Into<Draws>) -> TimedRun {
        self.sim().run(draws)
    }

    /// Runs one execution and records everything that happens in it.
    ///
    /// # Panics
    ///
    /// If the settings are invalid; see [`check`](Timed::check).
    #[must_use]
    pub fn record(&self, draws: impl Into<Draws>) -> Recorded {
        self.sim().record(draws)
    }

    /// Measures the durations of handlers in this many executions: the processor time spent in
    /// each, so that other programs on the machine do not count. (Platforms without this figure use
    /// wall time: [`Durations::MEASURED_AS`] tells which it is.) A kind of event that did not occur
    /// keeps its present durations.
    ///
    /// # Panics
    ///
    /// If the settings are invalid; see [`check`](Timed::check).
    #[must_use]
    pub fn train(&self, executions: u64) -> Durations {
        let mut sim = self.sim();
        let mut probe = Some(train::Probe::new());
        for seed in 0..executions {
            let mut world = sim.fresh(Draws::seed(seed), None);
            world.probe = probe.take();
            world.finish();
            probe = world.probe.take();
            sim.keep(world);
        }
        let probe = probe.expect("every world gives it back");
        probe.durations(&sim.kinds.labels(), &self.durations)
    }
}

/// Runs executions on one thread, one after the other, and reuses their memory.
pub struct Sim<M: Message> {
    model: Rc<Model<M>>,
    world: Option<World<M>>,
    kinds: Kinds,
}

impl<M: Message> fmt::Debug for Sim<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").finish_non_exhaustive()
    }
}

impl<M: Message> Sim<M> {
    /// Returns true if some nodes are marked as load generators.
    pub(crate) fn has_load(&self) -> bool {
        !self.model.load.is_empty()
    }

    /// Runs one execution from start to end.
    pub fn run(&mut self, draws: impl Into<Draws>) -> TimedRun {
        let mut world = self.fresh(draws.into(), None);
        let run = world.finish();
        self.keep(world);
        run
    }

    /// Runs one execution and records everything that happens in it.
    pub fn record(&mut self, draws: impl Into<Draws>) -> Recorded {
        self.recorded(draws.into(), Recorder::default())
    }

    /// Runs one execution and returns it as a trace with states, contents and times, for reports
    /// and for checking.
    pub fn trace(&mut self, draws: impl Into<Draws>) -> Execution {
        let recorder = Recorder { full: true, ..Recorder::default() };
        to_trace::execution(&self.recorded(draws.into(), recorder))
    }

    fn recorded(&mut self, draws: Draws, recorder: Recorder) -> Recorded {
        let mut world = self.fresh(draws, Some(recorder));
        let run = world.finish();
        let recorded = world.recorded(run).expect("the execution was recorded");
        self.keep(world);
        recorded
    }

    /// Starts an execution that advances event by event.
    pub fn start(&mut self, draws: impl Into<Draws>) -> World<M> {
        self.fresh(draws.into(), None)
    }

    /// Keeps the memory of an execution for the next one.
    pub fn keep(&mut self, world: World<M>) {
        self.kinds.clone_from(&world.env.borrow().state.kinds);
        if Rc::ptr_eq(&self.model, &world.env.borrow().model) {
            self.world = Some(world);
        }
    }

    /// Returns the kinds of event seen so far that have no durations and use the default.
    #[must_use]
    pub fn untrained(&self) -> Vec<String> {
        let mut kinds = self.kinds.labels();
        kinds.retain(|kind| self.model.durations.get(kind).is_none());
        kinds.sort();
        kinds.dedup();
        kinds
    }

    fn fresh(&mut self, draws: Draws, recorder: Option<Recorder>) -> World<M> {
        let world = self.world.take();
        let mut world =
            world.unwrap_or_else(|| World::new(Rc::clone(&self.model), self.kinds.clone()));
        world.reset(draws, recorder);
        world
    }
}
