//! The environment of the manager: a thin node around it, and a model of everything else.

use everhold::Time;
use everhold::prelude::*;
use serde::Serializer;
use serde::ser::SerializeStruct;

use super::Scenario;
use super::manager::{
    EnId, ExtentCenter, ExtentId, ExtentManager, NetworkEngine, Order, REPLICAS, Report,
};

/// The messages between nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Extent node to manager: I am alive.
    Heartbeat,
    /// Extent node to manager: these are my extents.
    Sync(Vec<ExtentId>),
    /// Manager to extent node: send me a sync report.
    SyncRequest,
    /// Manager to extent node: copy this extent from that node.
    Repair(ExtentId, EnId),
    /// Extent node to extent node: give me this extent.
    CopyRequest(ExtentId),
    /// Extent node to extent node: the extent, if the sender has it.
    CopyResponse(Option<ExtentId>),
    /// Driver to extent node: fail.
    Fail,
}

/// The notifications that the specification receives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heard {
    /// The node has the extent now.
    Repaired(EnId),
    /// The node failed.
    Failed(EnId),
}

/// The only extent in the scenarios.
pub(super) const EXTENT: ExtentId = ExtentId(1);

/// The modelled network engine, which sends the manager's orders through the context.
struct ModelNetwork<'a, 'b>(&'a mut Cx<'b, Msg>);

impl NetworkEngine for ModelNetwork<'_, '_> {
    fn send(&mut self, to: EnId, order: Order) {
        let msg = match order {
            Order::Sync => Msg::SyncRequest,
            Order::Repair { extent, source } => Msg::Repair(extent, source),
        };
        self.0.send(NodeId(to.0), msg);
    }
}

/// The real manager, with its loops driven by timers.
#[derive(Clone, Debug)]
pub struct ManagerNode {
    manager: ExtentManager,
    now: Duration,
}

impl ManagerNode {
    const LOOP: Duration = Duration::from_millis(100);

    pub(super) fn new(manager: ExtentManager) -> Self {
        ManagerNode { manager, now: Duration::ZERO }
    }

    /// The wrapped manager.
    #[must_use]
    pub fn manager(&self) -> &ExtentManager {
        &self.manager
    }
}

/// The observed state contains how long nodes have been silent, not when they reported last: the
/// manager's behaviour does not depend on absolute times, and a state that contains them would
/// never recur.
impl Serialize for ManagerNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let silences: Vec<_> = self.manager.silences(self.now).collect();
        let mut shown = serializer.serialize_struct("ManagerNode", 2)?;
        shown.serialize_field("center", self.manager.center())?;
        shown.serialize_field("silences", &silences)?;
        shown.end()
    }
}

impl Node for ManagerNode {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("expire", ManagerNode::LOOP);
        cx.set_timer("repair", ManagerNode::LOOP);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        let report = match msg {
            Msg::Heartbeat => Report::Heartbeat,
            Msg::Sync(extents) => Report::Sync(extents),
            other => return cx.unexpected(other),
        };
        let network = &mut ModelNetwork(cx);
        self.manager.process_message(self.now, network, EnId(from.0), &report);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        self.now = cx.now() - Time::ZERO;
        match timer.name {
            "expire" => self.manager.expire(self.now),
            _ => self.manager.repair(&mut ModelNetwork(cx)),
        }
        cx.set_timer(timer, ManagerNode::LOOP);
    }
}

/// A modelled extent node. It stores its replicas in the manager's own [`ExtentCenter`].
#[derive(Clone, Debug, Serialize)]
pub struct ExtentNode {
    manager: NodeId,
    id: EnId,
    center: ExtentCenter,
}

impl ExtentNode {
    const HEARTBEAT: Duration = Duration::from_millis(100);
    const SYNC: Duration = Duration::from_millis(200);

    pub(super) fn new(manager: NodeId, id: EnId, extents: &[ExtentId]) -> Self {
        let mut center = ExtentCenter::default();
        center.update(id, extents);
        ExtentNode { manager, id, center }
    }

    /// Whether this node has the extent.
    #[must_use]
    pub fn has(&self, extent: ExtentId) -> bool {
        self.center.has(self.id, extent)
    }

    fn report(&self, cx: &mut Cx<Msg>) {
        cx.send(self.manager, Msg::Sync(self.center.sync_report(self.id)));
    }

    fn copied(&mut self, cx: &mut Cx<Msg>, extent: ExtentId) {
        self.center.add(self.id, extent);
        cx.notify(Heard::Repaired(self.id));
    }
}

impl Node for ExtentNode {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("heartbeat", ExtentNode::HEARTBEAT);
        cx.set_timer("sync", ExtentNode::SYNC);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::SyncRequest => self.report(cx),
            Msg::Repair(extent, source) => cx.send(NodeId(source.0), Msg::CopyRequest(extent)),
            Msg::CopyRequest(extent) => {
                cx.send(from, Msg::CopyResponse(self.has(extent).then_some(extent)));
            }
            Msg::CopyResponse(Some(extent)) => self.copied(cx, extent),
            Msg::CopyResponse(None) => {}
            Msg::Fail => {
                cx.notify(Heard::Failed(self.id));
                cx.halt();
            }
            other @ (Msg::Heartbeat | Msg::Sync(_)) => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer.name == "heartbeat" {
            cx.send(self.manager, Msg::Heartbeat);
            cx.set_timer(timer, ExtentNode::HEARTBEAT);
        } else {
            self.report(cx);
            cx.set_timer(timer, ExtentNode::SYNC);
        }
    }
}

/// Drives the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    pub(super) scenario: Scenario,
    pub(super) manager: NodeId,
    pub(super) nodes: Vec<NodeId>,
}

impl Driver {
    const TICK: Duration = Duration::from_millis(100);

    /// Fails a node that the strategy chooses, and launches a new one.
    fn inject_failure(&self, cx: &mut Cx<Msg>) {
        let victim = self.nodes[cx.choose("victim", self.nodes.len())];
        cx.send(victim, Msg::Fail);
        let id = EnId(self.nodes.len() as u32 + 2);
        let new = cx.spawn("en", ExtentNode::new(self.manager, id, &[]));
        assert_eq!(new, NodeId(id.0), "an extent node's id is that of its node");
    }
}

impl Node for Driver {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        if self.scenario == Scenario::Fail {
            cx.set_timer("driver", Driver::TICK);
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if cx.flip("later") {
            cx.set_timer(timer, Driver::TICK);
        } else {
            self.inject_failure(cx);
        }
    }
}

/// Liveness (section 3.5): cold while there are enough replicas, hot while some are missing.
#[derive(Clone, Serialize)]
pub(super) struct RepairMonitor {
    pub(super) with_replica: Vec<EnId>,
}

impl Monitor for RepairMonitor {
    type Event = Heard;

    fn observe(&mut self, event: &Heard) {
        match event {
            Heard::Failed(node) => self.with_replica.retain(|known| known != node),
            Heard::Repaired(node) if !self.with_replica.contains(node) => {
                self.with_replica.push(*node);
            }
            Heard::Repaired(_) => {}
        }
    }

    fn is_hot(&self) -> bool {
        self.with_replica.len() < REPLICAS
    }
}
