//! The extent manager of Azure Storage vNext with its test harness (P#, FAST 2016, section 3).
//!
//! Storage is kept in extents, each on three extent nodes (ENs). A manager hears frequent
//! heartbeats and less frequent sync reports from its ENs. Its expiration loop removes ENs whose
//! heartbeats are missing, its repair loop has missing replicas copied from EN to EN.
//!
//! - `manager`: the manager, which is the system under test; it is written without reference to
//!   Everhold.
//! - `harness`: a node around it, modelled ENs, a driver that makes them fail, and the monitor.
//!
//! The bug of section 3.6 is a race between an EN's last sync report and its expiration: a report
//! that arrives late brings the EN's replicas back, and since the EN itself is no longer in the
//! map, it never expires again. The manager counts three replicas for ever, although there are two.
//!
//! Differences from the paper: timers are Everhold's own (the paper had to model them by machines),
//! messages go straight to their receivers instead of through the driver, and an EN that registers
//! is asked for a sync report at once. Without the last change, an EN whose every report happens to
//! arrive while it is expired is never repaired; this is rare but fair, and would therefore be
//! reported.

mod harness;
mod manager;

use everhold::System;
use everhold::prelude::*;

pub use harness::{Driver, ExtentNode, ManagerNode, Msg};
pub use manager::{
    EXPIRATION, EnId, ExtentCenter, ExtentId, ExtentManager, ExtentNodeMap, NetworkEngine, Order,
    REPLICAS, Report,
};

use harness::{EXTENT, RepairMonitor};

/// The known bugs of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// It believes a sync report from an EN that has expired.
    SyncFromExpired,
}

/// The scenarios of the driver (section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Scenario {
    /// One of three ENs has the extent; the other two must receive it.
    Replicate,
    /// All three ENs have the extent; one of them fails and a new one is launched, which must
    /// receive it.
    Fail,
}

/// The bounds of an execution. The timers never end, and in some executions a failure should still
/// be under repair at the end, so that delayed messages can do harm.
pub const BOUNDS: Bounds = Bounds { steps_max: 70, temperature_max: 1_000 };

/// The name of the specification.
pub const REPAIRED: &str = "every extent is repaired";

/// The manager, three ENs and the driver.
pub fn system(
    scenario: Scenario,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let ens: Vec<EnId> = (1..=REPLICAS as u32).map(EnId).collect();
        let (real, with_replica) = match scenario {
            Scenario::Replicate => (ExtentManager::new(bug), vec![ens[0]]),
            Scenario::Fail => (ExtentManager::of_nodes(bug, &ens, &[EXTENT]), ens.clone()),
        };
        let manager = system.node("manager", ManagerNode::new(real));
        let nodes = system.nodes("en", REPLICAS, |number| {
            let extents: &[ExtentId] =
                if with_replica.contains(&ens[number]) { &[EXTENT] } else { &[] };
            ExtentNode::new(manager, ens[number], extents)
        });
        system.node("driver", Driver { scenario, manager, nodes });
        system.faults(Faults::none().delay(3));
        system.monitor(REPAIRED, RepairMonitor { with_replica });
        goals(system, scenario);
    }
}

/// Goals without which a manager that does nothing could pass.
fn goals(system: &mut System<Msg>, scenario: Scenario) {
    match scenario {
        Scenario::Replicate => system.sometimes("the extent is replicated", |s| {
            s.all::<ExtentNode>().filter(|(_, en)| en.has(EXTENT)).count() == REPLICAS
        }),
        Scenario::Fail => {
            let new = NodeId(REPLICAS as u32 + 2);
            system.sometimes("the new EN has a replica", move |s| {
                s.get::<ExtentNode>(new).is_some_and(|en| en.has(EXTENT))
            });
            system.sometimes("an EN expires that failed", |s| expired(s).any(|en| !s.is_up(en)));
            system.sometimes("an EN expires that is up", |s| expired(s).any(|en| s.is_up(en)));
        }
    }
}

/// The ENs that the manager knew from the beginning and has expired.
fn expired<'a>(s: &View<'a, Msg>) -> impl Iterator<Item = NodeId> + use<'a> {
    let manager = s.all::<ManagerNode>().next().map(|(_, node)| node.manager());
    let expired = move |en: &u32| manager.is_some_and(|manager| !manager.is_alive(EnId(*en)));
    (1..=REPLICAS as u32).filter(expired).map(NodeId)
}
