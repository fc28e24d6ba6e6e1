//! A system and its settings, in the form that executions use; each thread has its own.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use everhold_node::{Blueprint, Message, NodeId};
use everhold_property::Library;
use everhold_sim::Faults;
use everhold_sim::engine::{MonitorSlot, Parts, Properties, Rule, node_id};
use everhold_sim::record::NodeRecord;

use super::Timed;
use super::durations::Durations;
use super::fault::{Driver, FaultTimes};
use super::net::{Link, NetError, Ways};
use super::stop::{Nearness, Stopping};

/// The deviation of the nodes' clocks from simulated time, drawn for each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockModel {
    /// The largest offset of a clock at the start, in either direction.
    pub offset_max: Duration,
    /// The largest deviation of a clock's rate, in parts per million. It also affects timers.
    pub drift_max_ppm: u32,
}

/// The costs of a node's disk. They are charged to the event that uses it: messages that the event
/// sends after a sync leave after the sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// The distribution of the duration of a sync.
    pub sync: super::Quantiles,
    /// The number of bytes written per second.
    pub bytes_per_second: u64,
}

pub(crate) struct Model<M: Message> {
    pub(super) blueprints: Vec<Rc<Blueprint<M>>>,
    pub(super) names: Vec<NodeRecord>,
    pub(super) struck: Vec<NodeId>,
    pub(super) faults: Faults,
    pub(super) fault_times: FaultTimes,
    pub(super) always: Vec<Rule<M>>,
    pub(super) eventually: Vec<Rule<M>>,
    pub(super) finally: Vec<Rule<M>>,
    /// Whether properties are judged.
    pub(super) checked: bool,
    pub(super) properties: Option<Properties>,
    pub(super) monitors: Vec<MonitorSlot>,
    pub(super) library: Library,
    pub(super) ways: Ways,
    pub(super) durations: Durations,
    pub(super) size: Option<Arc<dyn Fn(&M) -> u64 + Send + Sync>>,
    pub(super) clock: ClockModel,
    pub(super) disk: Option<(Vec<u64>, u64)>,
    pub(super) stopping: Stopping<M>,
    pub(super) progress: Nearness,
    pub(super) driver: Driver<M>,
    pub(super) time_max: u64,
    pub(super) events_max: u64,
    /// The kinds of nodes that only generate load.
    pub(super) load: Vec<String>,
}

impl<M: Message> Model<M> {
    pub(crate) fn new(timed: &Timed<M>) -> Result<Self, NetError> {
        timed.check()?;
        let parts = Parts::of(&*timed.setup);
        let Parts { nodes, names, monitors, always, properties, library, load, .. } = parts;
        let Parts { network, clocks, faults, links, eventually, finally, .. } = parts;
        let checked = timed.checked;
        for link in links.remarks::<Link>().flatten() {
            link.check("a channel of the system's links")?;
        }
        let mut driver = Driver::new();
        if let Some(drive) = &timed.driver {
            drive(&mut driver);
        }
        let strikes =
            |(at, info): (usize, &NodeRecord)| faults.strikes(&info.kind).then(|| node_id(at));
        let properties = Properties::new(&properties, &library).filter(|_| checked);
        let disk =
            timed.disk.as_ref().map(|disk| (disk.sync.table(), disk.bytes_per_second.max(1)));
        Ok(Model {
            struck: names.iter().enumerate().filter_map(strikes).collect(),
            ways: Ways::new(&timed.net, network, &links),
            faults,
            fault_times: timed.fault_times,
            always: if checked { always } else { Vec::new() },
            eventually: if checked { eventually } else { Vec::new() },
            finally: if checked { finally } else { Vec::new() },
            checked,
            properties,
            monitors,
            progress: Nearness::new(&timed.stopping, &library),
            library,
            durations: timed.durations.clone(),
            size: timed.size.clone(),
            clock: ClockModel {
                drift_max_ppm: timed.clock.drift_max_ppm.max(clocks.drift_max_ppm()),
                ..timed.clock
            },
            disk,
            stopping: timed.stopping.clone(),
            driver,
            time_max: super::durations::nanoseconds(timed.time_max),
            events_max: timed.events_max,
            load,
            names,
            blueprints: nodes,
        })
    }
}
